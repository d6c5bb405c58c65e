/* SPDX-License-Identifier: BSD-2-Clause */
#include "snapshot/reader.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "snapshot/snapshot.h"

void *nomem(struct reader *r)
{
	r->err = r->err ?: -ENOMEM;
	return NULL;
}

void wrong(struct reader *r, const char *key, const char *what)
{
	if (r->err)
		return;
	r->err = -EINVAL;
	strbuf__adds(r->reason, r->part);
	if (r->row != NO_ROW)
		strbuf__addf(r->reason, "[%zu]", r->row);
	if (*r->part && key)
		strbuf__addc(r->reason, '.');
	if (key)
		utf8__add_printable(r->reason, key);
	strbuf__addf(r->reason, "%s%s", *r->part || key ? " " : "", what);
}

json_t *get(struct reader *r, json_t *o, const char *key)
{
	json_t *v = json_object_get(o, key);

	if (!v)
		wrong(r, key, "is missing");
	return v;
}

bool is_null(json_t *o, const char *key)
{
	json_t *v = json_object_get(o, key);

	return !v || json_is_null(v);
}

const char *keep(struct reader *r, const char *s)
{
	const char *copy = arena__strdup(r->s->arena, s);

	return copy ?: nomem(r);
}

const char *get_string(struct reader *r, json_t *o, const char *key)
{
	json_t *v = get(r, o, key);

	if (v && !json_is_string(v))
		wrong(r, key, "is no string");
	return json_is_string(v) ? keep(r, json_string_value(v)) : "";
}

const char *get_string_or_null(struct reader *r, json_t *o, const char *key)
{
	return is_null(o, key) ? NULL : get_string(r, o, key);
}

/* Writers put 2^63 and more as reals of 15 digits, which for the greatest is a bit above 2^64. */
uint64_t to_uint(struct reader *r, json_t *v, const char *key)
{
	double d;

	if (json_is_integer(v) && json_integer_value(v) >= 0)
		return (uint64_t)json_integer_value(v);
	d = json_real_value(v);
	if (json_is_real(v) && d >= 0 && d < 1.845e19 && floor(d) == d)
		return d < 0x1p64 ? (uint64_t)d : UINT64_MAX;
	if (v)
		wrong(r, key, "is no count");
	return 0;
}

uint64_t get_uint(struct reader *r, json_t *o, const char *key)
{
	return to_uint(r, get(r, o, key), key);
}

uint64_t get_uint_or_0(struct reader *r, json_t *o, const char *key)
{
	return is_null(o, key) ? 0 : get_uint(r, o, key);
}

int64_t get_int(struct reader *r, json_t *o, const char *key, int64_t min, int64_t max)
{
	json_t *v = get(r, o, key);
	int64_t i = json_integer_value(v);

	if (json_is_integer(v) && i >= min && i <= max)
		return i;
	if (v)
		wrong(r, key, "is no integer in its range");
	return min;
}

double get_ratio(struct reader *r, json_t *o, const char *key, double if_null)
{
	json_t *v = get(r, o, key);

	if (json_is_null(v))
		return if_null;
	if (json_is_number(v) && json_number_value(v) >= 0)
		return json_number_value(v);
	if (v)
		wrong(r, key, "is no ratio");
	return 0;
}

double get_ratio_or_0(struct reader *r, json_t *o, const char *key)
{
	return is_null(o, key) ? 0 : get_ratio(r, o, key, 0);
}

bool get_bool(struct reader *r, json_t *o, const char *key)
{
	json_t *v = get(r, o, key);

	if (v && !json_is_boolean(v))
		wrong(r, key, "is neither true nor false");
	return json_is_true(v);
}

int get_name(struct reader *r, json_t *o, const char *key, const char *const *names, int cnt)
{
	json_t *v = get(r, o, key);

	for (int i = 0; i < cnt && json_is_string(v); i++)
		if (names[i] && !strcmp(names[i], json_string_value(v)))
			return i;
	if (v)
		wrong(r, key, "is no word known here");
	return 0;
}

json_t *get_object(struct reader *r, json_t *o, const char *key)
{
	json_t *v = get(r, o, key);

	if (v && !json_is_object(v))
		wrong(r, key, "is no object");
	return json_is_object(v) ? v : NULL;
}

json_t *get_array(struct reader *r, json_t *o, const char *key)
{
	json_t *v = get(r, o, key);

	if (v && !json_is_array(v))
		wrong(r, key, "is no list");
	return json_is_array(v) ? v : NULL;
}

json_t *get_row(struct reader *r, json_t *list, size_t row)
{
	json_t *v = json_array_get(list, row);

	r->row = row;
	if (!json_is_object(v))
		wrong(r, NULL, "is no object");
	return v;
}

json_t *enter(struct reader *r, json_t *doc, const char *part,
	      json_t *(*get_it)(struct reader *, json_t *, const char *))
{
	json_t *v;

	r->part = "";
	r->row = NO_ROW;
	v = get_it(r, doc, part);
	r->part = part;
	return v;
}

void *zeroed(struct reader *r, size_t cnt, size_t elem_bytes)
{
	return calloc(cnt + 1, elem_bytes) ?: nomem(r);
}

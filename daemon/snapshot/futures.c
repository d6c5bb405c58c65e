/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which functions make a future. `async fn f` compiles to two functions: f itself, which takes no
 * longer than it takes to copy its arguments, and f::{{closure}}, which is polled and does the
 * work. A function with an async block in it looks the same, and may do more. They are told by
 * names.
 */
#include "snapshot/snapshot.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct polls {
	const char **names; /* sorted */
	size_t cnt;
};

static int by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int find_polls(const struct snapshot *s, struct polls *out)
{
	out->cnt = 0;
	out->names = calloc(s->fn_cnt + 1, sizeof(*out->names));
	if (!out->names)
		return -ENOMEM;
	for (size_t i = 0; i < s->fn_cnt; i++)
		if (s->fns[i].is_async)
			out->names[out->cnt++] = s->fns[i].name;
	qsort(out->names, out->cnt, sizeof(*out->names), by_name);
	return 0;
}

/* Where name with "::{" behind it stands in order to poll. */
static int compare_tail(const char *name, size_t len, const char *poll)
{
	int order = strncmp(name, poll, len);

	return order ?: strncmp("::{", poll + len, 3);
}

/* Older symbols say "::{{closure}}", newer ones "::{closure#0}". */
static bool is_closure(const char *tail)
{
	return !strncmp(tail, "::{{closure}}", 13) || !strncmp(tail, "::{closure#", 11);
}

static bool is_polled(const struct polls *p, const char *name)
{
	size_t len = strlen(name), lo = 0, hi = p->cnt;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (compare_tail(name, len, p->names[mid]) > 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	for (; lo < p->cnt && !compare_tail(name, len, p->names[lo]); lo++)
		if (is_closure(p->names[lo] + len))
			return true;
	return false;
}

int snapshot__find_futures(struct snapshot *s)
{
	struct polls p;
	int err = find_polls(s, &p);

	if (err)
		return err;
	for (size_t i = 0; i < s->fn_cnt && p.cnt; i++) {
		struct snapshot_fn *fn = &s->fns[i];

		fn->makes_future |= !fn->is_async && !fn->unprobed && is_polled(&p, fn->name);
	}
	free(p.names);
	return 0;
}

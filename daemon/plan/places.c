/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/places.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "plan/closure.h"
#include "plan/rows.h"
#include "plan/select.h"
#include "symbols/image.h"

/* Which of an address's symbols names it: the plainest, and always the same one. */
static int by_niceness(const struct pick *x, const struct pick *y)
{
	size_t xl = strlen(x->name), yl = strlen(y->name);
	int order;

	if (!x->parts.tag_len != !y->parts.tag_len)
		return x->parts.tag_len ? 1 : -1;
	if ((x->sym->bind == SYMBOL_LOCAL) != (y->sym->bind == SYMBOL_LOCAL))
		return x->sym->bind == SYMBOL_LOCAL ? 1 : -1;
	if (xl != yl)
		return xl < yl ? -1 : 1;
	order = strcmp(x->name, y->name);
	return order ? order : strcmp(x->mangled, y->mangled);
}

int places__find(struct build *b)
{
	const struct selection *sel = b->sel;
	struct place *p = NULL;

	for (size_t i = 0; i < sel->pick_cnt; i++) {
		const struct pick *pick = &sel->picks[i];

		if (closure__is_named(pick->name) &&
		    closure__is_event(b->img, pick->sym->addr, pick->sym->size))
			continue;
		if (!p || p->best->sym->addr != pick->sym->addr) {
			p = vec__push(&b->places);
			if (!p)
				return -ENOMEM;
			*p = (struct place){ pick, 0, NULL };
		}
		if (by_niceness(pick, p->best) < 0)
			p->best = pick;
		if (pick->sym->size > p->size)
			p->size = pick->sym->size;
	}
	return 0;
}

/* Whether functions of one name at several addresses are different functions. */
static bool tells_apart(const struct pick *x)
{
	/* generic instances and a codegen unit's copies are one function; closures of one parent
	 * are several, and a legacy name does not count them */
	return x->parts.lang != NAME_RUST || (x->parts.hash && closure__is_named(x->name));
}

int places__compare(const struct pick *x, const struct pick *y)
{
	int order = strcmp(x->name, y->name);

	if (order || !tells_apart(x) || !tells_apart(y))
		return order;
	if (x->parts.lang == NAME_RUST && y->parts.lang == NAME_RUST)
		return strncmp(x->parts.hash, y->parts.hash, 16);
	return x->sym->addr < y->sym->addr ? -1 : x->sym->addr > y->sym->addr;
}

static int by_identity(const void *a, const void *b)
{
	const struct place *x = a, *y = b;
	int order = places__compare(x->best, y->best);

	if (order)
		return order;
	return x->best->sym->addr < y->best->sym->addr ? -1
						       : x->best->sym->addr > y->best->sym->addr;
}

void places__sort(struct build *b)
{
	if (b->places.cnt)
		qsort(b->places.data, b->places.cnt, sizeof(*b->places.data), by_identity);
}

/* ---- names ---- */

static const char *file_of(struct build *b, const struct place *p)
{
	const char *file = image__str(b->img, p->best->sym->file), *slash;

	if (!p->best->sym->file)
		return "";
	slash = strrchr(file, '/');
	return slash ? slash + 1 : file;
}

static const char *full_name(struct place *p)
{
	if (p->best->parts.lang != NAME_CXX)
		return "";
	if (!p->full)
		p->full = name__demangle_full(p->best->mangled, &p->best->parts);
	return p->full ? p->full : "";
}

char *places__name(struct build *b, size_t lo, size_t hi, size_t first, size_t cnt)
{
	struct place *all = b->places.data, *own = &all[first];
	const struct pick *best = own->best;
	uint32_t hash = address_hash(best->sym->addr) & 0xffff;
	struct strbuf sb = STRBUF_INIT;
	bool same_file = false, same_full = false;

	for (size_t i = lo; i < hi; i++) {
		if (i >= first && i < first + cnt)
			continue;
		same_file |= !strcmp(file_of(b, &all[i]), file_of(b, own));
		same_full |= !strcmp(full_name(&all[i]), full_name(own));
	}
	strbuf__adds(&sb, b->prefix);
	if (hi - lo == cnt)
		strbuf__adds(&sb, best->name);
	else if (best->parts.lang == NAME_RUST)
		strbuf__addf(&sb, "%s #%.6s", best->name, best->parts.hash);
	else if (best->parts.lang == NAME_CXX && !same_full)
		strbuf__adds(&sb, full_name(own));
	else if (*file_of(b, own) && !same_file)
		strbuf__addf(&sb, "%s (%s)", best->name, file_of(b, own));
	else if (*file_of(b, own))
		strbuf__addf(&sb, "%s (%s #%04x)", best->name, file_of(b, own), hash);
	else
		strbuf__addf(&sb, "%s #%04x", best->name, hash);
	return strbuf__take(&sb);
}

void places__free(struct build *b)
{
	for (size_t i = 0; i < b->places.cnt; i++)
		free(b->places.data[i].full);
	vec__free(&b->places);
}

// SPDX-License-Identifier: BSD-2-Clause
#include "symbols/inlines.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <dwarf.h>
#include <elfutils/libdw.h>

#include "base/deadline.h"

#define MAX_NESTING 128

struct walk {
	struct inlines_of *of;
	size_t cnt;
	struct deadline deadline;
};

static int by_vaddr(const void *a, const void *b)
{
	const struct inlines_of *x = a, *y = b;

	return x->vaddr < y->vaddr ? -1 : x->vaddr > y->vaddr;
}

static size_t lower_bound(const struct walk *w, uint64_t vaddr)
{
	size_t lo = 0, hi = w->cnt;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (w->of[mid].vaddr < vaddr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static const char *symbol_of(Dwarf_Die *die)
{
	Dwarf_Attribute attr;

	if (dwarf_attr_integrate(die, DW_AT_linkage_name, &attr))
		return dwarf_formstring(&attr);
	return dwarf_diename(die);
}

/* The addresses that the entry's code holds: how many, and symbol (or NULL) is noted for each. */
static size_t note(struct walk *w, Dwarf_Die *die, const char *symbol)
{
	Dwarf_Addr base, start, end;
	ptrdiff_t at = 0;
	size_t n = 0;

	while ((at = dwarf_ranges(die, at, &base, &start, &end)) > 0) {
		for (size_t i = lower_bound(w, start); i < w->cnt && w->of[i].vaddr < end; i++) {
			struct inlines_of *of = &w->of[i];

			n++;
			if (symbol && of->cnt < INLINES_MAX &&
			    (of->symbols[of->cnt] = strdup(symbol)))
				of->cnt++;
		}
	}
	return n;
}

static void children(struct walk *w, Dwarf_Die *parent, int depth)
{
	Dwarf_Die die;

	if (depth > MAX_NESTING || dwarf_child(parent, &die))
		return;
	do {
		switch (dwarf_tag(&die)) {
		case DW_TAG_subprogram:
		case DW_TAG_lexical_block:
			if (note(w, &die, NULL))
				children(w, &die, depth + 1);
			break;
		case DW_TAG_inlined_subroutine:
			if (note(w, &die, symbol_of(&die)))
				children(w, &die, depth + 1);
			break;
		case DW_TAG_namespace:
		case DW_TAG_module:
		case DW_TAG_structure_type:
		case DW_TAG_class_type:
		case DW_TAG_union_type:
		case DW_TAG_enumeration_type:
			children(w, &die, depth + 1);
			break;
		default:
			break;
		}
	} while (!deadline__passed(&w->deadline) && !dwarf_siblingof(&die, &die));
}

enum lines_end inlines__find(int fd, struct inlines_of *of, size_t cnt, uint64_t limit_ns)
{
	struct walk w = { .of = of, .cnt = cnt, .deadline = deadline__in(limit_ns) };
	Dwarf *dwarf = dwarf_begin(fd, DWARF_C_READ);
	Dwarf_CU *cu = NULL;
	Dwarf_Die die;

	if (!dwarf)
		return LINES_NONE;
	if (cnt)
		qsort(of, cnt, sizeof(*of), by_vaddr);
	while (cnt && !deadline__passed(&w.deadline) &&
	       !dwarf_get_units(dwarf, cu, &cu, NULL, NULL, &die, NULL))
		if (note(&w, &die, NULL))
			children(&w, &die, 0);
	dwarf_end(dwarf);
	return w.deadline.passed ? LINES_LATE : LINES_DONE;
}

void inlines__free(struct inlines_of *of, size_t cnt)
{
	for (size_t i = 0; i < cnt; i++)
		for (uint32_t k = 0; k < of[i].cnt; k++)
			free(of[i].symbols[k]);
	free(of);
}

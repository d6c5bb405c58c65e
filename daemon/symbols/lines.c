// SPDX-License-Identifier: BSD-2-Clause
#include "symbols/lines.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <dwarf.h>
#include <elfutils/libdw.h>

#include "base/deadline.h"

#define MAX_NESTING 64

struct walk {
	struct line_of *lines;
	size_t cnt;
	size_t left; /* of this unit, not found yet */
	struct deadline deadline;
};

static int by_vaddr(const void *a, const void *b)
{
	const struct line_of *x = a, *y = b;

	return x->vaddr < y->vaddr ? -1 : x->vaddr > y->vaddr;
}

/* Index of the first at or above an address. */
static size_t lower_bound(const struct walk *w, uint64_t vaddr)
{
	size_t lo = 0, hi = w->cnt;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (w->lines[mid].vaddr < vaddr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* libdw 0.188 takes file 0 for none, which since DWARF 5 is the unit's own file. */
static const char *first_file(Dwarf_Die *die)
{
	Dwarf_Attribute attr;
	Dwarf_Files *files;
	Dwarf_Word nr;
	Dwarf_Die unit;
	Dwarf_Half version;
	size_t cnt;

	if (!dwarf_attr_integrate(die, DW_AT_decl_file, &attr) || dwarf_formudata(&attr, &nr) ||
	    nr || !dwarf_cu_die(attr.cu, &unit, &version, NULL, NULL, NULL, NULL, NULL) ||
	    version < 5 || dwarf_getsrcfiles(&unit, &files, &cnt) || !cnt)
		return NULL;
	return dwarf_filesrc(files, 0, NULL, NULL);
}

static void function(struct walk *w, Dwarf_Die *die)
{
	Dwarf_Addr start;
	const char *file;
	int line = 0;
	size_t i;

	if (dwarf_lowpc(die, &start))
		return;
	i = lower_bound(w, start);
	if (i == w->cnt || w->lines[i].vaddr != start || w->lines[i].file)
		return;
	file = dwarf_decl_file(die) ?: first_file(die);
	if (!file || dwarf_decl_line(die, &line) || line <= 0)
		return;
	for (; i < w->cnt && w->lines[i].vaddr == start; i++) {
		w->lines[i].file = strdup(file);
		w->lines[i].line = (uint32_t)line;
		w->left--;
	}
}

static void children(struct walk *w, Dwarf_Die *parent, int depth)
{
	Dwarf_Die die;

	if (depth > MAX_NESTING || dwarf_child(parent, &die))
		return;
	do {
		switch (dwarf_tag(&die)) {
		case DW_TAG_subprogram:
			function(w, &die);
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
	} while (w->left && !deadline__passed(&w->deadline) && !dwarf_siblingof(&die, &die));
}

/* How many of the addresses lie in the unit. */
static size_t count_in(const struct walk *w, Dwarf_Die *unit)
{
	Dwarf_Addr base, start, end;
	ptrdiff_t at = 0;
	size_t n = 0;

	while ((at = dwarf_ranges(unit, at, &base, &start, &end)) > 0)
		for (size_t i = lower_bound(w, start); i < w->cnt && w->lines[i].vaddr < end; i++)
			n += !w->lines[i].file;
	return n;
}

enum lines_end lines__find(int fd, struct line_of *lines, size_t cnt, uint64_t limit_ns)
{
	struct walk w = { .lines = lines, .cnt = cnt, .deadline = deadline__in(limit_ns) };
	Dwarf *dwarf = dwarf_begin(fd, DWARF_C_READ);
	Dwarf_CU *cu = NULL;
	Dwarf_Die die;

	if (!dwarf)
		return LINES_NONE;
	if (cnt)
		qsort(lines, cnt, sizeof(*lines), by_vaddr);
	while (cnt && !deadline__passed(&w.deadline) &&
	       !dwarf_get_units(dwarf, cu, &cu, NULL, NULL, &die, NULL)) {
		w.left = count_in(&w, &die);
		if (w.left)
			children(&w, &die, 0);
	}
	dwarf_end(dwarf);
	return w.deadline.passed ? LINES_LATE : LINES_DONE;
}

// SPDX-License-Identifier: BSD-2-Clause
/* Walks DWARF by libdw, down to functions and no further. */
#include "symbols/dwarf.h"

#include <stddef.h>
#include <unistd.h>
#include <dwarf.h>
#include <elfutils/libdw.h>

#define MAX_NESTING 64

struct walk {
	int (*each)(void *arg, const struct dwarf_function *fn);
	void *arg;
};

static int function(struct walk *w, Dwarf_Die *die)
{
	struct dwarf_function fn = { .die = die };
	Dwarf_Attribute attr;
	Dwarf_Word how = DW_INL_not_inlined;

	if (dwarf_attr_integrate(die, DW_AT_linkage_name, &attr))
		fn.symbol = dwarf_formstring(&attr);
	if (!fn.symbol)
		fn.symbol = dwarf_diename(die);
	if (!fn.symbol)
		return 0;
	if (dwarf_attr(die, DW_AT_inline, &attr))
		dwarf_formudata(&attr, &how);
	fn.inlined = how == DW_INL_inlined || how == DW_INL_declared_inlined;
	return w->each(w->arg, &fn);
}

static int children(struct walk *w, Dwarf_Die *parent, int depth)
{
	Dwarf_Die die;
	int err = 0;

	if (depth > MAX_NESTING || dwarf_child(parent, &die))
		return 0;
	do {
		switch (dwarf_tag(&die)) {
		case DW_TAG_subprogram:
			err = function(w, &die);
			break;
		case DW_TAG_namespace:
		case DW_TAG_module:
		case DW_TAG_structure_type:
		case DW_TAG_class_type:
		case DW_TAG_union_type:
		case DW_TAG_enumeration_type:
			err = children(w, &die, depth + 1);
			break;
		default:
			break;
		}
	} while (!err && !dwarf_siblingof(&die, &die));
	return err;
}

int dwarf__functions(int fd, int (*each)(void *arg, const struct dwarf_function *fn), void *arg)
{
	struct walk w = { each, arg };
	Dwarf *dwarf = dwarf_begin(fd, DWARF_C_READ);
	Dwarf_CU *cu = NULL;
	Dwarf_Die die;
	int err = 0;

	if (!dwarf)
		return 0;
	while (!err && !dwarf_get_units(dwarf, cu, &cu, NULL, NULL, &die, NULL))
		err = children(&w, &die, 0);
	dwarf_end(dwarf);
	return err;
}

bool dwarf__location(const struct dwarf_function *fn, const char **file, uint32_t *line)
{
	int nr = 0;

	*file = dwarf_decl_file(fn->die);
	if (!*file || dwarf_decl_line(fn->die, &nr) || nr <= 0)
		return false;
	*line = (uint32_t)nr;
	return true;
}

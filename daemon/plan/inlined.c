// SPDX-License-Identifier: BSD-2-Clause
/* Compares the functions of debug information with the symbols and rows there are. */
#include "plan/inlined.h"

#include "base/glob.h"
#include "base/vec.h"
#include "plan/plan.h"
#include "plan/select.h"
#include "symbols/demangle.h"
#include "symbols/dwarf.h"
#include "symbols/image.h"

struct names {
	char **data;
	size_t cnt, cap;
};

struct find {
	const struct plan_request *req;
	const struct selection *sel;
	struct plan *plan;
	const char **symbols; /* all function symbols' stems, sorted */
	size_t symbol_cnt;
	struct plan_fn **rows; /* by symbol */
	struct names found;
};

static int by_string(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int by_symbol(const void *a, const void *b)
{
	const struct plan_fn *const *x = a, *const *y = b;

	return strcmp((*x)->symbol, (*y)->symbol);
}

static bool has_symbol(const struct find *f, const char *symbol)
{
	return f->symbol_cnt &&
	       bsearch(&symbol, f->symbols, f->symbol_cnt, sizeof(*f->symbols), by_string);
}

static bool is_wanted(const struct find *f, const char *symbol, const struct name_parts *parts)
{
	char crate[256], *name;
	bool wanted = false;

	if (name__crate_mangled(symbol, parts, crate, sizeof(crate)) && *crate)
		for (size_t i = 0; i < f->sel->crate_cnt; i++)
			if (!strcmp(crate, f->sel->crates[i]))
				return true;
	if (!f->req->function_cnt)
		return false;
	name = name__demangle(symbol, parts);
	for (size_t i = 0; name && i < f->req->function_cnt; i++)
		wanted |= glob__match(f->req->functions[i], name);
	free(name);
	return wanted;
}

/* A row's source line, by the symbol that names it. */
static int locate(struct find *f, const struct dwarf_function *fn)
{
	struct plan_fn key = { .symbol = (char *)fn->symbol }, *k = &key, **row;
	const char *file;
	uint32_t line;

	row = f->plan->fn_cnt ? bsearch(&k, f->rows, f->plan->fn_cnt, sizeof(*f->rows), by_symbol)
			      : NULL;
	if (!row || (*row)->file || !dwarf__location(fn, &file, &line))
		return 0;
	(*row)->file = strdup(file);
	(*row)->line = line;
	return (*row)->file ? 0 : -ENOMEM;
}

static int consider(void *arg, const struct dwarf_function *fn)
{
	struct find *f = arg;
	struct name_parts parts;
	char **slot;

	if (has_symbol(f, fn->symbol))
		return locate(f, fn);
	name__split(fn->symbol, &parts);
	if (!fn->inlined || !is_wanted(f, fn->symbol, &parts))
		return 0;
	slot = vec__push(&f->found);
	return slot && (*slot = name__demangle(fn->symbol, &parts)) ? 0 : -ENOMEM;
}

/* The symbols without the suffixes that debug information does not know. */
static int list_symbols(struct find *f, const struct image *img)
{
	size_t cnt;
	const struct symbol *syms = image__symbols(img, &cnt);

	f->symbols = calloc(cnt + 1, sizeof(*f->symbols));
	f->rows = calloc(f->plan->fn_cnt + 1, sizeof(*f->rows));
	if (!f->symbols || !f->rows)
		return -ENOMEM;
	for (size_t i = 0; i < cnt; i++) {
		const char *name = image__str(img, syms[i].name);
		struct name_parts parts;

		if (syms[i].type < SYMBOL_FUNC)
			continue;
		name__split(name, &parts);
		f->symbols[f->symbol_cnt] =
			name[parts.stem_len] ? strndup(name, parts.stem_len) : strdup(name);
		if (!f->symbols[f->symbol_cnt])
			return -ENOMEM;
		f->symbol_cnt++;
	}
	for (size_t i = 0; i < f->plan->fn_cnt; i++)
		f->rows[i] = &f->plan->fns[i];
	qsort(f->symbols, f->symbol_cnt, sizeof(*f->symbols), by_string);
	qsort(f->rows, f->plan->fn_cnt, sizeof(*f->rows), by_symbol);
	return 0;
}

static void keep_distinct(struct find *f)
{
	size_t n = 0;

	if (f->found.cnt)
		qsort(f->found.data, f->found.cnt, sizeof(*f->found.data), by_string);
	for (size_t i = 0; i < f->found.cnt; i++) {
		if (n && !strcmp(f->found.data[n - 1], f->found.data[i]))
			free(f->found.data[i]);
		else
			f->found.data[n++] = f->found.data[i];
	}
	f->plan->inlined_only = f->found.data;
	f->plan->inlined_cnt = n;
}

int inlined__find(int fd, const struct image *img, const struct plan_request *req,
		  const struct selection *sel, struct plan *plan)
{
	struct find f = { .req = req, .sel = sel, .plan = plan };
	int err = list_symbols(&f, img);

	if (!err)
		err = dwarf__functions(fd, consider, &f);
	keep_distinct(&f);
	for (size_t i = 0; i < f.symbol_cnt; i++)
		free((char *)f.symbols[i]);
	free(f.symbols);
	free(f.rows);
	return err;
}

static int match(void *arg, const struct dwarf_function *fn)
{
	const char *glob = arg;
	struct name_parts parts;
	char *name;
	bool yes;

	if (!fn->inlined)
		return 0;
	name__split(fn->symbol, &parts);
	name = name__demangle(fn->symbol, &parts);
	yes = name && glob__match(glob, name);
	free(name);
	return yes;
}

bool inlined__matches(int fd, const char *glob)
{
	return dwarf__functions(fd, match, (void *)glob) > 0;
}

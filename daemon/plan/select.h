/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which functions of a file are meant: by crate, by glob, by default. Reads names only; what can
 * be probed of them is for others to find out.
 */
#ifndef PLAN_SELECT_H
#define PLAN_SELECT_H

#include "plan/plan.h"
#include "symbols/demangle.h"

struct image;
struct profile;
struct symbol;

/* One symbol that is meant. Several may stand at one address. */
struct pick {
	const struct symbol *sym;
	const char *mangled;
	struct name_parts parts;
	char *name; /* demangled, with its tag in brackets and its version where that matters */
	char *crate;
};

struct selection {
	struct pick *picks; /* in order of address */
	size_t pick_cnt;
	const struct symbol **catches; /* std's clean-up after a caught panic, C++'s, longjmp */
	size_t catch_cnt;
	size_t symbol_cnt;
	char **crates; /* chosen ones */
	size_t crate_cnt;
	bool *matched;	       /* per --function: something had that name */
	const char *unmatched; /* the first --function that matches nothing, or NULL */
	bool by_default;       /* no --crate, no --function */
	char *main_crate;      /* NULL: not a Rust program, or not found */
	char *top_crates;      /* "a (120), b (80)": those with the most functions; NULL: none */
};

/* 0; -ENOENT with *reason when a --crate matches nothing; -ENOMEM. */
int select__run(const struct image *img, const struct plan_request *req,
		const struct profile *profile, struct selection *out, char **reason);
void select__free(struct selection *sel);

/* A crate that many programs use, and that is not one's own because some function of it was chosen.
 */
bool select__is_library(const char *crate);

#endif

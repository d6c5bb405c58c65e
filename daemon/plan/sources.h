/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which files a plan is about: the executable, and the libraries that a --function 'LIB:GLOB'
 * means. A single colon ends LIB ("a::b" is a path, and no LIB); LIB is a glob on the base name or
 * the soname of a mapped file, on its whole path when it holds a slash. Reads no file itself.
 */
#ifndef PLAN_SOURCES_H
#define PLAN_SOURCES_H

#include "plan/plan.h"
#include "symbols/debugfile.h"

struct source {
	int fd;
	const char *path;
	char *name;	/* base name: what LIB means */
	char *label;	/* the same, or the path where several files have that name */
	uint32_t index; /* in plan_input.sources */
	bool meant;	/* for its functions; else only its allocator is, or its catches */
	struct debug_wish wish;
	struct debug_candidates debug;
};

struct sources {
	struct source *data; /* the executable first */
	size_t cnt, cap;
};

/* How long LIB is in "LIB:GLOB"; 0 for a plain glob. */
size_t sources__lib_len(const char *function);

/* wishes: one per source of in. 0, -ENOENT with *reason when a LIB means no file, -ENOMEM. */
int sources__choose(const struct plan_input *in, const struct debug_wish *wishes,
		    const struct plan_request *req, struct sources *out, char **reason);
/* Opens the debug files of those that need one. 0 or -errno with *reason. */
int sources__find_debug(const struct plan_input *in, struct sources *s, char **reason);
void sources__free(struct sources *s);

/* The glob of a --function in one of the files; NULL: it means others. */
const char *sources__glob(const struct source *s, const char *function);

#endif

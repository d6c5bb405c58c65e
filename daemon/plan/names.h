/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Names for addresses of one file, found by processes without rights: by its own symbols, those of
 * its separate debug file, or what it exports; where there is none, the function's start as its
 * unwind table has it.
 */
#ifndef PLAN_NAMES_H
#define PLAN_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;

struct name {
	const char *name;   /* demangled, without hash; NULL: none */
	const char *symbol; /* as in the file; NULL: none */
	const char *crate;  /* "" when it is no Rust function */
	bool rust;
	uint64_t start;		    /* of the function, as linked; 0: not known */
	const struct name *inlined; /* what is inlined there, the outermost first */
	uint32_t inlined_cnt;
};

struct names_request {
	int fd;
	const char *path;	/* for its debug file; " (deleted)" behind it is no harm */
	const char *root;	/* where that is looked for besides the host's; NULL: "/" */
	const char *debug_file; /* the user's, or NULL */
	const uint64_t *vaddrs; /* as linked */
	size_t cnt;
	bool inlined; /* look for inlined functions too, where debug information has them */
};

/*
 * Fills in out[cnt]; the strings lie in the arena. main_crate: of the file's own main, "" when it
 * has none, in the arena too. 0, or -errno with one line in *reason (malloc'd): then no name is
 * set.
 */
int names__find_isolated(const struct names_request *req, struct arena *arena, struct name *out,
			 const char **main_crate, char **reason);

#endif

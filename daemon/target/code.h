/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where the process has code: its executable mappings, and the files they are of. A file is held
 * open from its first sight on, and keeps its number, so that an address seen once can be named
 * after the file was unmapped. Knows nothing of what is in the files.
 */
#ifndef TARGET_CODE_H
#define TARGET_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct target;

#define CODE_NO_FILE 0u /* the number of no file: a JIT's code, what could not be opened */
#define CODE_MAX_FILES 511u

struct code_file {
	char *path; /* as mapped; "[vdso]" */
	int fd;
	dev_t dev;
	ino_t ino;
};

struct code_map {
	uint64_t start, end, offset;
	uint32_t file; /* files[file - 1], or CODE_NO_FILE */
};

struct code {
	struct code_map *maps; /* in order of address */
	size_t map_cnt;
	struct code_file *files; /* only grows */
	size_t file_cnt;
};

/* Looks at the mappings again. 1: they changed, 0: they did not, or -errno. */
int code__look(struct code *c, const struct target *t);
void code__free(struct code *c);

#endif

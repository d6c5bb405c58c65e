/* SPDX-License-Identifier: BSD-2-Clause */
/* What a file's dynamic section says: its own name, whom it needs, what it takes from whom. */
#ifndef SYMBOLS_DYNAMIC_H
#define SYMBOLS_DYNAMIC_H

#include <stdbool.h>

struct elf_file;

/* Whether others can take a malloc from it. */
bool dynamic__allocates(const struct elf_file *f);

/* Ways out of several functions at once that other files provide. */
enum dynamic_way {
	DYNAMIC_EXCEPTIONS = 1, /* the runtime of C++ */
	DYNAMIC_JUMPS = 2,	/* longjmp */
};
/* Of a function of that name, or 0. catches: where such a way ends or leads off from. */
unsigned int dynamic__way(const char *name);
/* Those that a file takes from others, and those that others find here. */
void dynamic__ways(const struct elf_file *f, unsigned int *taken, unsigned int *given);

/* DT_SONAME (malloc'd), or NULL. */
char *dynamic__soname(const struct elf_file *f);

/*
 * Calls each for every function that the file at fd takes from others, until it returns other than
 * 0, which is then returned. provider: the library, by its soname; NULL where the file does not
 * say. needed: all libraries it names, "a.so.1, b.so.2".
 */
int dynamic__imports(int fd,
		     int (*each)(void *arg, const char *name, const char *provider,
				 const char *needed),
		     void *arg);

#endif

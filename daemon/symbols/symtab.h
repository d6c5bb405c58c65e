/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One symbol table of an ELF file: .symtab or .dynsym, compressed or not, with the versions that
 * the linker or the dynamic section gives. Part of image.h's room; knows no segments: who reads
 * says which addresses are code.
 */
#ifndef SYMBOLS_SYMTAB_H
#define SYMBOLS_SYMTAB_H

#include "base/strbuf.h"
#include "symbols/elf_file.h"
#include "symbols/image.h"

struct symtab {
	struct symbol *data;
	size_t cnt, cap;
	const char *strtab;
	size_t strtab_len;
	struct strbuf extra; /* names cut off their version, and versions; ids behind strtab's */
	void *inflated[2];   /* of compressed tables: symbols, strings */
	bool no_inflate;     /* what is wrong is that one cannot be inflated */
};

/*
 * Reads the table of that type (SHT_SYMTAB, SHT_DYNSYM), ordered by address; one that is not there
 * is empty. fd is the file again, for decompression. NULL, or in words (static) what is wrong;
 * symtab__free in either case.
 */
const char *symtab__read(struct symtab *t, const struct elf_file *f, int fd, uint32_t type,
			 const struct image *code);
void symtab__free(struct symtab *t);
const char *symtab__str(const struct symtab *t, uint32_t id);

#endif

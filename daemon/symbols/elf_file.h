/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The bytes of an ELF file and its section headers, for the files of this room. Every read is
 * checked against the file; structures are copied out, for nothing in a hostile file is aligned.
 */
#ifndef SYMBOLS_ELF_FILE_H
#define SYMBOLS_ELF_FILE_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct elf_file {
	const uint8_t *base; /* read-only mapping of the whole file; NULL: not open */
	size_t len;
	Elf64_Ehdr eh;
	uint32_t section_cnt;
};

/* NULL, or in words what is wrong with the file. elf_file__close in either case. */
const char *elf_file__open(int fd, struct elf_file *out);
void elf_file__close(struct elf_file *f);

bool elf_file__holds(const struct elf_file *f, uint64_t offset, uint64_t bytes);
bool elf_file__copy(const struct elf_file *f, uint64_t offset, void *out, size_t bytes);
bool elf_file__section(const struct elf_file *f, uint32_t i, Elf64_Shdr *out);
bool elf_file__segment(const struct elf_file *f, uint32_t i, Elf64_Phdr *out);
/* The first section of that name whose bytes are in the file; its index, or 0. */
uint32_t elf_file__find(const struct elf_file *f, const char *name, Elf64_Shdr *out);
/* The first section of that type; its index, or 0. */
uint32_t elf_file__find_type(const struct elf_file *f, uint32_t type, Elf64_Shdr *out);
/* A string table's bytes up to its last NUL, so that every name in it ends; NULL: none. */
const char *elf_file__strings(const struct elf_file *f, uint32_t section, size_t *len);
/* The build-id in hex (malloc'd), from segments, else from sections; NULL: none. */
char *elf_file__build_id(const struct elf_file *f);

#endif

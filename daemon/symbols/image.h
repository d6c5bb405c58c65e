/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An ELF file as the plan needs it: segments, function symbols, relocated pointers, build-id.
 * x86-64 executables and shared objects only. The file may be hostile: every offset is checked
 * against the file before it is used, and what does not fit is an error with a reason, never a
 * crash. Knows nothing of names' meaning (demangle.h), unwind rows (cfi.h) or instructions.
 *
 * Addresses are as linked (vaddr); offsets are in the file. Constant once open, so it may be
 * read from everywhere; the reads that build an index do it at the first call.
 */
#ifndef SYMBOLS_IMAGE_H
#define SYMBOLS_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct image;

enum symbol_type { SYMBOL_NOTYPE, SYMBOL_OBJECT, SYMBOL_FUNC, SYMBOL_IFUNC };
enum symbol_bind { SYMBOL_LOCAL, SYMBOL_GLOBAL, SYMBOL_WEAK };

struct symbol {
	uint64_t addr;
	uint64_t size;
	uint32_t name;	  /* image__str */
	uint32_t file;	  /* image__str: the STT_FILE symbol it stands under; 0 for none */
	uint32_t version; /* image__str, "@V1" or "@@V2"; 0: none, or nothing to tell apart by it */
	uint8_t type, bind;
	bool old; /* not what its bare name means: only the version names it */
};

/* Where the symbols come from. */
enum symbol_source {
	SYMBOLS_NONE,
	SYMBOLS_OWN,	  /* .symtab */
	SYMBOLS_EXPORTED, /* .dynsym: only what the file exports */
	SYMBOLS_SEPARATE, /* the .symtab of a separate debug file */
};

/* 0, or -errno (-ENOEXEC: no such ELF file) with one line in *reason (the caller frees). */
int image__open(int fd, struct image **out, char **reason);
void image__free(struct image *img);

/*
 * Takes the symbols of the separate debug file at fd when the file has none of its own. crc: what
 * its content must sum up to, or NULL. 0, or -EBADF with one line in *reason: it is not the debug
 * file of this one.
 */
int image__add_debug(struct image *img, int fd, const uint32_t *crc, char **reason);
enum symbol_source image__source(const struct image *img);
/* What could not be read of the file although it is there, in words; NULL: nothing. */
const char *image__flaw(const struct image *img);
/* Whether the file describes its source lines itself. */
bool image__has_dwarf(const struct image *img);

const char *image__build_id(const struct image *img); /* hex, or NULL */

/* The bytes the file has for an address, and how many follow in its segment. NULL: none. */
const uint8_t *image__bytes(const struct image *img, uint64_t vaddr, size_t *avail);
/* Where an address of an executable segment lies in the file. */
bool image__code_offset(const struct image *img, uint64_t vaddr, uint64_t *offset);
/* The executable segments, at most max; their number. */
struct code_segment {
	uint64_t offset, vaddr, bytes;
};
size_t image__code_segments(const struct image *img, struct code_segment *out, size_t max);
/* The whole file, for those who parse further parts of it. */
const uint8_t *image__raw(const struct image *img, size_t *len);
/* Address and bytes of .eh_frame, by its section; NULL without one. */
const uint8_t *image__eh_frame(const struct image *img, uint64_t *vaddr, size_t *len);
/* Address and bytes of .eh_frame_hdr; NULL without one. */
const uint8_t *image__eh_frame_hdr(const struct image *img, uint64_t *vaddr, size_t *len);

/*
 * Symbols defined in the file, ordered by address: functions of every kind, and untyped and data
 * symbols that lie in executable segments. From .symtab, else from .dynsym; see image__source.
 */
const struct symbol *image__symbols(const struct image *img, size_t *cnt);
const char *image__str(const struct image *img, uint32_t name);
/* Index of the first symbol at or above an address; cnt when there is none. */
size_t image__lower_bound(const struct image *img, uint64_t vaddr);
/* The function symbol that starts at an address, or NULL. */
const struct symbol *image__function_at(const struct image *img, uint64_t vaddr);

/*
 * The pointer that the loader will have put at an address: by relocation, else as the file has
 * it. False when another object provides it or nothing is known.
 */
bool image__pointer(const struct image *img, uint64_t vaddr, uint64_t *value);

#endif

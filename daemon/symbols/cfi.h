/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * .eh_frame: where the caller's frame lies at an instruction, and where unwinding may land in a
 * function. Found through the binary search table of .eh_frame_hdr. The data may be hostile:
 * what cannot be read is as if it were not there. Format: LSB Core 10.6 "Exception Frames",
 * DWARF 5 section 6.4; landing pads: the Itanium C++ ABI's language-specific data.
 */
#ifndef SYMBOLS_CFI_H
#define SYMBOLS_CFI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct image;

struct cfi_fde {
	uint64_t start, end; /* the code it describes */
	uint64_t lsda;	     /* 0: none */
	uint64_t cie_insns, cie_insns_end, insns, insns_end;
	uint64_t code_align;
};

/* DWARF numbers of registers. */
#define CFI_RBP 6
#define CFI_RSP 7

/*
 * The canonical frame address, register + offset, from an instruction up to the next row's. The
 * return address lies 8 below it. known is false where it is an expression.
 */
struct cfi_row {
	uint64_t start;
	uint64_t reg;
	int64_t offset;
	bool known;
};

bool cfi__find(const struct image *img, uint64_t pc, struct cfi_fde *out);
/* Calls each for every row, in order of address; up to where the data makes no sense. */
void cfi__rows(const struct image *img, const struct cfi_fde *fde,
	       void (*each)(void *arg, const struct cfi_row *row), void *arg);
/* Calls each for every landing pad. */
void cfi__landing_pads(const struct image *img, const struct cfi_fde *fde,
		       void (*each)(void *arg, uint64_t vaddr), void *arg);

#endif

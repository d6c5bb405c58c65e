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
	int64_t data_align;
	bool signal; /* the frame of a signal's handler: all registers lie in it */
};

/* DWARF numbers of registers. */
#define CFI_RBP 6
#define CFI_RSP 7

#define CFI_RA 16

/* How the canonical frame address (CFA) follows from the registers. */
enum cfi_cfa {
	CFI_CFA_UNKNOWN, /* none given, or an expression of no known shape */
	CFI_CFA_REG,	 /* reg + offset */
	CFI_CFA_DEREF,	 /* what lies at reg + offset, + add (a frame that was aligned) */
	CFI_CFA_PLT,	 /* rsp + offset, 8 more from byte `add` of each 16 on */
};

/* Where the caller's rbp and the return address are. */
enum cfi_rule {
	CFI_SAME,      /* still in the register */
	CFI_AT_CFA,    /* in memory at CFA + offset */
	CFI_AT_REG,    /* in memory at reg + offset */
	CFI_UNDEFINED, /* nowhere: for the return address, this is the outermost frame */
	CFI_ODD,       /* somewhere else */
};

struct cfi_place {
	enum cfi_rule rule;
	uint64_t reg; /* of CFI_AT_REG */
	int64_t offset;
};

/* From an instruction up to the next row's. known: the CFA is reg + offset, for those who want no
 * more. */
struct cfi_row {
	uint64_t start;
	uint64_t reg;
	int64_t offset, add;
	enum cfi_cfa cfa;
	bool known;
	struct cfi_place rbp, ra;
};

bool cfi__find(const struct image *img, uint64_t pc, struct cfi_fde *out);
/*
 * Calls each for every entry, in order of address: of the search table, or without one (static
 * programs) of the whole section. False: there is none.
 */
bool cfi__each(const struct image *img, void (*each)(void *arg, const struct cfi_fde *fde),
	       void *arg);
/* Calls each for every row, in order of address; false: only up to where the data makes no sense.
 */
bool cfi__rows(const struct image *img, const struct cfi_fde *fde,
	       void (*each)(void *arg, const struct cfi_row *row), void *arg);
/* Calls each for every landing pad. */
void cfi__landing_pads(const struct image *img, const struct cfi_fde *fde,
		       void (*each)(void *arg, uint64_t vaddr), void *arg);

#endif

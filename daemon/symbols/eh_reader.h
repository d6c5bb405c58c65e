/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A cursor over the numbers of .eh_frame and .gcc_except_table: fixed widths, LEB128, and the
 * encodings of pointers (LSB Core 10.5.1). Private to cfi*.c.
 */
#ifndef SYMBOLS_EH_READER_H
#define SYMBOLS_EH_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct image;

enum {
	PE_UDATA2 = 0x02,
	PE_UDATA4 = 0x03,
	PE_UDATA8 = 0x04,
	PE_ULEB = 0x01,
	PE_SLEB = 0x09,
	PE_SDATA2 = 0x0a,
	PE_SDATA4 = 0x0b,
	PE_SDATA8 = 0x0c,
	PE_PCREL = 0x10,
	PE_INDIRECT = 0x80,
	PE_OMIT = 0xff,
};

/* A cursor; after the end everything reads as 0 and bad stays set. */
struct eh_reader {
	const uint8_t *p, *end;
	uint64_t vaddr; /* of p */
	bool bad;
};

/* Bad from the start where vaddr is nowhere in the image. */
struct eh_reader eh_reader__at(const struct image *img, uint64_t vaddr, uint64_t end);
uint64_t eh_reader__fixed(struct eh_reader *r, size_t bytes);
uint64_t eh_reader__uleb(struct eh_reader *r);
int64_t eh_reader__sleb(struct eh_reader *r);
/* A pointer or a length (PE_PCREL taken off) in one of the encodings. */
uint64_t eh_reader__encoded(struct eh_reader *r, uint8_t enc);

#endif

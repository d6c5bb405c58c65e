/* SPDX-License-Identifier: BSD-2-Clause */
#include "symbols/eh_reader.h"

#include <string.h>

#include "symbols/image.h"

struct eh_reader eh_reader__at(const struct image *img, uint64_t vaddr, uint64_t end)
{
	struct eh_reader r = { .vaddr = vaddr };
	size_t avail;

	r.p = image__bytes(img, vaddr, &avail);
	if (!r.p || end < vaddr) {
		r.bad = true;
		return r;
	}
	r.end = r.p + (end - vaddr < avail ? end - vaddr : avail);
	return r;
}

uint64_t eh_reader__fixed(struct eh_reader *r, size_t bytes)
{
	uint64_t v = 0;

	if (r->bad || (size_t)(r->end - r->p) < bytes) {
		r->bad = true;
		return 0;
	}
	memcpy(&v, r->p, bytes);
	r->p += bytes;
	r->vaddr += bytes;
	return v;
}

/* *shift: how many bits there were; *last: the last byte, whose sign bit counts in sleb. */
static uint64_t leb(struct eh_reader *r, unsigned *shift, uint8_t *last)
{
	uint64_t v = 0;

	*shift = 0;
	do {
		*last = (uint8_t)eh_reader__fixed(r, 1);
		if (*shift < 64)
			v |= (uint64_t)(*last & 0x7f) << *shift;
		*shift += 7;
	} while (*last & 0x80 && !r->bad);
	return v;
}

uint64_t eh_reader__uleb(struct eh_reader *r)
{
	unsigned shift;
	uint8_t last;

	return leb(r, &shift, &last);
}

int64_t eh_reader__sleb(struct eh_reader *r)
{
	unsigned shift;
	uint8_t last;
	uint64_t v = leb(r, &shift, &last);

	if (last & 0x40 && shift < 64)
		v |= ~0ull << shift;
	return (int64_t)v;
}

uint64_t eh_reader__encoded(struct eh_reader *r, uint8_t enc)
{
	uint64_t base = (enc & 0x70) == PE_PCREL ? r->vaddr : 0, v;

	if (enc == PE_OMIT)
		return 0;
	switch (enc & 0x0f) {
	case PE_UDATA2:
		v = eh_reader__fixed(r, 2);
		break;
	case PE_SDATA2:
		v = (uint64_t)(int16_t)eh_reader__fixed(r, 2);
		break;
	case PE_UDATA4:
		v = eh_reader__fixed(r, 4);
		break;
	case PE_SDATA4:
		v = (uint64_t)(int32_t)eh_reader__fixed(r, 4);
		break;
	case PE_ULEB:
		v = eh_reader__uleb(r);
		break;
	case PE_SLEB:
		v = (uint64_t)eh_reader__sleb(r);
		break;
	case 0:
	case PE_UDATA8:
	case PE_SDATA8:
		v = eh_reader__fixed(r, 8);
		break;
	default:
		r->bad = true;
		return 0;
	}
	if ((enc & 0x70) != PE_PCREL && enc & 0x70)
		r->bad = true; /* text-, data- or function-relative: nobody writes these here */
	return v ? v + base : 0;
}

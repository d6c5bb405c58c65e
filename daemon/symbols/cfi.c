// SPDX-License-Identifier: BSD-2-Clause
/* Reads .eh_frame and .gcc_except_table. Knows nothing of instructions or names. */
#include "symbols/cfi.h"

#include <string.h>

#include "symbols/image.h"

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

#define MAX_REMEMBERED 16

/* A cursor; after the end everything reads as 0 and bad stays set. */
struct reader {
	const uint8_t *p, *end;
	uint64_t vaddr; /* of p */
	bool bad;
};

static struct reader reader_at(const struct image *img, uint64_t vaddr, uint64_t end)
{
	struct reader r = { .vaddr = vaddr };
	size_t avail;

	r.p = image__bytes(img, vaddr, &avail);
	if (!r.p || end < vaddr) {
		r.bad = true;
		return r;
	}
	r.end = r.p + (end - vaddr < avail ? end - vaddr : avail);
	return r;
}

static uint64_t fixed(struct reader *r, size_t bytes)
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

static uint64_t uleb(struct reader *r)
{
	uint64_t v = 0;
	unsigned shift = 0;
	uint8_t b;

	do {
		b = (uint8_t)fixed(r, 1);
		if (shift < 64)
			v |= (uint64_t)(b & 0x7f) << shift;
		shift += 7;
	} while (b & 0x80 && !r->bad);
	return v;
}

static int64_t sleb(struct reader *r)
{
	uint64_t v = 0;
	unsigned shift = 0;
	uint8_t b;

	do {
		b = (uint8_t)fixed(r, 1);
		if (shift < 64)
			v |= (uint64_t)(b & 0x7f) << shift;
		shift += 7;
	} while (b & 0x80 && !r->bad);
	if (b & 0x40 && shift < 64)
		v |= ~0ull << shift;
	return (int64_t)v;
}

/* A pointer or a length (PE_PCREL taken off) in one of the encodings. */
static uint64_t encoded(struct reader *r, uint8_t enc)
{
	uint64_t base = (enc & 0x70) == PE_PCREL ? r->vaddr : 0, v;

	if (enc == PE_OMIT)
		return 0;
	switch (enc & 0x0f) {
	case PE_UDATA2:
		v = fixed(r, 2);
		break;
	case PE_SDATA2:
		v = (uint64_t)(int16_t)fixed(r, 2);
		break;
	case PE_UDATA4:
		v = fixed(r, 4);
		break;
	case PE_SDATA4:
		v = (uint64_t)(int32_t)fixed(r, 4);
		break;
	case PE_ULEB:
		v = uleb(r);
		break;
	case PE_SLEB:
		v = (uint64_t)sleb(r);
		break;
	case 0:
	case PE_UDATA8:
	case PE_SDATA8:
		v = fixed(r, 8);
		break;
	default:
		r->bad = true;
		return 0;
	}
	if ((enc & 0x70) != PE_PCREL && enc & 0x70)
		r->bad = true; /* text-, data- or function-relative: nobody writes these here */
	return v ? v + base : 0;
}

/* A length-prefixed entry: narrows r to its content. */
static bool entry(struct reader *r)
{
	uint64_t len = fixed(r, 4);

	if (len == 0xffffffff)
		len = fixed(r, 8);
	if (r->bad || !len || len > (uint64_t)(r->end - r->p))
		return false;
	r->end = r->p + len;
	return true;
}

struct cie {
	uint8_t fde_enc, lsda_enc;
	bool augmented;
};

static bool read_cie(const struct image *img, uint64_t vaddr, struct cie *cie, struct cfi_fde *out)
{
	struct reader r = reader_at(img, vaddr, UINT64_MAX);
	char aug[8] = "";
	uint64_t version, len;
	size_t n = 0;

	if (!entry(&r) || fixed(&r, 4))
		return false;
	version = fixed(&r, 1);
	while (!r.bad && n < sizeof(aug) - 1 && (aug[n] = (char)fixed(&r, 1)))
		n++;
	if ((version != 1 && version != 3) || aug[n])
		return false;
	out->code_align = uleb(&r);
	sleb(&r);
	if (version == 1)
		fixed(&r, 1);
	else
		uleb(&r);
	*cie = (struct cie){ .lsda_enc = PE_OMIT, .augmented = aug[0] == 'z' };
	len = cie->augmented ? uleb(&r) : 0;
	if (r.bad || len > (uint64_t)(r.end - r.p))
		return false;
	out->cie_insns = r.vaddr + len;
	out->cie_insns_end = r.vaddr + (uint64_t)(r.end - r.p);
	for (const char *a = aug + cie->augmented; *a; a++) {
		if (*a == 'R')
			cie->fde_enc = (uint8_t)fixed(&r, 1);
		else if (*a == 'L')
			cie->lsda_enc = (uint8_t)fixed(&r, 1);
		else if (*a == 'P')
			encoded(&r, (uint8_t)fixed(&r, 1) & 0x7f);
		else if (*a != 'S' && *a != 'B')
			return false;
	}
	return !r.bad;
}

static bool read_fde(const struct image *img, uint64_t vaddr, struct cfi_fde *out)
{
	struct reader r = reader_at(img, vaddr, UINT64_MAX);
	struct cie cie;
	uint64_t at, len;

	if (!entry(&r))
		return false;
	at = r.vaddr;
	at -= fixed(&r, 4);
	if (r.bad || !read_cie(img, at, &cie, out))
		return false;
	out->start = encoded(&r, cie.fde_enc & 0x7f);
	out->end = out->start + encoded(&r, cie.fde_enc & 0x0f);
	len = cie.augmented ? uleb(&r) : 0;
	if (r.bad || out->end < out->start || len > (uint64_t)(r.end - r.p))
		return false;
	out->insns = r.vaddr + len;
	out->insns_end = r.vaddr + (uint64_t)(r.end - r.p);
	out->lsda = cie.lsda_enc != PE_OMIT && len ? encoded(&r, cie.lsda_enc & 0x7f) : 0;
	return !r.bad;
}

bool cfi__find(const struct image *img, uint64_t pc, struct cfi_fde *out)
{
	uint64_t hdr, cnt, lo = 0, hi;
	struct reader r;
	const uint8_t *p;
	int32_t pair[2];
	size_t len;
	uint8_t frame_enc, cnt_enc;

	p = image__eh_frame_hdr(img, &hdr, &len);
	if (!p || len < 4 || p[0] != 1 || p[3] != (0x30 | PE_SDATA4))
		return false;
	frame_enc = p[1];
	cnt_enc = p[2];
	r = reader_at(img, hdr + 4, hdr + len);
	encoded(&r, frame_enc);
	cnt = encoded(&r, cnt_enc);
	if (r.bad || cnt > (uint64_t)(r.end - r.p) / sizeof(pair))
		return false;
	for (hi = cnt; lo < hi;) { /* the last entry that starts at or below pc */
		uint64_t mid = lo + (hi - lo) / 2;

		memcpy(pair, r.p + mid * sizeof(pair), sizeof(pair));
		if (hdr + (uint64_t)(int64_t)pair[0] <= pc)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (!lo)
		return false;
	memcpy(pair, r.p + (lo - 1) * sizeof(pair), sizeof(pair));
	return read_fde(img, hdr + (uint64_t)(int64_t)pair[1], out) && pc >= out->start &&
	       pc < out->end;
}

struct machine {
	struct cfi_row now, saved[MAX_REMEMBERED];
	unsigned saved_cnt;
	uint64_t loc, code_align;
};

static void advance(struct machine *m, uint64_t units)
{
	m->loc += units * m->code_align;
}

static void skip_block(struct reader *r)
{
	uint64_t len = uleb(r);

	if (len > (uint64_t)(r->end - r->p)) {
		r->bad = true;
		return;
	}
	r->p += len;
	r->vaddr += len;
}

/* One instruction of the call frame program; registers' own rules are read over. */
static void step(struct machine *m, struct reader *r)
{
	uint8_t op = (uint8_t)fixed(r, 1);

	if (op >> 6 == 1) {
		advance(m, op & 0x3f);
		return;
	}
	if (op >> 6 == 2) {
		uleb(r);
		return;
	}
	if (op >> 6 == 3)
		return;
	switch (op) {
	case 0x00: /* nop */
		break;
	case 0x01: /* set_loc */
		m->loc = fixed(r, 8);
		break;
	case 0x02:
		advance(m, fixed(r, 1));
		break;
	case 0x03:
		advance(m, fixed(r, 2));
		break;
	case 0x04:
		advance(m, fixed(r, 4));
		break;
	case 0x06: /* restore_extended, undefined, same_value */
	case 0x07:
	case 0x08:
	case 0x2e: /* GNU_args_size */
		uleb(r);
		break;
	case 0x05: /* offset_extended, register, offset_extended_sf, val_offset(_sf) */
	case 0x09:
	case 0x11:
	case 0x14:
	case 0x15:
		uleb(r);
		uleb(r);
		break;
	case 0x0a: /* remember_state */
		if (m->saved_cnt < MAX_REMEMBERED)
			m->saved[m->saved_cnt++] = m->now;
		else
			r->bad = true;
		break;
	case 0x0b: /* restore_state */
		if (m->saved_cnt)
			m->now = m->saved[--m->saved_cnt];
		else
			r->bad = true;
		break;
	case 0x0c: /* def_cfa */
		m->now.reg = uleb(r);
		m->now.offset = (int64_t)uleb(r);
		m->now.known = true;
		break;
	case 0x0d: /* def_cfa_register */
		m->now.reg = uleb(r);
		break;
	case 0x0e: /* def_cfa_offset */
		m->now.offset = (int64_t)uleb(r);
		break;
	case 0x0f: /* def_cfa_expression */
		skip_block(r);
		m->now.known = false;
		break;
	case 0x10: /* expression, val_expression */
	case 0x16:
		uleb(r);
		skip_block(r);
		break;
	default:
		r->bad = true;
	}
}

void cfi__rows(const struct image *img, const struct cfi_fde *fde,
	       void (*each)(void *arg, const struct cfi_row *row), void *arg)
{
	struct machine m = { .loc = fde->start, .code_align = fde->code_align };
	struct reader r = reader_at(img, fde->cie_insns, fde->cie_insns_end);

	while (!r.bad && r.p < r.end)
		step(&m, &r);
	if (r.bad)
		return;
	r = reader_at(img, fde->insns, fde->insns_end);
	while (!r.bad && m.loc < fde->end) {
		uint64_t loc = m.loc;

		m.now.start = loc;
		while (!r.bad && r.p < r.end && m.loc == loc)
			step(&m, &r);
		if (r.bad || m.loc < loc)
			return;
		/* restore_state may have put an older start back */
		m.now.start = loc;
		each(arg, &m.now);
		if (m.loc == loc)
			return;
	}
}

void cfi__landing_pads(const struct image *img, const struct cfi_fde *fde,
		       void (*each)(void *arg, uint64_t vaddr), void *arg)
{
	struct reader r;
	uint64_t base = fde->start, len;
	uint8_t enc;

	if (!fde->lsda)
		return;
	r = reader_at(img, fde->lsda, UINT64_MAX);
	enc = (uint8_t)fixed(&r, 1);
	if (enc != PE_OMIT)
		base = encoded(&r, enc & 0x7f);
	enc = (uint8_t)fixed(&r, 1);
	if (enc != PE_OMIT)
		uleb(&r); /* where the types stand */
	enc = (uint8_t)fixed(&r, 1);
	len = uleb(&r);
	if (r.bad || len > (uint64_t)(r.end - r.p))
		return;
	r.end = r.p + len;
	while (r.p < r.end) {
		uint64_t pad;

		encoded(&r, enc & 0x0f);
		encoded(&r, enc & 0x0f);
		pad = encoded(&r, enc & 0x0f);
		uleb(&r);
		if (r.bad)
			return;
		if (pad)
			each(arg, base + pad);
	}
}

// SPDX-License-Identifier: BSD-2-Clause
/* Reads .eh_frame and .gcc_except_table. Knows nothing of instructions or names. */
#include "symbols/cfi.h"

#include <string.h>

#include "base/vec.h"
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
	out->data_align = sleb(&r);
	if (version == 1)
		fixed(&r, 1);
	else
		uleb(&r);
	*cie = (struct cie){ .lsda_enc = PE_OMIT, .augmented = aug[0] == 'z' };
	len = cie->augmented ? uleb(&r) : 0;
	if (r.bad || len > (uint64_t)(r.end - r.p))
		return false;
	out->signal = strchr(aug, 'S') != NULL;
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

/* The binary search table of .eh_frame_hdr: pairs of addresses relative to it. */
struct search_table {
	uint64_t hdr, cnt;
	const uint8_t *pairs;
};

static bool find_table(const struct image *img, struct search_table *t)
{
	struct reader r;
	const uint8_t *p;
	size_t len;
	uint8_t frame_enc, cnt_enc;

	p = image__eh_frame_hdr(img, &t->hdr, &len);
	if (!p || len < 4 || p[0] != 1 || p[3] != (0x30 | PE_SDATA4))
		return false;
	frame_enc = p[1];
	cnt_enc = p[2];
	r = reader_at(img, t->hdr + 4, t->hdr + len);
	encoded(&r, frame_enc);
	t->cnt = encoded(&r, cnt_enc);
	t->pairs = r.p;
	return !r.bad && t->cnt <= (uint64_t)(r.end - r.p) / (2 * sizeof(int32_t));
}

/* Where entry i says that code begins (0) or that its description lies (1). */
static uint64_t table_entry(const struct search_table *t, uint64_t i, int which)
{
	int32_t at;

	memcpy(&at, t->pairs + (2 * i + (uint64_t)which) * sizeof(at), sizeof(at));
	return t->hdr + (uint64_t)(int64_t)at;
}

bool cfi__find(const struct image *img, uint64_t pc, struct cfi_fde *out)
{
	struct search_table t;
	uint64_t lo = 0, hi;

	if (!find_table(img, &t))
		return false;
	for (hi = t.cnt; lo < hi;) { /* the last entry that starts at or below pc */
		uint64_t mid = lo + (hi - lo) / 2;

		if (table_entry(&t, mid, 0) <= pc)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (!lo)
		return false;
	return read_fde(img, table_entry(&t, lo - 1, 1), out) && pc >= out->start && pc < out->end;
}

static int by_start(const void *a, const void *b)
{
	const struct cfi_fde *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

/* All of the section, put in order. */
static bool each_of_section(const struct image *img,
			    void (*each)(void *arg, const struct cfi_fde *fde), void *arg)
{
	VEC(struct cfi_fde) all = {};
	uint64_t at, end;
	size_t len;

	if (!image__eh_frame(img, &at, &len))
		return false;
	for (end = at + len; at < end;) {
		struct reader r = reader_at(img, at, end);
		uint64_t bytes = fixed(&r, 4), next;
		struct cfi_fde fde, *slot;

		if (bytes == 0xffffffff)
			bytes = fixed(&r, 8);
		next = r.vaddr + bytes;
		if (r.bad || !bytes || next > end || next <= at)
			break;
		if (fixed(&r, 4) && read_fde(img, at, &fde) && (slot = vec__push(&all)))
			*slot = fde;
		at = next;
	}
	if (all.cnt)
		qsort(all.data, all.cnt, sizeof(*all.data), by_start);
	for (size_t i = 0; i < all.cnt; i++)
		each(arg, &all.data[i]);
	vec__free(&all);
	return true;
}

bool cfi__each(const struct image *img, void (*each)(void *arg, const struct cfi_fde *fde),
	       void *arg)
{
	struct search_table t;
	struct cfi_fde fde;

	if (!find_table(img, &t))
		return each_of_section(img, each, arg);
	for (uint64_t i = 0; i < t.cnt; i++)
		if (read_fde(img, table_entry(&t, i, 1), &fde))
			each(arg, &fde);
	return true;
}

struct machine {
	struct cfi_row now, initial, saved[MAX_REMEMBERED];
	unsigned saved_cnt;
	uint64_t loc, code_align;
	int64_t data_align;
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

/* The next block as a reader of its own; r goes on behind it. */
static struct reader block(struct reader *r)
{
	uint64_t len = uleb(r);
	struct reader b = *r;

	if (len > (uint64_t)(r->end - r->p)) {
		r->bad = b.bad = true;
		return b;
	}
	b.end = b.p + len;
	r->p += len;
	r->vaddr += len;
	return b;
}

static struct cfi_place *place_of(struct cfi_row *row, uint64_t reg)
{
	return reg == CFI_RBP ? &row->rbp : reg == CFI_RA ? &row->ra : NULL;
}

static void put(struct machine *m, uint64_t reg, enum cfi_rule rule, int64_t offset)
{
	struct cfi_place *p = place_of(&m->now, reg);

	if (p)
		*p = (struct cfi_place){ .rule = rule, .offset = offset };
}

static void restore(struct machine *m, uint64_t reg)
{
	struct cfi_place *p = place_of(&m->now, reg);

	if (p)
		*p = *place_of(&m->initial, reg);
}

/* "Register + offset" and no more: where a register lies. */
static void put_expression(struct machine *m, uint64_t reg, struct reader e)
{
	struct cfi_place *p = place_of(&m->now, reg), found = { .rule = CFI_AT_REG };
	uint8_t op = (uint8_t)fixed(&e, 1);

	if (!p)
		return;
	found.reg = (uint64_t)(op - 0x70); /* DW_OP_breg0 */
	found.offset = sleb(&e);
	if (e.bad || e.p != e.end || op < 0x70 || op > 0x8f)
		found = (struct cfi_place){ .rule = CFI_ODD };
	*p = found;
}

/* breg7 8; breg16 0; lit15; and; lit11; ge; lit3; shl; plus: the linker's, for its PLT. */
static bool is_plt(const struct reader *e)
{
	static const uint8_t plt[] = { 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22 };
	uint8_t got[sizeof(plt)];

	if (e->end - e->p != sizeof(plt))
		return false;
	memcpy(got, e->p, sizeof(plt));
	if (got[6] < 0x30 || got[6] > 0x3f)
		return false;
	got[6] = plt[6]; /* how far into the slot the push is differs */
	return !memcmp(got, plt, sizeof(plt));
}

static void define_cfa(struct machine *m, uint64_t reg, int64_t offset)
{
	m->now.reg = reg;
	m->now.offset = offset;
	m->now.cfa = CFI_CFA_REG;
	m->now.known = true;
}

static void define_cfa_expression(struct machine *m, struct reader e)
{
	struct cfi_row *row = &m->now;
	uint8_t op;

	row->known = false;
	row->cfa = CFI_CFA_UNKNOWN;
	if (e.bad)
		return;
	if (is_plt(&e)) {
		row->cfa = CFI_CFA_PLT;
		row->reg = CFI_RSP;
		row->offset = 8;
		row->add = e.p[6] - 0x30;
		return;
	}
	op = (uint8_t)fixed(&e, 1);
	row->reg = (uint64_t)(op - 0x70);
	row->offset = sleb(&e);
	row->add = 0;
	if (op < 0x70 || op > 0x8f || fixed(&e, 1) != 0x06) /* DW_OP_deref */
		return;
	if (e.p < e.end && fixed(&e, 1) == 0x23) /* DW_OP_plus_uconst */
		row->add = (int64_t)uleb(&e);
	if (!e.bad && e.p == e.end)
		row->cfa = CFI_CFA_DEREF;
}

static void put_scaled(struct machine *m, uint64_t reg, enum cfi_rule rule, int64_t units)
{
	put(m, reg, rule, units * m->data_align);
}

/* The instructions that stand in the low bits alone, on registers' rules. */
static void step_rule(struct machine *m, struct reader *r, uint8_t op)
{
	uint64_t reg = uleb(r);

	switch (op) {
	case 0x05: /* offset_extended */
		put_scaled(m, reg, CFI_AT_CFA, (int64_t)uleb(r));
		break;
	case 0x06: /* restore_extended */
		restore(m, reg);
		break;
	case 0x07: /* undefined */
		put(m, reg, CFI_UNDEFINED, 0);
		break;
	case 0x08: /* same_value */
		put(m, reg, CFI_SAME, 0);
		break;
	case 0x10: /* expression */
		put_expression(m, reg, block(r));
		break;
	case 0x11: /* offset_extended_sf */
		put_scaled(m, reg, CFI_AT_CFA, sleb(r));
		break;
	case 0x16: /* val_expression */
		skip_block(r);
		put(m, reg, CFI_ODD, 0);
		break;
	case 0x2f: /* GNU_negative_offset_extended */
		put_scaled(m, reg, CFI_AT_CFA, -(int64_t)uleb(r));
		break;
	default: /* register, val_offset, val_offset_sf */
		uleb(r);
		put(m, reg, CFI_ODD, 0);
	}
}

/* One instruction of the call frame program; only rbp's and the return address' rules are kept. */
static void step(struct machine *m, struct reader *r)
{
	uint8_t op = (uint8_t)fixed(r, 1);
	uint64_t reg;

	if (op >> 6 == 1) {
		advance(m, op & 0x3f);
		return;
	}
	if (op >> 6 == 2) {
		put_scaled(m, op & 0x3f, CFI_AT_CFA, (int64_t)uleb(r));
		return;
	}
	if (op >> 6 == 3) {
		restore(m, op & 0x3f);
		return;
	}
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
	case 0x2e: /* GNU_args_size */
		uleb(r);
		break;
	case 0x05:
	case 0x06:
	case 0x07:
	case 0x08:
	case 0x09:
	case 0x10:
	case 0x11:
	case 0x14:
	case 0x15:
	case 0x16:
	case 0x2f:
		step_rule(m, r, op);
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
		reg = uleb(r);
		define_cfa(m, reg, (int64_t)uleb(r));
		break;
	case 0x0d: /* def_cfa_register */
		m->now.reg = uleb(r);
		break;
	case 0x0e: /* def_cfa_offset */
		m->now.offset = (int64_t)uleb(r);
		break;
	case 0x0f: /* def_cfa_expression */
		define_cfa_expression(m, block(r));
		break;
	case 0x12: /* def_cfa_sf */
		reg = uleb(r);
		define_cfa(m, reg, sleb(r) * m->data_align);
		break;
	case 0x13: /* def_cfa_offset_sf */
		m->now.offset = sleb(r) * m->data_align;
		break;
	default:
		r->bad = true;
	}
}

bool cfi__rows(const struct image *img, const struct cfi_fde *fde,
	       void (*each)(void *arg, const struct cfi_row *row), void *arg)
{
	struct machine m = { .loc = fde->start,
			     .code_align = fde->code_align,
			     .data_align = fde->data_align,
			     .now.ra.rule = CFI_UNDEFINED };
	struct reader r = reader_at(img, fde->cie_insns, fde->cie_insns_end);

	while (!r.bad && r.p < r.end)
		step(&m, &r);
	if (r.bad)
		return false;
	m.initial = m.now;
	r = reader_at(img, fde->insns, fde->insns_end);
	while (!r.bad && m.loc < fde->end) {
		uint64_t loc = m.loc;

		m.now.start = loc;
		while (!r.bad && r.p < r.end && m.loc == loc)
			step(&m, &r);
		if (r.bad || m.loc < loc)
			return false;
		/* restore_state may have put an older start back */
		m.now.start = loc;
		each(arg, &m.now);
		if (m.loc == loc)
			return true;
	}
	return !r.bad;
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

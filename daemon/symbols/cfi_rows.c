/* SPDX-License-Identifier: BSD-2-Clause */
/* Runs the instructions of an entry of .eh_frame: how the caller's frame is found, row by row. */
#include "symbols/cfi.h"

#include <string.h>

#include "symbols/eh_reader.h"

#define MAX_REMEMBERED 16

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

static void skip_block(struct eh_reader *r)
{
	uint64_t len = eh_reader__uleb(r);

	if (len > (uint64_t)(r->end - r->p)) {
		r->bad = true;
		return;
	}
	r->p += len;
	r->vaddr += len;
}

/* The next block as a reader of its own; r goes on behind it. */
static struct eh_reader block(struct eh_reader *r)
{
	uint64_t len = eh_reader__uleb(r);
	struct eh_reader b = *r;

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
static void put_expression(struct machine *m, uint64_t reg, struct eh_reader e)
{
	struct cfi_place *p = place_of(&m->now, reg), found = { .rule = CFI_AT_REG };
	uint8_t op = (uint8_t)eh_reader__fixed(&e, 1);

	if (!p)
		return;
	found.reg = (uint64_t)(op - 0x70); /* DW_OP_breg0 */
	found.offset = eh_reader__sleb(&e);
	if (e.bad || e.p != e.end || op < 0x70 || op > 0x8f)
		found = (struct cfi_place){ .rule = CFI_ODD };
	*p = found;
}

/* breg7 8; breg16 0; lit15; and; lit11; ge; lit3; shl; plus: the linker's, for its PLT. */
static bool is_plt(const struct eh_reader *e)
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

static void define_cfa_expression(struct machine *m, struct eh_reader e)
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
	op = (uint8_t)eh_reader__fixed(&e, 1);
	row->reg = (uint64_t)(op - 0x70);
	row->offset = eh_reader__sleb(&e);
	row->add = 0;
	if (op < 0x70 || op > 0x8f || eh_reader__fixed(&e, 1) != 0x06) /* DW_OP_deref */
		return;
	if (e.p < e.end && eh_reader__fixed(&e, 1) == 0x23) /* DW_OP_plus_uconst */
		row->add = (int64_t)eh_reader__uleb(&e);
	if (!e.bad && e.p == e.end)
		row->cfa = CFI_CFA_DEREF;
}

static void put_scaled(struct machine *m, uint64_t reg, enum cfi_rule rule, int64_t units)
{
	put(m, reg, rule, units * m->data_align);
}

/* The instructions that stand in the low bits alone, on registers' rules. */
static void step_rule(struct machine *m, struct eh_reader *r, uint8_t op)
{
	uint64_t reg = eh_reader__uleb(r);

	switch (op) {
	case 0x05: /* offset_extended */
		put_scaled(m, reg, CFI_AT_CFA, (int64_t)eh_reader__uleb(r));
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
		put_scaled(m, reg, CFI_AT_CFA, eh_reader__sleb(r));
		break;
	case 0x16: /* val_expression */
		skip_block(r);
		put(m, reg, CFI_ODD, 0);
		break;
	case 0x2f: /* GNU_negative_offset_extended */
		put_scaled(m, reg, CFI_AT_CFA, -(int64_t)eh_reader__uleb(r));
		break;
	default: /* register, val_offset, val_offset_sf */
		eh_reader__uleb(r);
		put(m, reg, CFI_ODD, 0);
	}
}

/* One instruction of the call frame program; only rbp's and the return address' rules are kept. */
static void step(struct machine *m, struct eh_reader *r)
{
	uint8_t op = (uint8_t)eh_reader__fixed(r, 1);
	uint64_t reg;

	if (op >> 6 == 1) {
		advance(m, op & 0x3f);
		return;
	}
	if (op >> 6 == 2) {
		put_scaled(m, op & 0x3f, CFI_AT_CFA, (int64_t)eh_reader__uleb(r));
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
		m->loc = eh_reader__fixed(r, 8);
		break;
	case 0x02:
		advance(m, eh_reader__fixed(r, 1));
		break;
	case 0x03:
		advance(m, eh_reader__fixed(r, 2));
		break;
	case 0x04:
		advance(m, eh_reader__fixed(r, 4));
		break;
	case 0x2e: /* GNU_args_size */
		eh_reader__uleb(r);
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
		reg = eh_reader__uleb(r);
		define_cfa(m, reg, (int64_t)eh_reader__uleb(r));
		break;
	case 0x0d: /* def_cfa_register */
		m->now.reg = eh_reader__uleb(r);
		break;
	case 0x0e: /* def_cfa_offset */
		m->now.offset = (int64_t)eh_reader__uleb(r);
		break;
	case 0x0f: /* def_cfa_expression */
		define_cfa_expression(m, block(r));
		break;
	case 0x12: /* def_cfa_sf */
		reg = eh_reader__uleb(r);
		define_cfa(m, reg, eh_reader__sleb(r) * m->data_align);
		break;
	case 0x13: /* def_cfa_offset_sf */
		m->now.offset = eh_reader__sleb(r) * m->data_align;
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
	struct eh_reader r = eh_reader__at(img, fde->cie_insns, fde->cie_insns_end);

	while (!r.bad && r.p < r.end)
		step(&m, &r);
	if (r.bad)
		return false;
	m.initial = m.now;
	r = eh_reader__at(img, fde->insns, fde->insns_end);
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

// SPDX-License-Identifier: BSD-2-Clause
/*
 * Where an indirect jump goes. It is one of:
 *   jmp *slot(%rip)          through the GOT: a tail call
 *   jmp *off(%reg), *%reg    a method of a trait object or a callback: a tail call, if the stack
 *                            is back to what it was at the entry
 *   movslq (%t,%i,4),%r; add %t,%r; jmp *%r    a table of offsets, as in all PIC code
 *   jmp *table(,%i,8)        a table of addresses
 * A table is believed entry by entry while it leads onto the function's grid, up to the bound
 * that a comparison before it gives.
 */
#include "plan/walk.h"

#define MAX_TABLE 8192
#define LOOK_BACK 64 /* instructions */

/* The last instruction before i that writes reg, within its straight run of code. */
static bool definition(struct walk *w, uint32_t i, uint8_t reg, bool across_jumps, uint32_t *def)
{
	size_t first = walk__part_of(w, w->insns.data[i].vaddr)->first;
	unsigned look = across_jumps ? UINT32_MAX : LOOK_BACK;

	while (i-- > first && look--) {
		const struct insn *in = &w->insns.data[i];

		if (!across_jumps && in->flow >= INSN_JMP && in->flow != INSN_JCC)
			return false;
		if (in->wmask >> reg & 1) {
			*def = i;
			return true;
		}
	}
	return false;
}

/* The address a register holds by a lea that may have been hoisted far up. */
static bool table_base(struct walk *w, uint32_t i, uint8_t reg, uint64_t *vaddr)
{
	uint32_t def;

	for (int hops = 0; hops < 4 && reg < 16 && definition(w, i, reg, true, &def); hops++) {
		const struct insn *in = &w->insns.data[def];

		if (in->op == INSN_LEA && in->mem.base == INSN_RIP && in->mem.index == INSN_NONE) {
			*vaddr = (uint64_t)in->mem.disp;
			return true;
		}
		if (in->op != INSN_MOV)
			return false;
		reg = in->reg2;
		i = def;
	}
	return false;
}

/* How many entries a table can have by the comparison of its index; MAX_TABLE when unknown. */
static size_t table_bound(struct walk *w, uint32_t i, uint8_t index)
{
	size_t first = walk__part_of(w, w->insns.data[i].vaddr)->first;
	uint16_t regs = (uint16_t)(1u << index);

	for (unsigned look = LOOK_BACK / 2; i-- > first && look--;) {
		const struct insn *in = &w->insns.data[i], *next = in + 1;

		if (in->op == INSN_CMP_IMM && in->reg < 16 && regs >> in->reg & 1) {
			bool above = next->flow == INSN_JCC && (next->cond == 7 || next->cond == 6);
			bool from = next->flow == INSN_JCC && (next->cond == 3 || next->cond == 2);

			if ((above || from) && in->imm >= 0 && in->imm < MAX_TABLE)
				return (size_t)in->imm + above;
			return MAX_TABLE;
		}
		if (!(in->wmask & regs))
			continue;
		/* copies keep the value: look for either name */
		if ((in->op == INSN_MOV || in->op == INSN_MOV32 || in->op == INSN_ZEXT8) &&
		    in->reg2 < 16)
			regs |= (uint16_t)(1u << in->reg2);
		else
			return MAX_TABLE;
	}
	return MAX_TABLE;
}

/* A table ends at the latest where the next thing begins that the function takes the address of. */
static size_t table_room(struct walk *w, uint64_t table, size_t bound, unsigned bytes)
{
	uint64_t end = table + (uint64_t)bound * bytes;

	for (size_t k = 0; k < w->addresses.cnt; k++)
		if (w->addresses.data[k] > table && w->addresses.data[k] < end)
			end = w->addresses.data[k];
	return (end - table) / bytes;
}

/* Where the unwind rows say otherwise, a jump from one to the other cannot be. */
static bool same_stack(struct walk *w, uint64_t from, uint64_t to)
{
	int32_t a = walk__sp_by_rows(w, from), b = walk__sp_by_rows(w, to);

	return a == WALK_SP_UNKNOWN || b == WALK_SP_UNKNOWN || a == b;
}

/*
 * Reads a table of offsets from its own start (bytes 4) or of addresses (8). Without a bound it
 * is read until an entry makes no sense.
 */
static bool follow_table(struct walk *w, uint32_t i, uint64_t table, size_t bound, unsigned bytes)
{
	struct visit v = w->visits.data[i];
	uint64_t from = w->insns.data[i].vaddr;
	bool sure = bound < MAX_TABLE;
	size_t n;

	if (!sure)
		bound = table_room(w, table, bound, bytes);
	for (n = 0; n < bound; n++) {
		uint64_t target;
		uint32_t at;

		if (bytes == 4) {
			size_t avail;
			const uint8_t *p = image__bytes(w->img, table + 4 * n, &avail);
			int32_t offset;

			if (!p || avail < 4)
				break;
			memcpy(&offset, p, sizeof(offset));
			target = table + (uint64_t)(int64_t)offset;
		} else if (!image__pointer(w->img, table + 8 * n, &target)) {
			break;
		}
		if (!walk__is_own(w, target, false) || !walk__index_of(w, target, &at) ||
		    (!sure && !same_stack(w, from, target)))
			break;
		walk__jump_to(w, i, target, v.sp, v.frame);
	}
	return n > 0;
}

enum jump { JUMP_TABLE, JUMP_TAIL, JUMP_UNKNOWN };

/*
 * When it cannot be told which table a jump reads: all that the function takes the address of.
 * That is more than the truth, never less, for code has no other way to come by a table.
 */
static enum jump any_table(struct walk *w, uint32_t i)
{
	bool found = false;

	for (size_t k = 0; k < w->addresses.cnt; k++)
		found |= follow_table(w, i, w->addresses.data[k], MAX_TABLE, 4);
	return found ? JUMP_TABLE : JUMP_UNKNOWN;
}

static enum jump table_of_offsets(struct walk *w, uint32_t i, uint32_t add, uint8_t a, uint8_t b)
{
	uint32_t def;
	uint64_t table;

	for (int swap = 0; swap < 2; swap++) {
		uint8_t value = swap ? b : a, base = swap ? a : b;
		const struct insn *load;

		if (value >= 16 || !definition(w, add, value, false, &def))
			continue;
		load = &w->insns.data[def];
		if (load->op != INSN_LOADS32 || load->mem.scale != 4)
			continue;
		if ((table_base(w, add, base, &table) ||
		     table_base(w, def, load->mem.base, &table)) &&
		    follow_table(w, i, table + (uint64_t)load->mem.disp,
				 table_bound(w, def, load->mem.index), 4))
			return JUMP_TABLE;
		return any_table(w, i);
	}
	return JUMP_UNKNOWN;
}

/*
 * Indexed by eights: a jump table in position-dependent code, else an array of function pointers.
 * The first entry tells, where the array is a constant.
 */
static enum jump table_of_addresses(struct walk *w, uint32_t i, uint32_t at)
{
	const struct insn *in = &w->insns.data[at];
	uint64_t table = (uint64_t)in->mem.disp, base, first;

	if (in->mem.scale != 8)
		return JUMP_UNKNOWN;
	if (in->mem.base != INSN_NONE) {
		if (!table_base(w, at, in->mem.base, &base))
			return JUMP_TAIL; /* in an object */
		table += base;
	}
	if (!image__pointer(w->img, table, &first))
		return JUMP_UNKNOWN;
	if (!walk__is_own(w, first, false))
		return image__function_at(w->img, first) ? JUMP_TAIL : JUMP_UNKNOWN;
	return follow_table(w, i, table, table_bound(w, at, in->mem.index), 8) ? JUMP_TABLE
									       : JUMP_UNKNOWN;
}

/* A jump through a register: what put the address there? */
static enum jump through_register(struct walk *w, uint32_t i)
{
	uint8_t reg = w->insns.data[i].reg;
	const struct insn *in;
	uint32_t def;

	if (reg >= 16 || !definition(w, i, reg, false, &def)) {
		/* an argument, or kept across blocks: a callback, but for a frame still there */
		return walk__frame_is_gone(w, i) ? JUMP_TAIL : any_table(w, i);
	}
	in = &w->insns.data[def];
	if (in->op == INSN_ADD)
		return table_of_offsets(w, i, def, in->reg, in->reg2);
	if (in->op == INSN_LEA && in->mem.index != INSN_NONE && in->mem.scale == 1)
		return table_of_offsets(w, i, def, in->mem.base, in->mem.index);
	if (in->op == INSN_LOAD64 && in->mem.index != INSN_NONE)
		return table_of_addresses(w, i, def);
	if (in->op == INSN_LOAD64 || in->op == INSN_MOV || in->op == INSN_LEA)
		return JUMP_TAIL;
	return in->flow == INSN_CALL || in->flow == INSN_CALL_IND || in->sp_bytes == 8
		       ? JUMP_TAIL
		       : /* a result, or popped */
		       JUMP_UNKNOWN;
}

void walk__indirect(struct walk *w, uint32_t i)
{
	const struct insn *in = &w->insns.data[i];
	enum jump kind;

	if (in->reg != INSN_NONE)
		kind = through_register(w, i);
	else
		kind = in->mem.index != INSN_NONE ? table_of_addresses(w, i, i) : JUMP_TAIL;
	if (kind == JUMP_TAIL)
		walk__leave(w, i, RT_SITE_TAIL);
	else if (kind == JUMP_UNKNOWN)
		walk__refuse(w, PLAN_UNKNOWN_JUMP, w->insns.data[i].vaddr);
}

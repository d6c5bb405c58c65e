// SPDX-License-Identifier: BSD-2-Clause
/*
 * Decoding a coroutine's beginning.
 *
 * From the first instruction on, pointers derived from the first two arguments (rsi when the
 * result is returned through a hidden pointer in rdi) are followed through registers and stack
 * slots. The byte loaded from such a pointer that then indexes a jump table, or is compared, is
 * the state: 0 not started, 1 returned, 2 panicked, 3 and up suspended at an await.
 *
 * An ordinary closure that matches on an enum it was given looks the same. A coroutine gives
 * itself away by storing to that very byte, or by the panic "async fn resumed after completion".
 *
 * Of 41 coroutines of translator_sv2 all decode within 24 instructions, those that a task's
 * wrapper has swallowed within 150; DWARF agrees on every offset.
 */
#include "plan/closure.h"

#include <string.h>

#include "plan/flow.h"
#include "symbols/image.h"

#define LOOK_AHEAD 160
#define SLOTS 32

struct pointer {
	uint8_t arg; /* INSN_RDI, INSN_RSI; INSN_NONE: not derived from an argument */
	int64_t offset;
};

struct follow {
	struct pointer regs[16];   /* what a register points to */
	struct pointer states[16]; /* the byte a register was loaded from */
	struct {
		int64_t disp;
		struct pointer to;
	} slots[SLOTS];
	unsigned slot_cnt;
};

bool closure__is_named(const char *demangled)
{
	size_t len = strlen(demangled);
	const char *last = memrchr(demangled, '{', len);

	if (len > 11 && !strcmp(demangled + len - 11, "{{closure}}"))
		return true;
	return last && !strncmp(last, "{closure#", 9) && demangled[len - 1] == '}';
}

static void forget(struct follow *f, uint8_t reg)
{
	if (reg < 16)
		f->regs[reg].arg = f->states[reg].arg = INSN_NONE;
}

static bool derived(const struct follow *f, const struct insn_mem *mem, struct pointer *out)
{
	if (mem->base >= 16 || mem->index != INSN_NONE || f->regs[mem->base].arg == INSN_NONE)
		return false;
	*out = f->regs[mem->base];
	out->offset += mem->disp;
	return true;
}

static struct pointer *slot_of(struct follow *f, const struct insn_mem *mem, bool add)
{
	if (mem->base != INSN_RSP || mem->index != INSN_NONE)
		return NULL;
	for (unsigned i = 0; i < f->slot_cnt; i++)
		if (f->slots[i].disp == mem->disp)
			return &f->slots[i].to;
	if (!add || f->slot_cnt == SLOTS)
		return NULL;
	f->slots[f->slot_cnt].disp = mem->disp;
	return &f->slots[f->slot_cnt++].to;
}

/* Carries what is known over one instruction. */
static void carry(struct follow *f, const struct insn *in)
{
	struct pointer to = { INSN_NONE, 0 }, state = { INSN_NONE, 0 }, *slot;

	switch ((enum insn_op)in->op) {
	case INSN_MOV:
	case INSN_MOV32:
	case INSN_ZEXT8:
		if (in->reg2 < 16) {
			state = f->states[in->reg2];
			if (in->op == INSN_MOV)
				to = f->regs[in->reg2];
		}
		break;
	case INSN_LOAD8:
		derived(f, &in->mem, &state);
		break;
	case INSN_LEA:
		derived(f, &in->mem, &to);
		break;
	case INSN_LOAD64:
		slot = slot_of(f, &in->mem, false);
		if (slot)
			to = *slot;
		break;
	case INSN_STORE64:
		slot = in->reg < 16 ? slot_of(f, &in->mem, true) : NULL;
		if (slot)
			*slot = f->regs[in->reg];
		return;
	default:
		break;
	}
	for (uint8_t r = 0; r < 16; r++)
		if (in->wmask >> r & 1 && r != INSN_RSP)
			forget(f, r);
	if (in->flow == INSN_CALL || in->flow == INSN_CALL_IND)
		for (uint8_t r = 0; r < 16; r++)
			if (r != INSN_RBX && r != INSN_RBP && r < 12)
				forget(f, r);
	if (in->op != INSN_OTHER && in->reg < 16 && in->wmask >> in->reg & 1) {
		f->regs[in->reg] = to;
		f->states[in->reg] = state;
	}
}

/* Whether this instruction acts on a state byte; table: it indexes a jump table by it. */
static bool uses_state(const struct follow *f, const struct insn *in, struct pointer *out,
		       bool *table)
{
	*table = false;
	if ((in->op == INSN_LOADS32 && in->mem.scale == 4) ||
	    (in->flow == INSN_JMP_IND && in->mem.scale == 8) ||
	    (in->op == INSN_LOAD64 && in->mem.scale == 8)) {
		*table = true;
		if (in->mem.index >= 16 || f->states[in->mem.index].arg == INSN_NONE)
			return false;
		*out = f->states[in->mem.index];
		return true;
	}
	if (in->op == INSN_CMP8_MEM)
		return derived(f, &in->mem, out);
	if (in->op != INSN_CMP_IMM || in->reg >= 16 || f->states[in->reg].arg == INSN_NONE)
		return false;
	*out = f->states[in->reg];
	return true;
}

static bool find_state(const struct flow *flow, struct pointer *out)
{
	struct follow f = { .slot_cnt = 0 };
	struct pointer found;
	bool compared = false, table;

	for (uint8_t r = 0; r < 16; r++)
		forget(&f, r);
	f.regs[INSN_RDI].arg = INSN_RDI;
	f.regs[INSN_RSI].arg = INSN_RSI;
	for (size_t i = 0; i < flow->insn_cnt && i < LOOK_AHEAD; i++) {
		const struct insn *in = &flow->insns[i];

		if (uses_state(&f, in, &found, &table)) {
			if (table || !compared)
				*out = found;
			if (table)
				return true;
			compared = true;
		}
		if (in->flow == INSN_RET || in->flow == INSN_STOP || in->flow == INSN_JMP)
			break;
		carry(&f, in);
	}
	return compared;
}

static const char *callee_name(const struct image *img, const struct insn *in)
{
	const struct symbol *sym;
	uint64_t to;

	if (!flow__callee(img, in, &to))
		return NULL;
	sym = image__function_at(img, to);
	return sym ? image__str(img, sym->name) : NULL;
}

static bool stores_state(const struct flow *flow, const struct pointer *state)
{
	for (size_t i = 0; i < flow->insn_cnt; i++) {
		const struct insn *in = &flow->insns[i];

		if (in->op == INSN_STORE8_IMM && in->imm == 1 && in->mem.base < 16 &&
		    in->mem.base != INSN_RSP && in->mem.disp == state->offset)
			return true;
	}
	return false;
}

static bool panics_when_resumed(const struct image *img, const struct flow *flow)
{
	for (size_t i = 0; i < flow->insn_cnt; i++) {
		const char *name = callee_name(img, &flow->insns[i]);

		if (name && strstr(name, "panic_const") && strstr(name, "async_") &&
		    strstr(name, "_resumed"))
			return true;
	}
	return false;
}

bool closure__is_coroutine(const struct image *img, const struct flow *flow,
			   struct closure_state *out)
{
	struct pointer state;

	if (!find_state(flow, &state) ||
	    (!stores_state(flow, &state) && !panics_when_resumed(img, flow)))
		return false;
	out->arg = state.arg;
	out->offset = state.offset;
	return true;
}

bool closure__is_event(const struct image *img, uint64_t vaddr, uint64_t size)
{
	size_t avail;
	const uint8_t *p = image__bytes(img, vaddr, &avail);
	struct insn in;

	if (size < avail)
		avail = size;
	for (size_t off = 0; p && off < avail; off += in.len) {
		const char *name;

		if (!insn__decode(p + off, avail - off, vaddr + off, &in))
			return false;
		if (in.flow == INSN_NEXT)
			continue;
		name = callee_name(img, &in);
		return name && (in.flow == INSN_CALL || in.flow == INSN_CALL_IND) &&
		       strstr(name, "12tracing_core");
	}
	return false;
}

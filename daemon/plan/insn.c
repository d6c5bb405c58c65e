// SPDX-License-Identifier: BSD-2-Clause
/*
 * Decoding by Zydis, translated into the few facts of struct insn.
 *
 * What the kernel does with an instruction under a breakpoint follows arch/x86/kernel/uprobes.c:
 * uprobe_init_insn refuses some prefixes and opcodes; branch_setup_xol_ops and push_setup_xol_ops
 * pick out what is emulated; all the rest is single-stepped out of line. One refused instruction
 * fails a whole uprobe_multi link, so the tables are mirrored here and the plan refuses first.
 * Where kernels differ the narrower answer stands: a refusal too many is a named row, one too few
 * a batch that does not attach.
 */
#include "plan/insn.h"

#include <pthread.h>
#include <string.h>
#include <Zydis/Zydis.h>

/* Opcodes refused in 64-bit mode, a bit each: good_insns_64, inverted. */
static const uint16_t bad_opcodes[16] = {
	0x40c0,			/* 06 07 0e; (0f is the escape, good_2byte_insns decides) */
	0xc0c0,			/* 16 17 1e 1f */
	0x8080,			/* 27 2f */
	0x8080,			/* 37 3f */
	0x0000, 0x0000, 0xf007, /* 60 61 62 (EVEX), 6c-6f ins outs */
	0x0000, 0x0004,		/* 82 */
	0x0400,			/* 9a */
	0x0000, 0x0000, 0xf000, /* cc int3, cd int, ce, cf iret */
	0x0070,			/* d4 d5 d6 */
	0xf4f0,			/* e4-e7 in out, ea, ec-ef in out */
	0x0c12,			/* f1 int1, f4 hlt, fa cli, fb sti */
};

/* The same behind 0f: good_2byte_insns, inverted. */
static const uint16_t bad_opcodes_0f[16] = {
	0x0be3,				/* 00 01 05 syscall 06 07 08 09 0b ud2 */
	0x0000, 0x0000, 0x00b1,		/* 30 34 sysenter 35 37 */
	0x0000, 0x0000, 0x0000, 0x0300, /* 78 79 */
	0x0000, 0x0000, 0x4000,		/* ae fences, xsave */
	0x0000, 0x0000, 0x0000, 0x0000, 0x0000,
};

static bool in_table(const uint16_t table[16], uint8_t opcode)
{
	return table[opcode >> 4] >> (opcode & 15) & 1;
}

static struct {
	pthread_once_t once;
	ZydisDecoder decoder;
	uint8_t regs[ZYDIS_REGISTER_MAX_VALUE + 1]; /* enum insn_reg of each */
} setup = { .once = PTHREAD_ONCE_INIT };

static void set_up(void)
{
	ZydisDecoderInit(&setup.decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	for (int r = 0; r <= ZYDIS_REGISTER_MAX_VALUE; r++) {
		ZydisRegister full = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64,
								      (ZydisRegister)r);

		setup.regs[r] = INSN_NONE;
		if (full >= ZYDIS_REGISTER_RAX && full <= ZYDIS_REGISTER_R15)
			setup.regs[r] = (uint8_t)(full - ZYDIS_REGISTER_RAX);
	}
	setup.regs[ZYDIS_REGISTER_RIP] = INSN_RIP;
}

static uint8_t reg_of(ZydisRegister r)
{
	return setup.regs[r];
}

static bool has_prefix(const ZydisDecodedInstruction *in, const char *set)
{
	for (int i = 0; i < in->raw.prefix_count; i++)
		if (strchr(set, in->raw.prefixes[i].value))
			return true;
	return false;
}

static bool is_nop(const ZydisDecodedInstruction *in)
{
	if (in->mnemonic != ZYDIS_MNEMONIC_NOP)
		return false;
	return in->opcode == 0x90 || (in->opcode_map == ZYDIS_OPCODE_MAP_0F && in->opcode == 0x1f);
}

static void kernel_view(const ZydisDecodedInstruction *in, struct insn *out)
{
	bool legacy = in->encoding == ZYDIS_INSTRUCTION_ENCODING_LEGACY;
	uint8_t op = in->opcode;

	/* es cs ss ds lock; a notrack jump carries ds */
	out->refused = has_prefix(in, "\x26\x2e\x36\x3e\xf0");
	if (in->encoding == ZYDIS_INSTRUCTION_ENCODING_EVEX ||
	    in->encoding == ZYDIS_INSTRUCTION_ENCODING_MVEX ||
	    in->encoding == ZYDIS_INSTRUCTION_ENCODING_XOP)
		out->refused = true;
	if (legacy && in->opcode_map == ZYDIS_OPCODE_MAP_DEFAULT) {
		out->refused |= in_table(bad_opcodes, op);
		out->refused |= op == 0x8e && in->raw.modrm.reg == 2; /* mov ss masks exceptions */
		out->emulated = op == 0xeb || op == 0xe9 || op == 0xe8 || (op & 0xf0) == 0x70;
		out->emulated |=
			(op & 0xf8) == 0x50 &&
			(in->length == 1 ||
			 (in->length == 2 && in->raw.rex.offset == 0 && in->raw.prefix_count == 1 &&
			  in->attributes & ZYDIS_ATTRIB_HAS_REX && !in->raw.rex.W &&
			  !in->raw.rex.R && !in->raw.rex.X && in->raw.rex.B));
	} else if (in->encoding == ZYDIS_INSTRUCTION_ENCODING_VEX) {
		/* the kernel looks a VEX opcode up in the one-byte table, whatever its map */
		out->refused |= in_table(bad_opcodes, op);
	} else if (legacy && in->opcode_map == ZYDIS_OPCODE_MAP_0F) {
		out->refused |= in_table(bad_opcodes_0f, op);
		out->emulated = (op & 0xf0) == 0x80;
	}
	if (is_nop(in))
		out->emulated = true;
	else if (out->emulated && has_prefix(in, "\x66"))
		out->refused = true; /* word-sized branches */
	out->emulated &= !out->refused;
}

static void flow_of(const ZydisDecodedInstruction *in, struct insn *out)
{
	bool direct = in->raw.imm[0].is_relative;

	out->flow = INSN_NEXT;
	switch (in->meta.category) {
	case ZYDIS_CATEGORY_CALL:
		out->flow = direct ? INSN_CALL : INSN_CALL_IND;
		break;
	case ZYDIS_CATEGORY_UNCOND_BR:
		if (in->mnemonic == ZYDIS_MNEMONIC_JMP)
			out->flow = direct ? INSN_JMP : INSN_JMP_IND;
		break;
	case ZYDIS_CATEGORY_COND_BR:
		out->flow = INSN_JCC;
		out->cond = in->opcode & 15;
		if ((in->opcode & 0xfc) == 0xe0 && in->opcode_map == ZYDIS_OPCODE_MAP_DEFAULT)
			out->flow = INSN_JCXZ;
		else if (in->mnemonic == ZYDIS_MNEMONIC_XBEGIN)
			out->flow = INSN_JCXZ;
		break;
	case ZYDIS_CATEGORY_RET:
		out->flow = INSN_RET;
		break;
	default:
		break;
	}
	if (in->mnemonic == ZYDIS_MNEMONIC_XBEGIN)
		out->flow = INSN_JCXZ;
	if (in->mnemonic == ZYDIS_MNEMONIC_UD0 || in->mnemonic == ZYDIS_MNEMONIC_UD1 ||
	    in->mnemonic == ZYDIS_MNEMONIC_UD2 || in->mnemonic == ZYDIS_MNEMONIC_HLT ||
	    in->mnemonic == ZYDIS_MNEMONIC_INT3)
		out->flow = INSN_STOP;
	if (direct)
		out->target = out->vaddr + in->length + (uint64_t)in->raw.imm[0].value.s;
	out->padding = is_nop(in) || in->mnemonic == ZYDIS_MNEMONIC_INT3;
}

static void memory(const ZydisDecodedOperand *op, struct insn *out)
{
	out->mem.base = reg_of(op->mem.base);
	out->mem.index = reg_of(op->mem.index);
	out->mem.scale = out->mem.index == INSN_NONE ? 0 : op->mem.scale;
	out->mem.disp = op->mem.disp.has_displacement ? op->mem.disp.value : 0;
	if (out->mem.base == INSN_RIP)
		out->mem.disp += (int64_t)(out->vaddr + out->len);
	/* fs: and gs: address a thread's own storage, nothing that can be followed */
	if (op->mem.segment == ZYDIS_REGISTER_FS || op->mem.segment == ZYDIS_REGISTER_GS)
		out->mem.base = out->mem.index = INSN_NONE;
}

/* The stack pointer, for the instructions that move it by what the bytes say. */
static void stack(const ZydisDecodedInstruction *in, const ZydisDecodedOperand *ops,
		  struct insn *out)
{
	bool to_sp =
		ops[0].type == ZYDIS_OPERAND_TYPE_REGISTER && reg_of(ops[0].reg.value) == INSN_RSP;
	bool by_imm = ops[1].type == ZYDIS_OPERAND_TYPE_IMMEDIATE;

	switch (in->mnemonic) {
	case ZYDIS_MNEMONIC_PUSH:
	case ZYDIS_MNEMONIC_PUSHFQ:
		out->sp_bytes = in->operand_width == 16 ? INSN_SP_LOST : -8;
		return;
	case ZYDIS_MNEMONIC_POP:
	case ZYDIS_MNEMONIC_POPFQ:
		out->sp_bytes = in->operand_width == 16 || to_sp ? INSN_SP_LOST : 8;
		return;
	case ZYDIS_MNEMONIC_SUB:
		if (to_sp)
			out->sp_bytes = by_imm ? (int32_t)-ops[1].imm.value.s : INSN_SP_LOST;
		return;
	case ZYDIS_MNEMONIC_ADD:
		if (to_sp)
			out->sp_bytes = by_imm ? (int32_t)ops[1].imm.value.s : INSN_SP_LOST;
		return;
	case ZYDIS_MNEMONIC_LEAVE:
		out->sp_from_frame = true;
		out->sp_bytes = 8;
		return;
	case ZYDIS_MNEMONIC_LEA:
		if (!to_sp)
			return;
		out->sp_from_frame = out->mem.base == INSN_RBP;
		out->sp_bytes = out->mem.index == INSN_NONE && (out->mem.base == INSN_RSP ||
								out->mem.base == INSN_RBP)
					? (int32_t)out->mem.disp
					: INSN_SP_LOST;
		return;
	case ZYDIS_MNEMONIC_MOV:
		if (to_sp) {
			out->sp_from_frame = ops[1].type == ZYDIS_OPERAND_TYPE_REGISTER &&
					     ops[1].reg.value == ZYDIS_REGISTER_RBP;
			out->sp_bytes = out->sp_from_frame ? 0 : INSN_SP_LOST;
		}
		out->frame_from_sp = ops[0].type == ZYDIS_OPERAND_TYPE_REGISTER &&
				     ops[0].reg.value == ZYDIS_REGISTER_RBP &&
				     ops[1].type == ZYDIS_OPERAND_TYPE_REGISTER &&
				     ops[1].reg.value == ZYDIS_REGISTER_RSP;
		return;
	case ZYDIS_MNEMONIC_CMP:
	case ZYDIS_MNEMONIC_TEST:
		return;
	default:
		if (to_sp || in->mnemonic == ZYDIS_MNEMONIC_ENTER)
			out->sp_bytes = INSN_SP_LOST;
	}
}

static void values(const ZydisDecodedInstruction *in, const ZydisDecodedOperand *ops,
		   struct insn *out)
{
	const ZydisDecodedOperand *a = &ops[0], *b = &ops[1];
	bool ra = a->type == ZYDIS_OPERAND_TYPE_REGISTER,
	     rb = b->type == ZYDIS_OPERAND_TYPE_REGISTER;
	bool ma = a->type == ZYDIS_OPERAND_TYPE_MEMORY, mb = b->type == ZYDIS_OPERAND_TYPE_MEMORY;
	bool ib = b->type == ZYDIS_OPERAND_TYPE_IMMEDIATE;

	out->reg = ra ? reg_of(a->reg.value) : INSN_NONE;
	out->reg2 = rb ? reg_of(b->reg.value) : INSN_NONE;
	if (ib)
		out->imm = b->imm.value.s;
	switch (in->mnemonic) {
	case ZYDIS_MNEMONIC_MOV:
		if (ra && rb)
			out->op = a->size == 64	  ? INSN_MOV
				  : a->size == 32 ? INSN_MOV32
						  : INSN_OTHER;
		else if (ra && mb)
			out->op = a->size == 64	  ? INSN_LOAD64
				  : a->size == 32 ? INSN_LOAD32
				  : a->size == 8  ? INSN_LOAD8
						  : INSN_OTHER;
		else if (ma && rb && a->size == 64)
			out->op = INSN_STORE64;
		else if (ma && ib && a->size == 8)
			out->op = INSN_STORE8_IMM;
		if (out->op == INSN_STORE64)
			out->reg = out->reg2;
		break;
	case ZYDIS_MNEMONIC_MOVZX:
		if (b->size == 8)
			out->op = mb ? INSN_LOAD8 : INSN_ZEXT8;
		break;
	case ZYDIS_MNEMONIC_MOVSXD:
		out->op = mb ? INSN_LOADS32 : INSN_OTHER;
		break;
	case ZYDIS_MNEMONIC_LEA:
		out->op = INSN_LEA;
		break;
	case ZYDIS_MNEMONIC_ADD:
		out->op = ra && rb && a->size == 64 ? INSN_ADD : INSN_OTHER;
		break;
	case ZYDIS_MNEMONIC_CMP:
		if (ib)
			out->op = ra ? INSN_CMP_IMM : a->size == 8 ? INSN_CMP8_MEM : INSN_OTHER;
		break;
	case ZYDIS_MNEMONIC_TEST: /* test al, al compares with 0 */
		if (ra && rb && a->reg.value == b->reg.value)
			out->op = INSN_CMP_IMM;
		break;
	default:
		break;
	}
}

static void writes(const ZydisDecodedInstruction *in, const ZydisDecodedOperand *ops,
		   struct insn *out)
{
	for (int i = 0; i < in->operand_count; i++) {
		uint8_t r;

		if (ops[i].type != ZYDIS_OPERAND_TYPE_REGISTER ||
		    !(ops[i].actions & ZYDIS_OPERAND_ACTION_MASK_WRITE))
			continue;
		r = reg_of(ops[i].reg.value);
		if (r < 16)
			out->wmask |= (uint16_t)(1u << r);
	}
}

static bool is_unbounded(const ZydisDecodedInstruction *in)
{
	return in->attributes &
		       (ZYDIS_ATTRIB_HAS_REP | ZYDIS_ATTRIB_HAS_REPE | ZYDIS_ATTRIB_HAS_REPNE) ||
	       in->mnemonic == ZYDIS_MNEMONIC_SYSCALL || in->mnemonic == ZYDIS_MNEMONIC_SYSENTER ||
	       in->mnemonic == ZYDIS_MNEMONIC_INT || in->mnemonic == ZYDIS_MNEMONIC_CPUID;
}

bool insn__decode(const uint8_t *bytes, size_t avail, uint64_t vaddr, struct insn *out)
{
	ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];
	ZydisDecodedInstruction in;

	pthread_once(&setup.once, set_up);
	if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&setup.decoder, bytes, avail, &in, ops)))
		return false;
	memset(out, 0, sizeof(*out));
	out->vaddr = vaddr;
	out->len = in.length;
	out->mem.base = out->mem.index = INSN_NONE;
	for (int i = 0; i < in.operand_count_visible; i++)
		if (ops[i].type == ZYDIS_OPERAND_TYPE_MEMORY)
			memory(&ops[i], out);
	flow_of(&in, out);
	kernel_view(&in, out);
	values(&in, ops, out);
	stack(&in, ops, out);
	writes(&in, ops, out);
	out->unbounded = is_unbounded(&in);
	return true;
}

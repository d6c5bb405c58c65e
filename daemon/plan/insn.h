/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One x86-64 instruction, as far as probes and control flow care: where it goes, what it does to
 * the stack pointer, how the kernel would execute it under a breakpoint. The only file behind
 * which the disassembler stands. Knows nothing of functions.
 */
#ifndef PLAN_INSN_H
#define PLAN_INSN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* General registers by their number in the encoding: rax rcx rdx rbx rsp rbp rsi rdi r8-r15. */
enum insn_reg {
	INSN_RAX = 0,
	INSN_RCX = 1,
	INSN_RDX = 2,
	INSN_RBX = 3,
	INSN_RSP = 4,
	INSN_RBP = 5,
	INSN_RSI = 6,
	INSN_RDI = 7,
	INSN_RIP = 16,
	INSN_NONE = 17,
};

enum insn_flow {
	INSN_NEXT,     /* goes on behind it */
	INSN_CALL,     /* direct: target */
	INSN_CALL_IND, /* through a register or memory */
	INSN_JMP,      /* direct: target */
	INSN_JCC,      /* conditional: target, cond */
	INSN_JCXZ,     /* jrcxz, loop: conditional on a register */
	INSN_JMP_IND,  /* through a register (reg) or memory (mem) */
	INSN_RET,
	INSN_STOP, /* ud2, hlt, int3: control does not go on */
};

/* What it does to values, as far as tables and states are followed through it. */
enum insn_op {
	INSN_OTHER,	 /* writes the registers in wmask */
	INSN_MOV,	 /* reg = reg2, 64 bits wide */
	INSN_MOV32,	 /* reg = reg2, 32 bits, zero extended */
	INSN_LOAD64,	 /* reg = mem */
	INSN_LOAD32,	 /* reg = mem, zero extended */
	INSN_LOAD8,	 /* reg = mem, one byte (movzx or mov) */
	INSN_ZEXT8,	 /* reg = low byte of reg2 */
	INSN_LOADS32,	 /* reg = mem, sign extended from 32 bits (movsxd) */
	INSN_LEA,	 /* reg = address of mem */
	INSN_ADD,	 /* reg += reg2 */
	INSN_STORE64,	 /* mem = reg */
	INSN_STORE8_IMM, /* mem = imm, one byte */
	INSN_CMP_IMM,	 /* reg with imm */
	INSN_CMP8_MEM,	 /* byte in mem with imm */
};

struct insn_mem {
	uint8_t base, index, scale; /* enum insn_reg; scale 0 without an index */
	int64_t disp;		    /* with base INSN_RIP: the address itself */
};

struct insn {
	uint64_t vaddr;
	uint64_t target; /* of INSN_CALL, JMP, JCC, JCXZ */
	struct insn_mem mem;
	int64_t imm;
	int32_t sp_bytes; /* added to rsp; INSN_SP_LOST when it cannot be told */
	uint16_t wmask;	  /* general registers it may write, a bit each */
	uint8_t len;
	uint8_t flow; /* enum insn_flow */
	uint8_t op;   /* enum insn_op */
	uint8_t reg, reg2;
	uint8_t cond;	    /* low 4 bits of a jcc's opcode */
	bool emulated;	    /* by the kernel; else it is single-stepped */
	bool refused;	    /* the kernel puts no probe here */
	bool frame_from_sp; /* mov rbp, rsp */
	bool sp_from_frame; /* leave, mov rsp, rbp, lea rsp, [rbp + disp]: sp_bytes counts from rbp
			     */
	bool padding;	    /* nop of any length, or int3 */
	bool unbounded;	    /* may take any time: a system call, a repeated string operation */
};
#define INSN_SP_LOST INT32_MIN

/* Decodes the instruction at vaddr; false when the bytes are none. */
bool insn__decode(const uint8_t *bytes, size_t avail, uint64_t vaddr, struct insn *out);

#endif

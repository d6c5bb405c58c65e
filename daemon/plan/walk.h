/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A function while its control flow is followed: what flow.c, parts.c, jumps.c and edges.c share.
 * Nothing else includes it.
 */
#ifndef PLAN_WALK_H
#define PLAN_WALK_H

#include "base/vec.h"
#include "plan/flow.h"
#include "symbols/cfi.h"
#include "symbols/image.h"

#define WALK_MAX_PARTS 4
#define WALK_MAX_BYTES (8u << 20)
#define WALK_SP_UNKNOWN INSN_SP_LOST

/* A stretch of code: the function itself, or its cold part. */
struct part {
	uint64_t start, end;
	const uint8_t *bytes;
	uint32_t *at;	    /* per byte: index of the instruction that starts there, + 1 */
	size_t first, last; /* its instructions */
	struct cfi_fde fde;
	bool has_fde;
	struct rows {
		struct cfi_row *data;
		size_t cnt, cap;
	} rows;
};

/* What is known on arrival at an instruction. */
struct visit {
	int32_t sp;    /* bytes above its value at the entry, or WALK_SP_UNKNOWN */
	int32_t frame; /* the same of rbp, when it is a frame pointer */
	bool seen, target;
	bool pad; /* unwinding may come in here */
};

/* A way from one instruction to the next; calls' own ways are not of the function. */
struct step {
	uint32_t from, to;
	bool taken; /* of a conditional jump: when it jumps */
};

struct walk {
	const struct image *img;
	const struct symbol *sym;
	struct flow *out;
	struct part parts[WALK_MAX_PARTS];
	unsigned part_cnt;
	VEC(struct insn) insns;
	VEC(struct visit) visits;
	VEC(struct step) steps;
	VEC(uint32_t) todo;
	VEC(struct flow_site) exits;
	VEC(uint32_t) exit_at; /* of each exit, its instruction */
	VEC(struct flow_site) edges;
	VEC(uint64_t) addresses; /* of data that the function takes: where tables may be */
	bool oom;
};

/* parts.c */
struct part *walk__part_of(struct walk *w, uint64_t vaddr);
/* The instruction that begins there; false when none does, or it is not the function's. */
bool walk__index_of(struct walk *w, uint64_t vaddr, uint32_t *i);
/* Decodes a stretch straight on; false when there are no such bytes. */
bool walk__add_part(struct walk *w, uint64_t start, uint64_t bytes);
/* Whether an address is the function's; its cold part becomes so when it is first met. */
bool walk__is_own(struct walk *w, uint64_t vaddr, bool with_frame);
/* How far the stack pointer is from its value at the entry, by the unwind rows. */
int32_t walk__sp_by_rows(struct walk *w, uint64_t vaddr);

/* flow.c */
void walk__refuse(struct walk *w, enum plan_refusal why, uint64_t at);
/* Goes on at an address of the function. */
void walk__jump_to(struct walk *w, uint32_t from, uint64_t vaddr, int32_t sp, int32_t frame);
/* Leaves the function at instruction i. */
void walk__leave(struct walk *w, uint32_t i, enum rt_site_kind kind);
/* Whether a jump or ret at i leaves with the stack as the caller had it. */
bool walk__frame_is_gone(struct walk *w, uint32_t i);

/* jumps.c */
void walk__indirect(struct walk *w, uint32_t i);

/* edges.c */
void walk__choose_edges(struct walk *w);

#endif

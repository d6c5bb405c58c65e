/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One function's control flow: what of it is code, where it is entered, every way out of it. All
 * or nothing: a function that is not fully understood is refused with the reason, because a
 * breakpoint in data corrupts the program and a missed exit corrupts the figures.
 */
#ifndef PLAN_FLOW_H
#define PLAN_FLOW_H

#include "plan/insn.h"
#include "plan/plan.h"

struct image;
struct symbol;

struct flow_site {
	uint64_t vaddr;
	enum rt_site_kind kind;
	enum rt_insn_class insn;
	uint8_t cond;
	uint16_t sp_words;
};

struct flow {
	enum plan_refusal why;	 /* PLAN_OK, or nothing else here is to be used */
	uint64_t why_at;	 /* the address that settled it; for messages */
	struct flow_site entry;	 /* the cheapest place for the entry probe */
	struct flow_site first;	 /* the first instruction: the only place for a return probe */
	bool first_usable;	 /* the kernel takes a probe there; set also for what is refused */
	struct flow_site *exits; /* every ret and jump out */
	size_t exit_cnt;
	/* In their stead, where it is cheaper: jumps behind which there is only the way out
	 * (edges.c). None: no edge is proven. */
	struct flow_site *edges;
	size_t edge_cnt;
	struct insn *insns; /* of all parts, in order of address within a part; the entry first */
	size_t insn_cnt;
};

/* 0 with a verdict in out, or -ENOMEM. flow__free in either case. */
int flow__analyse(const struct image *img, const struct symbol *sym, uint64_t size,
		  struct flow *out);
void flow__free(struct flow *flow);

/* The cheapest place where the arguments are still in their registers, which first always is; check
 * first_usable when it is that one. */
const struct flow_site *flow__with_arguments(const struct flow *flow);

/* Where a call or jump goes, also through the GOT; false when another object provides it. */
bool flow__callee(const struct image *img, const struct insn *in, uint64_t *vaddr);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a Rust closure is in truth. Async functions and blocks are closures too: their poll
 * function is named {{closure}}, loads a state byte from the future and jumps by it. And every
 * event of the tracing macros wraps its dispatch in a closure.
 */
#ifndef PLAN_CLOSURE_H
#define PLAN_CLOSURE_H

#include <stdbool.h>
#include <stdint.h>

struct flow;
struct image;

bool closure__is_named(const char *demangled); /* ...{{closure}} or {closure#N} */

/* Where a coroutine keeps its state. */
struct closure_state {
	uint8_t arg; /* enum insn_reg: the argument that points to the future */
	int64_t offset;
};

/* A coroutine's poll function: how it begins, and that it ends by storing "returned". */
bool closure__is_coroutine(const struct image *img, const struct flow *flow,
			   struct closure_state *out);
/* A tracing macro's closure: the first thing it does is to hand its argument to tracing_core. */
bool closure__is_event(const struct image *img, uint64_t vaddr, uint64_t size);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#include "collect/onstack.h"

/* No stack is smaller: a step of less does not lead to another. */
#define SMALLEST_STACK_BYTES (16u << 10)
#define SLOT_BYTES 8u

static bool is_in(const struct area *a, uint64_t address)
{
	return address >= a->lo && address < a->hi;
}

uint32_t onstack__find(const struct standing_thread *t, uint64_t slot)
{
	for (uint32_t i = 0; i < t->depth; i++) {
		uint64_t step = t->steps[i];

		if (step && !(step & RT_STEP_SIGNAL) && RT_STEP_SP(step) - SLOT_BYTES == slot)
			return i;
	}
	return ONSTACK_NONE;
}

/* Below the stack pointer of the stack that the thread is on. */
static bool is_below(const struct standing_thread *t, const struct area *stack, uint64_t slot)
{
	return is_in(stack, t->sp) && is_in(stack, slot) && slot < t->sp;
}

static bool is_one_stack(const struct area *home, const struct area *alt, uint64_t from,
			 uint64_t to)
{
	return (is_in(home, from) && is_in(home, to)) || (is_in(alt, from) && is_in(alt, to)) ||
	       to - from <= SMALLEST_STACK_BYTES;
}

bool onstack__covers(const struct standing_thread *t, const struct area *home, uint64_t slot)
{
	const struct area alt = { t->alt_lo, t->alt_hi };
	bool whole = t->end == RT_END_ROOT, elsewhere = !is_in(&alt, t->sp);
	uint64_t at = t->sp;

	if (!t->depth)
		return false;
	if (is_below(t, home, slot) || is_below(t, &alt, slot))
		return true;
	for (uint32_t i = 0; i < t->depth; i++) {
		uint64_t step = t->steps[i], to = RT_STEP_SP(step);

		if (!step)
			continue;
		if (step & RT_STEP_GUESSED)
			whole = false;
		else if (slot >= at && slot < to && is_one_stack(home, &alt, at, to))
			return true;
		elsewhere &= !is_in(&alt, to);
		at = to;
	}
	return whole && elsewhere && is_in(home, t->sp) && is_in(&alt, slot);
}

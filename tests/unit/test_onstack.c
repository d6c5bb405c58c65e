/* SPDX-License-Identifier: BSD-2-Clause */
/* What a walk proves about return slots, on stacks made by hand. */
#include <criterion/criterion.h>

#include "collect/onstack.h"

static const struct area home = { 0x7000000, 0x7100000 };
static const uint64_t frames[8];

/* Steps: 0 of the kernel's frame, ..., 0 of the last. */
static struct standing_thread walk_of(uint64_t sp, const uint64_t *steps, uint32_t depth)
{
	return (struct standing_thread){ .end = RT_END_ROOT,
					 .frames = frames,
					 .steps = steps,
					 .depth = depth,
					 .sp = sp,
					 .alt_lo = 0x500000,
					 .alt_hi = 0x510000 };
}

static bool covers(const struct standing_thread *t, uint64_t slot)
{
	return onstack__covers(t, &home, slot);
}

Test(onstack, a_frame_is_found_by_its_return_slot)
{
	const uint64_t steps[] = { 0, 0x7080010, 0x7080100, 0 };
	const struct standing_thread t = walk_of(0x7080000, steps, 4);

	cr_assert_eq(onstack__find(&t, 0x7080008), 1);
	cr_assert_eq(onstack__find(&t, 0x70800f8), 2);
	cr_assert_eq(onstack__find(&t, 0x7080010), ONSTACK_NONE);
	/* the frames without a step are nobody's callee */
	cr_assert_eq(onstack__find(&t, (uint64_t)-8), ONSTACK_NONE);
}

Test(onstack, the_own_stack_is_covered_up_to_where_the_walk_got)
{
	const uint64_t steps[] = { 0, 0x7080010, 0x70f0000, 0 };
	const struct standing_thread t = walk_of(0x7080000, steps, 4);

	cr_expect(covers(&t, 0x7000000), "below the stack pointer");
	cr_expect(covers(&t, 0x7080040));
	cr_expect(covers(&t, 0x70efff8), "a large frame of the own stack");
	cr_expect_not(covers(&t, 0x70f0000), "above the last step");
	cr_expect_not(covers(&t, 0x6fffff8), "another stack");
}

Test(onstack, a_guessed_step_covers_nothing)
{
	const uint64_t steps[] = { 0, 0x7080010, 0x7080200 | RT_STEP_GUESSED, 0x7080300, 0 };
	const struct standing_thread t = walk_of(0x7080000, steps, 5);

	cr_expect(covers(&t, 0x7080008));
	cr_expect_not(covers(&t, 0x7080100));
	cr_expect(covers(&t, 0x7080280));
	cr_expect_eq(onstack__find(&t, 0x70801f8), 2, "what it leads to is on the stack");
}

Test(onstack, elsewhere_only_small_steps_are_within_one_stack)
{
	const uint64_t steps[] = { 0, 0x900100, 0x904000, 0x7080000, 0x7080100, 0 };
	const struct standing_thread t = walk_of(0x900000, steps, 6);

	cr_expect_not(covers(&t, 0x8ffff8), "below: perhaps another coroutine's stack");
	cr_expect(covers(&t, 0x900080));
	cr_expect(covers(&t, 0x903000));
	cr_expect_not(covers(&t, 0x800000), "between two stacks");
	cr_expect_not(covers(&t, 0xa00000), "between two stacks");
	cr_expect_not(covers(&t, 0x7000008), "the own stack, below where it was left");
	cr_expect(covers(&t, 0x7080080));
}

Test(onstack, a_signal_leads_from_its_stack_to_what_it_interrupted)
{
	const uint64_t steps[] = { 0, 0x50f000, 0x7080000 | RT_STEP_SIGNAL, 0x7080100, 0 };
	const struct standing_thread t = walk_of(0x50e000, steps, 5);

	cr_expect(covers(&t, 0x500008), "below the handler");
	cr_expect(covers(&t, 0x50e800));
	cr_expect_not(covers(&t, 0x50f800), "the kernel's frame, no step of it");
	cr_expect_not(covers(&t, 0x6000000), "between the two");
	cr_expect(covers(&t, 0x7080040));
	cr_expect_eq(onstack__find(&t, 0x7080000 - 8), ONSTACK_NONE, "nobody was called there");
}

Test(onstack, the_signal_stack_is_empty_when_a_whole_walk_was_not_there)
{
	const uint64_t steps[] = { 0, 0x7080010, 0 }, elsewhere[] = { 0, 0x900100, 0 };
	struct standing_thread t = walk_of(0x7080000, steps, 3);

	cr_expect(covers(&t, 0x508000));
	t.end = RT_END_MEMORY;
	cr_expect_not(covers(&t, 0x508000), "it broke off");
	t = walk_of(0x900000, elsewhere, 3);
	cr_expect_not(covers(&t, 0x508000), "a coroutine, that may be a handler's");
}

Test(onstack, a_thread_without_a_walk_proves_nothing)
{
	const struct standing_thread t = walk_of(0x7080000, NULL, 0);

	cr_expect_not(covers(&t, 0x7000008));
	cr_expect_eq(onstack__find(&t, 0x7000008), ONSTACK_NONE);
}

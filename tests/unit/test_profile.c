/* SPDX-License-Identifier: BSD-2-Clause */
#include <criterion/criterion.h>
#include <stdio.h>

#include "snapshot/profile.h"
#include "snapshot/snapshot.h"
#include "synth.h"
#include "synth_stacks.h"

Test(profile, a_frame_is_there_once)
{
	struct snapshot_profiles *p = profiles__new();
	struct snapshot_frame odd[] = {
		{ "f", "m", FRAME_OWN, false, "a.rs", 1 },
		{ "f", "m", FRAME_OWN, false, "a.rs", 2 },
		{ "f", "m", FRAME_OWN, true, "a.rs", 1 },
		{ "f", "m", FRAME_DEP, false, "a.rs", 1 },
		{ "f", "n", FRAME_OWN, false, "a.rs", 1 },
		{ "f", NULL, FRAME_OWN, false, "a.rs", 1 },
		{ "f", "m", FRAME_OWN, false, NULL, 1 },
		{ "fm", NULL, FRAME_OWN, false, "a.rs", 1 },
		{ "", "", FRAME_UNKNOWN, false, "", 0 },
	};
	size_t cnt = sizeof(odd) / sizeof(odd[0]);
	char name[32];

	for (int round = 0; round < 2; round++)
		for (size_t i = 0; i < cnt; i++)
			cr_expect_eq(profiles__frame(p, &odd[i]), i, "%zu", i);
	for (uint32_t i = 0; i < 100000; i++) {
		struct snapshot_frame f = { .name = name };

		snprintf(name, sizeof(name), "f%u", i / 2);
		cr_assert_eq(profiles__frame(p, &f), cnt + i / 2);
	}
	cr_expect_eq(p->frames.cnt, cnt + 50000);
	cr_expect_str_eq(p->frames.data[cnt + 49999].name, "f49999", "the text was copied");
	profiles__free(p);
	profiles__free(NULL);
}

Test(profile, stacks_keep_their_frames_and_tallies)
{
	struct snapshot *s = synth__new();
	const struct snapshot_profile *cpu, *off;
	const struct snapshot_stack *stack;

	synth__add_stacks(s);
	cpu = s->profiles->of[PROFILE_CPU];
	off = s->profiles->of[PROFILE_OFF_CPU];
	cr_assert_eq(cpu->stacks.cnt, 4);
	stack = &cpu->stacks.data[1];
	cr_expect_eq(stack->depth, 5);
	cr_expect_eq(stack->value, 25);
	cr_expect_str_eq(stack->thread, "worker-1");
	for (uint32_t i = 0; i < stack->depth; i++)
		cr_expect_str_eq(s->profiles->frames.data[cpu->refs.data[stack->first + i]].name,
				 synth_frames[i].name);
	cr_expect_eq(cpu->count, 100);
	cr_assert_eq(cpu->truncated.cnt, 1);
	cr_expect_str_eq(cpu->truncated.data[0].name, "no_rows");
	cr_expect_eq(cpu->truncated.data[0].count, 5, "samples");
	synth__stack(s, PROFILE_OFF_CPU, "5", FIGURES(.value = 80, .count = 2, .truncated = "x"));
	synth__stack(s, PROFILE_OFF_CPU, "6", FIGURES(.value = 80, .count = 3, .truncated = "x"));
	cr_assert_eq(off->truncated.cnt, 1);
	cr_expect_eq(off->truncated.data[0].count, 5, "waits, not ns");
	cr_expect_eq(cpu->lost.cnt, 1, "zeros are listed: they were counted");
	snapshot__free(s);
}

Test(profile, an_interval_has_none)
{
	struct snapshot *s = synth__new(), *d;

	synth__add_stacks(s);
	d = snapshot__delta(s, NULL);
	cr_assert(d);
	cr_expect_null(d->profiles);
	cr_expect_eq(d->path_cnt + d->alloc_stack_cnt, 0);
	snapshot__free(d);
	snapshot__free(s);
}

Test(profile, filters_keep_the_paths_to_what_is_kept)
{
	static const char *const share[] = { "*ShareId*" };
	struct snapshot *s = synth__new();

	synth__add_stacks(s);
	cr_assert_eq(snapshot__keep(
			     s, &(struct snapshot_filter){ .functions = share, .function_cnt = 1 }),
		     0);
	cr_assert_eq(s->path_cnt, 1);
	cr_expect_eq(s->paths[0].depth, 3, "with its callers");
	cr_expect_eq(s->paths[0].calls, 60000);
	cr_expect_eq(s->profiles->of[PROFILE_CPU]->stacks.cnt, 4);
	snapshot__free(s);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* The report's tables of the CPU profile. */
#include <criterion/criterion.h>
#include <string.h>

#include "base/strbuf.h"
#include "synth.h"
#include "synth_stacks.h"
#include "ui/cpu.h"

static const struct snapshot_frame frames[] = {
	{ "__clone3", "libc.so.6", FRAME_LIB, false, NULL, 0 },
	{ "role::serve", "role", FRAME_OWN, false, "a.rs", 3 },
	{ "clock_gettime", "libc.so.6", FRAME_LIB, false, NULL, 0 },
	{ "clock_gettime", "[vdso]", FRAME_LIB, false, NULL, 0 },
	{ "role::serve", "role", FRAME_OWN, true, NULL, 0 },
	{ "[kernel: read]", "[kernel]", FRAME_KERNEL, false, NULL, 0 },
	{ "[kernel: breakpoint]", "[kernel]", FRAME_KERNEL, false, NULL, 0 },
	{ "role::other", "role", FRAME_OWN, false, NULL, 0 },
};

static void hit(struct snapshot_profiles *p, const char *digits, uint64_t samples)
{
	uint32_t at[16], depth = 0;

	for (; *digits; digits++)
		at[depth++] = profiles__frame(p, &frames[*digits - '0']);
	cr_assert_eq(profiles__stack(p, PROFILE_CPU, at, depth, &FIGURES(.value = samples)), 0);
}

static char *frames_table(size_t rows)
{
	struct snapshot_profiles *p = profiles__new();
	struct hot_view view = { .width = 80, .rows = rows };
	struct strbuf out = STRBUF_INIT;

	p->of[PROFILE_CPU] = profile__new();
	hit(p, "01", 20);
	hit(p, "014", 20); /* its own copy in itself: the same function */
	hit(p, "015", 10); /* what it has the kernel do is its own time */
	hit(p, "016", 25); /* a probe at its entry is not */
	hit(p, "076", 5);
	hit(p, "0123", 15);
	hit(p, "012", 5);
	cpu__frames(p, &view, &out);
	profiles__free(p);
	return strbuf__take(&out);
}

Test(cpu, probes_are_a_row_of_their_own)
{
	char *text = frames_table(10);

	cr_expect_str_eq(text, "    Self    Total  Function\n"
			       "   50.0%    70.0%  role::serve\n"
			       "   30.0%    30.0%  [probes of roletrace]\n"
			       "   15.0%    15.0%  clock_gettime [vdso]\n"
			       "   5.00%    20.0%  clock_gettime [libc.so.6]\n");
	free(text);
}

Test(cpu, one_name_alone_needs_no_file)
{
	char *text = frames_table(3);

	cr_expect(strstr(text, "  clock_gettime\n"), "%s", text);
	free(text);
}

/* ---- functions ---- */

static char *functions_table(const uint64_t *samples, const uint64_t *self, size_t cnt)
{
	struct snapshot *s = synth__new();
	struct hot_view view = { .width = 100, .rows = 10 };
	struct strbuf out = STRBUF_INIT;

	synth__add_stacks(s);
	for (size_t i = 0; i < s->fn_cnt; i++) {
		s->fns[i].cpu_samples = i < cnt ? samples[i] : 0;
		s->fns[i].cpu_self_samples = i < cnt ? self[i] : 0;
	}
	cpu__functions(s, &view, &out);
	snapshot__free(s);
	return strbuf__take(&out);
}

Test(cpu, no_interval_reaches_below_zero)
{
	char *text = functions_table((const uint64_t[]){ 49, 4 }, (const uint64_t[]){ 0, 3 }, 2);

	cr_expect(strstr(text, "1.00s ±322ms         0 <78.4ms  "), "%s", text);
	cr_expect(strstr(text, "81.6ms <210ms    61.2ms <180ms   "), "%s", text);
	cr_expect(strstr(text, "  ±, <  true in 95 of 100 cases\n"), "%s", text);
	cr_expect_null(strstr(text, "and "));
	free(text);
}

Test(cpu, one_or_two_samples_are_no_row)
{
	char *text = functions_table((const uint64_t[]){ 2, 3, 1, 1 },
				     (const uint64_t[]){ 2, 0, 0, 1 }, 4);

	cr_expect(strstr(text, "61.2ms "), "%s", text);
	cr_expect(strstr(text, "... and 3 functions with 1 or 2 samples\n"), "%s", text);
	cr_expect_null(strstr(text, "40.8ms"));
	free(text);
	text = functions_table((const uint64_t[]){ 1 }, (const uint64_t[]){ 0 }, 1);
	cr_expect_str_eq(text, "... and 1 function with 1 or 2 samples\n");
	free(text);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of waits: by the role's own code, whatever it waits in. */
#include <criterion/criterion.h>
#include <string.h>

#include "base/strbuf.h"
#include "base/utf8.h"
#include "synth.h"
#include "synth_stacks.h"
#include "ui/off_cpu.h"

static const struct snapshot_frame frames[] = {
	{ "__clone3", "libc.so.6", FRAME_LIB, false, NULL, 0 },
	{ "role::serve", "role", FRAME_OWN, false, NULL, 0 },
	{ "tokio::runtime::park", "role", FRAME_DEP, false, NULL, 0 },
	{ "sled::flush", "role", FRAME_DEP, false, NULL, 0 },
	{ "std::sys::futex::futex_wait", "role", FRAME_STD, false, NULL, 0 },
	{ "syscall", "libc.so.6", FRAME_LIB, false, NULL, 0 },
	{ "clock_nanosleep", "libc.so.6", FRAME_LIB, false, NULL, 0 },
	{ "epoll_wait", "libc.so.6", FRAME_LIB, false, NULL, 0 },
	{ "fsync", "libc.so.6", FRAME_LIB, false, NULL, 0 },
	{ "[kernel]", "[kernel]", FRAME_KERNEL, false, NULL, 0 },
};

static void wait_at(struct snapshot_profiles *p, const char *digits, uint64_t ms, uint64_t waits)
{
	uint32_t at[16], depth = 0;

	for (; *digits; digits++)
		at[depth++] = profiles__frame(p, &frames[*digits - '0']);
	cr_assert_eq(profiles__stack(p, PROFILE_OFF_CPU, at, depth,
				     &FIGURES(.value = ms * 1000000, .count = waits)),
		     0);
}

static char *table_of(unsigned int width, size_t rows)
{
	struct snapshot_profiles *p = profiles__new();
	struct hot_view view = { .width = width, .rows = rows };
	struct strbuf out = STRBUF_INIT;

	p->of[PROFILE_OFF_CPU] = profile__new();
	wait_at(p, "0145", 3000,
		10); /* one place by two ways to it, and a third with a kernel frame */
	wait_at(p, "01145", 500, 4);
	wait_at(p, "01459", 500, 6);
	wait_at(p, "016", 2000, 40); /* the same place, another wait */
	wait_at(p, "0127", 1500, 3); /* the runtime's own waiting, for it */
	wait_at(p, "0238", 700, 7);  /* no frame of the role: of what it uses */
	wait_at(p, "027", 800, 0);   /* none at all; began and did not end */
	off_cpu__rows(p, p->of[PROFILE_OFF_CPU], &view, &out);
	profiles__free(p);
	return strbuf__take(&out);
}

Test(off_cpu, waits_of_a_place_are_added_up)
{
	char *text = table_of(80, 10);

	cr_expect_str_eq(text, "    Time    Share    Waits     Mean  How          Waiting in\n"
			       "   4.00s    44.4%       20    200ms  futex        role::serve\n"
			       "   2.00s    22.2%       40   50.0ms  sleep        role::serve\n"
			       "   1.50s    16.7%        3    500ms  epoll        role::serve\n"
			       "   800ms    8.89%        0        -  epoll        (std, runtime or "
			       "system alone)\n"
			       "   700ms    7.78%        7    100ms  fsync        sled::flush\n");
	free(text);
}

static char *table_of_one(const struct snapshot_frame *stack, size_t depth)
{
	struct snapshot_profiles *p = profiles__new();
	struct hot_view view = { .width = 80, .rows = 10 };
	struct strbuf out = STRBUF_INIT;
	uint32_t at[8];

	p->of[PROFILE_OFF_CPU] = profile__new();
	for (size_t i = 0; i < depth; i++)
		at[i] = profiles__frame(p, &stack[i]);
	profiles__stack(p, PROFILE_OFF_CPU, at, (uint32_t)depth,
			&FIGURES(.value = 2000000, .count = 1));
	off_cpu__rows(p, p->of[PROFILE_OFF_CPU], &view, &out);
	profiles__free(p);
	return strbuf__take(&out);
}

#define TABLE_OF(...)                                                                              \
	table_of_one((const struct snapshot_frame[]){ __VA_ARGS__ },                               \
		     sizeof((const struct snapshot_frame[]){ __VA_ARGS__ }) /                      \
			     sizeof(struct snapshot_frame))
#define START                                                                                      \
	{                                                                                          \
		"__clone3", "libc.so.6", FRAME_LIB, false, NULL, 0                                 \
	}
#define SERVE                                                                                      \
	{                                                                                          \
		"role::serve", "role", FRAME_OWN, false, NULL, 0                                   \
	}
#define KERNEL(name)                                                                               \
	{                                                                                          \
		name, "[kernel]", FRAME_KERNEL, false, NULL, 0                                     \
	}
#define NAMELESS                                                                                   \
	{                                                                                          \
		"[role+0x1830]", "role", FRAME_UNKNOWN, false, NULL, 0                             \
	}

/* A call that code makes by itself has its name, no call is explained, a probe is ours. */
Test(off_cpu, waits_without_a_function_of_libc)
{
	static const char explained[] = "  itself  without a call: it waited for a page of its "
					"memory, or was stopped\n";
	char *fault = TABLE_OF(START, SERVE, KERNEL("[kernel]"));
	char *call = TABLE_OF(START, SERVE, KERNEL("[kernel: ppoll]"));
	char *probe = TABLE_OF(START, SERVE, KERNEL("[kernel: breakpoint]"));

	cr_expect(strstr(fault, "2.00ms  itself       role::serve\n"), "%s", fault);
	cr_expect(strstr(fault, explained), "%s", fault);
	cr_expect(strstr(call, "2.00ms  ppoll        role::serve\n"), "%s", call);
	cr_expect_null(strstr(call, "itself"));
	cr_expect(strstr(probe, "2.00ms  in a probe   role::serve\n"), "%s", probe);
	free(fault);
	free(call);
	free(probe);
}

Test(off_cpu, of_a_stripped_program_the_address)
{
	static const struct snapshot_frame sleep = {
		"clock_nanosleep", "libc.so.6", FRAME_LIB, false, NULL, 0
	};
	static const struct snapshot_frame jit = {
		"[unknown code]", NULL, FRAME_UNKNOWN, false, NULL, 0
	};
	char *stripped = TABLE_OF(START, NAMELESS, sleep);
	char *named = TABLE_OF(START, SERVE, NAMELESS, sleep);
	char *unknown = TABLE_OF(START, jit, sleep);

	cr_expect(strstr(stripped, "sleep        [role+0x1830]\n"), "%s", stripped);
	cr_expect(strstr(named, "sleep        role::serve\n"), "%s", named);
	cr_expect(strstr(unknown, "sleep        (std, runtime or system alone)\n"), "%s", unknown);
	free(stripped);
	free(named);
	free(unknown);
}

Test(off_cpu, it_fits)
{
	for (unsigned int width = 50; width < 100; width += 7) {
		char *text = table_of(width, 2), *save;

		cr_expect_not_null(strstr(text, "... and 3 more"));
		for (char *line = strtok_r(text, "\n", &save); line;
		     line = strtok_r(NULL, "\n", &save))
			cr_expect(utf8__width(line) <= width || width < 62, "%u: %s", width, line);
		free(text);
	}
}

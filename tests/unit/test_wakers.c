/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of who ended waits: by the role's own code on both sides. */
#include <criterion/criterion.h>
#include <string.h>

#include "base/strbuf.h"
#include "base/utf8.h"
#include "snapshot/snapshot.h"
#include "ui/wakers.h"

static const struct snapshot_frame frames[] = {
	{ "__clone3", "libc.so.6", FRAME_LIB, false, NULL, 0 },
	{ "role::serve", "role", FRAME_OWN, false, NULL, 0 },
	{ "role::submit::{{closure}}", "role", FRAME_OWN, false, NULL, 0 },
	{ "tokio::runtime::park", "role", FRAME_DEP, false, NULL, 0 },
	{ "std::sys::futex::futex_wake", "role", FRAME_STD, false, NULL, 0 },
	{ "sled::flush", "role", FRAME_DEP, false, NULL, 0 },
	{ "[kernel: futex]", "[kernel]", FRAME_KERNEL, false, NULL, 0 },
};

static uint32_t refs_of(struct snapshot_profiles *p, const char *digits, uint32_t at[16])
{
	uint32_t depth = 0;

	for (; *digits; digits++)
		at[depth++] = profiles__frame(p, &frames[*digits - '0']);
	return depth;
}

static void wake(struct snapshot_profiles *p, const char *waiter, const char *waker,
		 struct snapshot_wake figures)
{
	uint32_t a[16], b[16], a_cnt = refs_of(p, waiter, a), b_cnt = refs_of(p, waker, b);

	figures.value *= 1000000;
	cr_assert_eq(profiles__wake(p, a, a_cnt, b, b_cnt, &figures), 0);
}

#define WAKE(ms, waits, ...)                                                                       \
	((struct snapshot_wake){ .value = (ms), .count = (waits), __VA_ARGS__ })

static struct snapshot_profiles *profiles(void)
{
	struct snapshot_profiles *p = profiles__new();

	p->of[PROFILE_OFF_CPU] = profile__new();
	p->of[PROFILE_OFF_CPU]->has_wakes = true;
	/* one pair of places by three ways */
	wake(p, "0146", "0246", WAKE(3000, 10));
	wake(p, "01346", "0246", WAKE(500, 4));
	wake(p, "016", "02346", WAKE(500, 6));
	wake(p, "016", "", WAKE(2000, 40, .by = WAKER_INTERRUPT));
	wake(p, "016", "", WAKE(700, 7, .by = WAKER_PROCESS, .name = "kworker/0:1"));
	wake(p, "016", "", WAKE(300, 3, .by = WAKER_PROCESS, .name = "client"));
	wake(p, "0346", "0346", WAKE(1500, 3)); /* the runtime with itself */
	wake(p, "0346", "056", WAKE(100, 1));	/* no frame of the role: of what it uses */
	wake(p, "0346", "", WAKE(50, 1));	/* a thread, but no stack of it */
	wake(p, "0346", "", WAKE(20, 2, .by = WAKER_UNKNOWN));
	return p;
}

static char *table_of(struct snapshot_profiles *p, unsigned int width, size_t rows)
{
	struct hot_view view = { .width = width, .rows = 1, .wakers = rows };
	struct strbuf out = STRBUF_INIT;

	wakers__rows(p, p->of[PROFILE_OFF_CPU], &view, &out);
	profiles__free(p);
	return strbuf__take(&out);
}

Test(wakers, pairs_of_places_are_added_up)
{
	char *text = table_of(profiles(), 100, 10);

	cr_expect_str_eq(
		text,
		"Who ended 77 of these waits, by time\n"
		"    Time    Waits     Mean  Waiting in                      Woken by\n"
		"   4.00s       20    200ms  role::serve                     "
		"role::submit::{{closure}}\n"
		"   2.00s       40   50.0ms  role::serve                     [interrupt]\n"
		"   1.50s        3    500ms  (std, runtime or system alone)  "
		"(std, runtime or system alone)\n"
		"   700ms        7    100ms  role::serve                     "
		"[process: kworker/0:1]\n"
		"   300ms        3    100ms  role::serve                     [process: client]\n"
		"   100ms        1    100ms  (std, runtime or system alone)  sled::flush\n"
		"  50.0ms        1   50.0ms  (std, runtime or system alone)  [stack not kept]\n"
		"  20.0ms        2   10.0ms  (std, runtime or system alone)  [unknown]\n");
	free(text);
}

Test(wakers, it_fits)
{
	for (unsigned int width = 60; width < 130; width += 7) {
		char *text = table_of(profiles(), width, 4), *save;

		cr_expect_not_null(strstr(text, "... and 4 more"));
		for (char *line = strtok_r(text, "\n", &save); line;
		     line = strtok_r(NULL, "\n", &save))
			cr_expect(utf8__width(line) <= width, "%u: %s", width, line);
		free(text);
	}
}

Test(wakers, what_found_no_place_is_said)
{
	struct snapshot_profiles *p = profiles(), *off = profiles();
	char *text;

	p->of[PROFILE_OFF_CPU]->wakes_lost = 12;
	text = table_of(p, 80, 1);
	cr_expect_not_null(
		strstr(text, "\n  12 more waits ended: no space left for who ended them\n"));
	free(text);
	off->of[PROFILE_OFF_CPU]->has_wakes = false;
	text = table_of(off, 80, 1);
	cr_expect_str_eq(text, "");
	free(text);
}

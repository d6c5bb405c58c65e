/* SPDX-License-Identifier: BSD-2-Clause */
#include <criterion/criterion.h>

#include "options_parts.h"

static struct options parse(int argc, char **argv)
{
	struct options o;
	int code = -1;

	cr_assert(options__parse(argc, argv, &o, &code), "code %d", code);
	return o;
}

#define PARSE(...)                                                                                 \
	parse((int)(sizeof((char *[]){ "roletrace", __VA_ARGS__ }) / sizeof(char *)),              \
	      (char *[]){ "roletrace", __VA_ARGS__, NULL })

/* An option without one would end the program when it is given, or be taken by every command. */
Test(options, each_has_a_rule)
{
	for (const struct argp_option *o = options_table; o->name || o->doc; o++)
		if (o->key) /* else a heading */
			cr_assert_not_null(options__rule(o->key), "--%s", o->name);
	for (int key = KEY_CRATE; key < KEY_CNT; key++)
		cr_expect_not_null(options__rule(key), "key %d", key);
}

Test(options, values_have_units_and_bounds)
{
	struct options o = PARSE("--pid", "4711", "--pid", "12", "-d", "500ms", "-i", "1.5m",
				 "--budget", "3.5%", "--memory", "stacks", "--sample-bytes", "16k",
				 "--cpu-profile", "--exit", "uretprobe", "--sort", "name");

	cr_expect_eq(o.pid, 4711);
	cr_expect_eq(o.pids.cnt, 2);
	cr_expect_float_eq(o.duration_s, 0.5, 1e-12);
	cr_expect_float_eq(o.interval_s, 90, 1e-12);
	cr_expect_float_eq(o.budget, 0.035, 1e-12);
	cr_expect_eq(o.memory, OPTION_MEMORY_STACKS);
	cr_expect(o.sample_given);
	cr_expect_eq(o.sample_bytes, 16384);
	cr_expect_eq(o.cpu_profile_hz, 49);
	cr_expect_eq(o.exit, OPTION_EXIT_URETPROBE);
	cr_expect_eq(o.sort, OPTION_SORT_NAME);
	options__free(&o);
}

Test(options, some_imply_others)
{
	struct options wakers = PARSE("--pid", "1", "--wakers");
	struct options shortest = PARSE("--pid", "1", "--off-cpu-min", "20");
	struct options live = PARSE("--pid", "1", "--memory", "live");
	struct options own = PARSE("--pid", "1", "--memory", "live", "--budget", "1");
	struct options profile = PARSE("--pid", "1", "--cpu-profile");

	cr_expect(wakers.off_cpu && wakers.wakers);
	cr_expect(shortest.off_cpu && !shortest.wakers);
	cr_expect_eq(shortest.off_cpu_min_us, 20);
	cr_expect_float_eq(live.budget, 0.10, 1e-12);
	cr_expect_float_eq(wakers.budget, 0.10, 1e-12);
	cr_expect_float_eq(shortest.budget, 0.10, 1e-12);
	cr_expect_float_eq(profile.budget, 0.02, 1e-12, "its price is known before");
	cr_expect_float_eq(own.budget, 0.01, 1e-12);
	cr_expect_not(own.sample_given);
	options__free(&wakers);
	options__free(&shortest);
	options__free(&live);
	options__free(&own);
	options__free(&profile);
}

Test(options, what_follows_two_dashes_is_the_command)
{
	struct options o = PARSE("-d", "1", "--", "sleep", "-d", "--pid");

	cr_expect_str_eq(o.argv[0], "sleep");
	cr_expect_str_eq(o.argv[2], "--pid");
	cr_expect_null(o.argv[3]);
	cr_expect_eq(o.pid, 0);
	options__free(&o);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Where the pid goes in the names of --follow and of several --pid. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "naming.h"

static const struct {
	const char *spec, *suffix, *want;
	size_t path_at;
} names[] = {
	{ "a.json", ".json", "a-7.json", 0 },
	{ "json:./a.b/c", ".json", "json:./a.b/c-7", 5 },
	{ "x/t.buckets.csv", ".buckets.csv", "x/t-7.buckets.csv", 0 },
	{ "csv:data.v1.txt", ".csv", "csv:data.v1-7.txt", 4 },
	{ "json:d/.hidden", ".json", "json:d/.hidden-7", 5 },
	{ "d/.json", ".json", "d/.json-7", 0 },
	{ "-", ".json", "-", 0 },
	{ "csv:-", ".csv", "csv:-", 4 },
	{ "json:/dev/null", ".json", "json:/dev/null", 5 },
};

Test(naming, pid_goes_before_the_suffix)
{
	const struct run_name n = { "pool", 7, true };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char *got = naming__of_run(names[i].spec, names[i].path_at, names[i].suffix, &n);

		cr_expect_str_eq(got, names[i].want, "%s: %s", names[i].spec, got);
		free(got);
	}
}

Test(naming, default_is_fit_for_a_file)
{
	const struct run_name n = { "a/b\n", 7, false };
	char *got = naming__default(&n);

	cr_expect_str_eq(got, "json:./roletrace-a_b_-7.json");
	free(got);
}

Test(naming, fresh_names_no_file_that_is_there)
{
	struct run_name n = { "pool", 7, true };
	char folder[] = "/tmp/roletrace-unit-XXXXXX", spec[64], want[64], there[2][64], *got;

	cr_assert(mkdtemp(folder));
	snprintf(spec, sizeof(spec), "%s/a.json", folder);
	for (int i = 0; i < 2; i++) {
		snprintf(there[i], sizeof(there[i]), "%s/a-7%s.json", folder, i ? "-2" : "");
		close(open(there[i], O_CREAT | O_WRONLY, 0600));
	}
	snprintf(want, sizeof(want), "%s/a-7-3.json", folder);
	got = naming__of_run(spec, 0, ".json", &n);
	cr_expect_str_eq(got, want);
	free(got);
	n.fresh = false;
	got = naming__of_run(spec, 0, ".json", &n);
	cr_expect_str_eq(got, there[0]);
	free(got);
	for (int i = 0; i < 2; i++)
		unlink(there[i]);
	rmdir(folder);
}

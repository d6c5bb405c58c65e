/* SPDX-License-Identifier: BSD-2-Clause */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/fs.h"
#include "base/strbuf.h"

Test(arena, keeps_all_it_gave_apart)
{
	struct arena *a = arena__new();
	char *names[5000], *big, want[16];

	cr_assert(a);
	for (int i = 0; i < 5000; i++) {
		snprintf(want, sizeof(want), "name %d", i);
		names[i] = arena__strdup(a, want);
		cr_assert(names[i]);
		if (i == 100) {
			big = arena__alloc(a, 300000);
			cr_assert(big);
			for (int k = 0; k < 300000; k++)
				cr_assert_eq(big[k], 0, "zeroed");
			memset(big, 0xff, 300000);
		}
	}
	for (int i = 0; i < 5000; i++) {
		snprintf(want, sizeof(want), "name %d", i);
		cr_assert_str_eq(names[i], want);
		cr_assert_eq((uintptr_t)names[i] % _Alignof(max_align_t), 0);
	}
	cr_expect_null(arena__alloc(a, SIZE_MAX - 3));
	cr_expect(arena__alloc(a, 0));
	arena__free(a);
	arena__free(NULL);
}

Test(fs, reads_no_more_than_allowed)
{
	struct strbuf out = STRBUF_INIT;

	cr_expect_eq(fs__read_max("/dev/zero", 100000, &out), -EFBIG);
	cr_expect_leq(out.len, 100000);
	strbuf__free(&out);
	cr_expect_eq(fs__read_max("/proc/self/comm", 64, &out), 0);
	cr_expect_gt(out.len, 0);
	strbuf__free(&out);
	cr_expect_eq(fs__read_max("/nowhere", 64, &out), -ENOENT);
	cr_expect_eq(fs__read_max("/", 64, &out), -EISDIR);
	strbuf__free(&out);
}

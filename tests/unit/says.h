/* SPDX-License-Identifier: BSD-2-Clause */
/* What a text says, for the suites of the report. */
#ifndef TESTS_UNIT_SAYS_H
#define TESTS_UNIT_SAYS_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "ui/report.h"

/* not inline: the compiler would take what is returned for the address of text */
static __attribute__((unused, noinline)) char *print_opts(const struct snapshot *s,
							  const struct report_opts *opts)
{
	char *text;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	cr_assert_eq(report__print(s, opts, f), 0);
	fclose(f);
	return text;
}

static inline char *print(const struct snapshot *s, unsigned int width, bool colour)
{
	return print_opts(s, &(struct report_opts){ .width = width, .colour = colour });
}

static inline void expect_says(const char *report, const char *words)
{
	cr_expect(strstr(report, words), "missing: %s", words);
}

static inline void expect_silent(const char *report, const char *words)
{
	cr_expect_null(strstr(report, words), "not expected: %s", words);
}

/* The first line with these words. */
static inline const char *line_of(const char *text, const char *words, char out[static 512])
{
	const char *found = strstr(text, words);

	cr_assert(found, "missing: %s", words);
	while (found > text && found[-1] != '\n')
		found--;
	snprintf(out, 512, "%.*s", (int)strcspn(found, "\n"), found);
	return out;
}

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the parts of the report share. Private to them: ui/report*.c. Each appends lines to text,
 * or nothing when it has nothing to say.
 */
#ifndef UI_REPORT_PARTS_H
#define UI_REPORT_PARTS_H

#include "base/strbuf.h"
#include "ui/report.h"
#include "ui/text.h"

struct report {
	const struct snapshot *s;
	const struct report_opts *opts;
	unsigned int width;
	bool colour;
	uint32_t *order; /* functions that were called, as asked for */
	size_t order_cnt;
	struct strbuf text;
};

/* A line; what cannot be printed in it is escaped. */
void report__say(struct report *r, enum text_style style, const char *line);
void report__sayf(struct report *r, enum text_style style, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* report_head.c: what was traced, what that cost, how it ended, and whether all went well. */
void report__head(struct report *r);
/* report_tables.c: functions, polls, who calls whom; with the words that these need. */
void report__tables(struct report *r);
/* report_missing.c: what was lost, taken away, never called, left out and refused. */
void report__missing(struct report *r);

#endif

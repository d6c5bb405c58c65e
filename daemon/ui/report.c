/* SPDX-License-Identifier: BSD-2-Clause */
/* The order of the report's parts. What each of them says is report_*.c's, and other files'. */
#include "ui/report.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>

#include "base/strbuf.h"
#include "base/utf8.h"
#include "snapshot/snapshot.h"
#include "ui/hot.h"
#include "ui/memory.h"
#include "ui/report_parts.h"
#include "ui/stalls.h"
#include "ui/text.h"
#include "ui/threads.h"

#define HOT_ROWS 10
#define WAKERS_SHOWN 5

void report__say(struct report *r, enum text_style style, const char *line)
{
	struct strbuf safe = STRBUF_INIT;

	utf8__add_printable(&safe, line);
	text__cell(&r->text, safe.s, 0, style, r->colour);
	strbuf__addc(&r->text, '\n');
	strbuf__free(&safe);
}

void report__sayf(struct report *r, enum text_style style, const char *fmt, ...)
{
	va_list ap;
	char *line;

	va_start(ap, fmt);
	if (vasprintf(&line, fmt, ap) >= 0) {
		report__say(r, style, line);
		free(line);
	} else {
		r->text.oom = true;
	}
	va_end(ap);
}

static int find_called(struct report *r)
{
	size_t n = 0;

	r->order = snapshot__sorted(r->s, r->opts->sort);
	if (!r->order)
		return -ENOMEM;
	for (size_t i = 0; i < r->s->fn_cnt; i++)
		if (snapshot__all_calls(&r->s->fns[r->order[i]]) ||
		    r->s->fns[r->order[i]].in_flight)
			r->order[n++] = r->order[i];
	r->order_cnt = n;
	return 0;
}

static void nothing(struct report *r)
{
	size_t probed = snapshot__probed(r->s);

	text__gap(&r->text);
	if (!probed && r->s->thread_cnt)
		report__say(r, STYLE_PLAIN, "No function was probed.");
	else if (!probed)
		report__say(r, STYLE_WARM, "Recording nothing: no function was probed.");
	else
		report__sayf(r, STYLE_WARM,
			     "Recording nothing: none of %zu probed function%s was called.", probed,
			     probed == 1 ? "" : "s");
}

/* What it says of its age was then, when it was told. */
static void lasting(struct report *r, const struct snapshot_stall *s)
{
	uint64_t end_ns = r->s->window.end_unix_ns;
	char age[TEXT_CELL];

	if (s->over_unix_ns || end_ns < s->seen_unix_ns)
		return;
	text__duration(age, s->age_ns + end_ns - s->seen_unix_ns);
	report__sayf(r, STYLE_HOT, "  not over at the end, after %s", age);
}

static void stalls(struct report *r)
{
	for (size_t i = 0; i < r->s->stall_cnt; i++) {
		stalls__describe(&r->s->stalls[i], "Stall: ", r->width, r->colour, &r->text);
		lasting(r, &r->s->stalls[i]);
	}
	if (r->s->more_stalls)
		report__sayf(r, STYLE_WARM, "and %zu more stalls", r->s->more_stalls);
}

static void memory(struct report *r)
{
	struct memory_view v = { .width = r->width, .limit = r->opts->limit, .colour = r->colour };

	memory__section(r->s, &v, &r->text);
}

static void hot(struct report *r)
{
	const struct hot_view v = { .width = r->width,
				    .rows = r->opts->limit ? r->opts->limit : HOT_ROWS,
				    .wakers = r->opts->limit ? r->opts->limit : WAKERS_SHOWN,
				    .all = r->opts->chosen,
				    .colour = r->colour };

	hot__print(r->s, &v, &r->text);
}

static void compose(struct report *r)
{
	report__head(r);
	stalls(r);
	if (r->order_cnt)
		report__tables(r);
	else if (snapshot__probed(r->s) || !r->s->profiles)
		nothing(r);
	if (r->s->memory)
		memory(r);
	threads__report(r->s, r->width, r->opts->limit, r->colour, &r->text);
	hot(r);
	text__gap(&r->text);
	report__missing(r);
	if (r->s->hint && !r->opts->hint_said)
		report__say(r, STYLE_BOLD, r->s->hint);
}

int report__print(const struct snapshot *s, const struct report_opts *opts, FILE *out)
{
	struct report r = { .s = s,
			    .opts = opts,
			    .width = opts->width ? opts->width : text__terminal_columns(out),
			    .colour = opts->colour,
			    .text = STRBUF_INIT };
	int err = find_called(&r);

	if (!err) {
		compose(&r);
		if (r.text.oom)
			err = -ENOMEM;
		else if (fwrite(r.text.s, 1, r.text.len, out) != r.text.len || fflush(out))
			err = errno ? -errno : -EIO;
	}
	strbuf__free(&r.text);
	free(r.order);
	return err;
}

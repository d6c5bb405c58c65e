/* SPDX-License-Identifier: BSD-2-Clause */
#include <criterion/criterion.h>
#include <ctype.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/strbuf.h"
#include "base/utf8.h"
#include "synth.h"
#include "ui/live.h"
#include "ui/report.h"
#include "ui/text.h"

/* ---- cells ---- */

static const struct {
	uint64_t ns;
	const char *text;
} durations[] = {
	{ 0, "0ns" },
	{ 999, "999ns" },
	{ 1000, "1.00µs" },
	{ 1234, "1.23µs" },
	{ 9994, "9.99µs" },
	{ 9996, "10.0µs" },
	{ 99960, "100µs" },
	{ 999499, "999µs" },
	{ 999500, "1.00ms" },
	{ 20000000, "20.0ms" },
	{ 1230000000, "1.23s" },
	{ 999400000000, "999s" },
	{ 3600000000000, "3600s" },
	{ 9999400000000, "9999s" },
	{ 10008000000000, "2.78h" },
	{ 864000000000000000, "10000d" },
	{ UINT64_MAX, "213504d" },
};

Test(text, durations)
{
	char out[TEXT_CELL];

	for (size_t i = 0; i < sizeof(durations) / sizeof(durations[0]); i++) {
		text__duration(out, durations[i].ns);
		cr_expect_str_eq(out, durations[i].text, "%llu: %s",
				 (unsigned long long)durations[i].ns, out);
		cr_expect_leq(utf8__width(out), 7);
	}
}

Test(text, counts_and_percents)
{
	char out[TEXT_CELL];

	text__count(out, 12345678, 8);
	cr_expect_str_eq(out, "12345678");
	text__count(out, 123456789, 8);
	cr_expect_str_eq(out, "123M");
	text__count(out, 9999999, 6);
	cr_expect_str_eq(out, "10.0M");
	text__count(out, UINT64_MAX, 8);
	cr_expect_str_eq(out, "18.4E");
	text__percent(out, 0);
	cr_expect_str_eq(out, "0%");
	text__percent(out, 0.00001);
	cr_expect_str_eq(out, "<0.01%");
	text__percent(out, 0.0123);
	cr_expect_str_eq(out, "1.23%");
	text__percent(out, 0.99996);
	cr_expect_str_eq(out, "100%");
	text__percent(out, 12.34);
	cr_expect_str_eq(out, "1234%");
}

static const struct {
	const char *name;
	size_t width;
	const char *text;
} names[] = {
	{ "role::main", 10, "role::main" },
	{ "role::sv1::Downstream::submit", 22, "…::Downstream::submit" },
	{ "<a::b::Foo as core::fmt::Debug>::fmt", 21, "<Foo as Debug>::fmt" },
	{ "<a::Foo as core::ops::Fn(u8) -> b::Bar>::call", 40, "<Foo as Fn(u8) -> Bar>::call" },
	{ "r::map::<alloc::vec::Vec<a::Long>, fn(u8) -> u8>", 20, "r::map::<…>" },
	{ "m::<impl a::Trait for b::Type<T>>::go", 20, "m::<Type<…>>::go" },
	{ "m::n::<impl a::Trait for b::Type>::{{closure}}", 20, "…<Type>::{{closure}}" },
	{ "a::<unbalanced", 10, "a::<…" },
	{ "données::计算::哈希率哈希率", 12, "…希率哈希率" },
};

Test(text, names_are_shortened_to_fit)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct strbuf out = STRBUF_INIT;

		text__name(&out, names[i].name, names[i].width);
		cr_expect_str_eq(out.s, names[i].text, "%zu: %s", i, out.s);
		cr_expect_leq(utf8__width(out.s), names[i].width, "%zu: %s", i, out.s);
		strbuf__free(&out);
	}
}

Test(text, names_of_any_width_fit)
{
	for (size_t i = 0; i < SYNTH_FNS; i++)
		for (size_t width = 1; width < 300; width++) {
			struct strbuf out = STRBUF_INIT;

			text__name(&out, synth_names[i], width);
			cr_assert_leq(utf8__width(out.s), width, "%s", out.s);
			strbuf__free(&out);
		}
}

/* ---- the report ---- */

static char *print(const struct snapshot *s, unsigned int width, bool colour)
{
	struct report_opts opts = { .width = width, .colour = colour };
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	cr_assert_eq(report__print(s, &opts, f), 0);
	fclose(f);
	return text;
}

static void expect_says(const char *report, const char *words)
{
	cr_expect(strstr(report, words), "missing: %s", words);
}

static void expect_silent(const char *report, const char *words)
{
	cr_expect_null(strstr(report, words), "not expected: %s", words);
}

/* Tables only: what the target or the kernel says may be longer and wrap. */
Test(report, tables_fit_and_align_at_every_width)
{
	struct snapshot *s = synth__new();

	for (unsigned int width = 56; width < 240; width++) {
		char *text = print(s, width, false), *save = NULL;
		size_t row_width = 0;

		for (char *line = strtok_r(text, "\n", &save); line;
		     line = strtok_r(NULL, "\n", &save)) {
			bool head = !strncmp(line, "Function ", 9) ||
				    !strncmp(line, "Async function ", 15);

			if (head)
				row_width = utf8__width(line);
			else if (strstr(line, "100%") || !strncmp(line, "Async functions:", 16))
				row_width = 0;
			if (!row_width)
				continue;
			cr_assert_leq(row_width, width);
			cr_assert_eq(utf8__width(line), row_width, "at %u: '%s'", width, line);
		}
		free(text);
	}
	snapshot__free(s);
}

Test(report, says_what_was_traced_and_what_it_cost)
{
	struct snapshot *s = synth__new();
	char *text = print(s, 80, false);

	expect_says(text, "translator_sv2 (pid 4242), 10.0s from 20");
	expect_says(text,
		    "Overhead: 4.02% of a CPU (budget 2%), 12.5% of what the process used\n"
		    "  probes 3.72%: 494632 hits, 812ns each (caches warm 700ns, cold 1.10µs); "
		    "threads 0.20%; profile 0.09%; growth 0.01%");
	expect_says(text, "an empty call shows 1.48µs");
	expect_says(text, "Degraded: 1 function was taken off");
	expect_says(text, "Lost: orphan_exits 14");
	expect_silent(text, "depth_exceeded");
	expect_says(text, "1 traced function was never called.");
	expect_silent(text, "never_called");
	expect_says(text, "4 functions not probed:");
	expect_silent(text, "\x1b");
	expect_silent(text, "Recording nothing");
	expect_silent(text, "target exited");
	free(text);
	snapshot__free(s);
}

static const char *line_of(const char *text, const char *words, char out[512])
{
	const char *found = strstr(text, words), *end;

	cr_assert(found, "missing: %s", words);
	while (found > text && found[-1] != '\n')
		found--;
	end = strchr(found, '\n');
	snprintf(out, 512, "%.*s", (int)(end - found), found);
	return out;
}

Test(report, what_is_near_the_floor_is_no_latency)
{
	struct snapshot *s = synth__new();
	char *text = print(s, 132, false), line[512];

	line_of(text, "translator_sv2::tiny", line);
	expect_says(line, "≈floor");
	expect_says(line, "<150ms");
	expect_silent(line, "1.4");
	expect_silent(line, "1.5µs");
	expect_says(text, "at most twice what an empty call shows (1.48µs to 16.2µs)");
	line_of(text, "handle_submit", line);
	expect_silent(line, "floor");
	free(text);
	snapshot__free(s);
}

Test(report, polls_are_a_table_of_their_own)
{
	struct snapshot *s = synth__new();
	char *text = print(s, 80, false), *polls = strstr(text, "each call is one poll");

	cr_assert(polls);
	expect_says(polls, "Polls");
	expect_says(polls, "Server::handle_message");
	*polls = '\0';
	expect_silent(text, "handle_message");
	free(text);
	for (size_t i = 0; i < s->fn_cnt; i++)
		s->fns[i].is_async = false;
	text = print(s, 80, false);
	expect_silent(text, "poll ");
	free(text);
	snapshot__free(s);
}

Test(report, legend_has_only_marks_that_occur)
{
	struct snapshot *s = synth__new();
	char *text = print(s, 80, false);

	expect_says(text, "\n  t  ends in a tail jump");
	expect_says(text, "\n  u  ended by unwinding");
	expect_says(text, "\n     10 in translator_sv2::error::risky_parse\n");
	expect_says(text, "\n  s  timed in random windows");
	expect_says(text, "\n  o  calls not counted all the time");
	expect_says(text,
		    "\nBudget: translator_sv2::hot_loop: exact -> sampled, over budget: 70000 "
		    "calls/s, timing each costs 12.5% of a CPU\n  calls in all: at least 123456\n");
	expect_silent(text, "\n  x  ");
	expect_says(text, "\n  ?  ");
	expect_silent(text, "\n  n  ");
	expect_silent(text, "\n  h  ");
	free(text);
	/* as files had it before there were windows */
	snapshot_sampled__free(s->fns[8].sampled);
	s->fns[8].sampled = NULL;
	text = print(s, 80, false);
	expect_says(text, "\n  x  not probed all the time");
	free(text);
	s->fn_cnt = 1;
	text = print(s, 80, false);
	expect_silent(text, "\n  t  ");
	expect_silent(text, "\n  u  ");
	expect_silent(text, "≈floor");
	free(text);
	s->fn_cnt = SYNTH_FNS;
	snapshot__free(s);
}

Test(report, ends_are_told)
{
	struct snapshot *s = synth__new();
	char *text;

	s->target.end = END_EXIT;
	s->target.end_code = 3;
	text = print(s, 80, false);
	expect_says(text, "The target exited with code 3.");
	free(text);
	s->target.end = END_SIGNAL;
	s->target.end_code = SIGSEGV;
	text = print(s, 80, false);
	expect_says(text, "killed by signal 11 (SIGSEGV)");
	free(text);
	s->target.end = END_EXEC;
	text = print(s, 80, false);
	expect_says(text, "exec'd another program");
	free(text);
	snapshot__free(s);
}

Test(report, recording_nothing_is_said)
{
	struct snapshot *s = synth__new(), *empty = snapshot__new();
	char *text;

	for (size_t i = 0; i < s->fn_cnt; i++)
		s->fns[i].calls = s->fns[i].in_flight = 0;
	s->hint = "try --crate stratum_apps";
	text = print(s, 80, false);
	expect_says(text, "Recording nothing: none of 14 probed functions was called.");
	expect_says(text, "try --crate stratum_apps\n");
	free(text);
	text = print(empty, 80, false);
	expect_says(text, "Recording nothing: no function was probed.");
	free(text);
	snapshot__free(empty);
	snapshot__free(s);
}

Test(report, rows_are_by_total_and_limited_when_asked)
{
	struct snapshot *s = synth__new();
	struct report_opts opts = { .width = 132, .limit = 2 };
	char *text = NULL, *first, *second;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	report__print(s, &opts, f);
	fclose(f);
	first = strstr(text, "handle_new_block");
	second = strstr(text, "Downstream::handle_submit");
	cr_expect(first && second && first < second);
	expect_says(text, "... and 9 more");
	expect_silent(text, "translator_sv2::tiny");
	free(text);
	snapshot__free(s);
}

static char *print_opts(const struct snapshot *s, const struct report_opts *opts)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	cr_assert_eq(report__print(s, opts, f), 0);
	fclose(f);
	return text;
}

Test(report, rows_are_in_the_order_asked_for)
{
	struct snapshot *s = synth__new();
	struct report_opts opts = { .width = 80, .limit = 1, .sort = SORT_CALLS };
	char *text = print_opts(s, &opts);

	expect_says(text, "entry_only_one");
	expect_silent(text, " Max");
	free(text);
	/* a column that the order is by is there, however narrow it is */
	opts.sort = SORT_MAX;
	text = print_opts(s, &opts);
	expect_says(text, " Max");
	expect_says(text, "handle_new_block");
	free(text);
	opts.sort = SORT_NAME;
	text = print_opts(s, &opts);
	expect_says(text, "ShareId");
	free(text);
	snapshot__free(s);
}

Test(report, says_that_some_were_left_out)
{
	struct snapshot *s = synth__new();
	struct report_opts opts = { .width = 80, .left_out = 11 };
	char *text;

	s->fn_cnt = 3;
	s->edge_cnt = 0;
	text = print_opts(s, &opts);
	s->fn_cnt = SYNTH_FNS;
	expect_says(text, "Shown: 3 of 14 traced functions, as asked for.\n");
	free(text);
	snapshot__free(s);
}

/* A name must not be able to drive the terminal, coloured or not. */
Test(report, only_our_own_escape_sequences)
{
	struct snapshot *s = synth__new();
	char *text;

	s->target.comm = s->target.exe = s->hint = "\x1b]0;owned\a\x9b";
	s->skipped[0].name = s->skipped[0].reason = "\x1b[2J\r\n";
	text = print(s, 80, true);
	expect_says(text, "\x1b[1m");
	for (const char *e = text; (e = strchr(e, '\x1b')); e++)
		cr_expect(e[1] == '[' && isdigit(e[2]) && strcspn(e, "m") < 6, "%.8s", e + 1);
	for (const char *c = text; *c; c++)
		cr_expect(*c == '\n' || *c == '\x1b' || !iscntrl((unsigned char)*c));
	free(text);
	snapshot__free(s);
}

/* ---- while it runs ---- */

Test(live, is_silent_and_plain_where_there_is_no_terminal)
{
	struct snapshot *s = synth__new();
	struct live *l = live__new(&(struct report_opts){ .colour = true });
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	live__draw(l, s, NULL, f);
	live__clear(l, f);
	fflush(f);
	cr_expect_eq(len, 0);
	for (int i = 0; i <= 100; i++)
		live__progress(l, f, (uint64_t)i * 100000000, 10000000000, 5, 0.01);
	live__clear(l, f);
	fclose(f);
	expect_says(text, "25%  2.50s of 10.0s  5 calls  overhead 1.00% of a CPU\n");
	expect_says(text, "75%");
	expect_silent(text, "\x1b");
	expect_silent(text, "\r");
	free(text);
	live__free(l);
	snapshot__free(s);
}

Test(live, clipping_counts_columns_and_keeps_colours)
{
	struct strbuf out = STRBUF_INIT;
	const char *line = "\x1b[1mµµ计算\x1b[0mrest";

	text__clip(&out, line, strlen(line), 5);
	cr_expect_str_eq(out.s, "\x1b[1mµµ计\x1b[0m", "%s", out.s);
	strbuf__free(&out);
}

/*
 * What the terminal has been sent, NUL-terminated. It arrives in pieces, in the kernel's own time:
 * a mark behind it tells the end.
 */
static void receive(FILE *tty, int master, char out[16384])
{
	const char mark = '\x01';
	size_t len = 0;
	ssize_t n;

	fputc(mark, tty);
	fflush(tty);
	while (!len || out[len - 1] != mark) {
		n = read(master, out + len, 16384 - len);
		cr_assert_gt(n, 0);
		len += (size_t)n;
	}
	out[len - 1] = '\0';
}

/* What one draw sends to a terminal of that size, NUL-terminated. */
static void draw(struct live *l, const struct snapshot *s, FILE *tty, int master,
		 unsigned short columns, char out[16384])
{
	struct winsize ws = { .ws_row = 24, .ws_col = columns };

	ioctl(master, TIOCSWINSZ, &ws);
	live__draw(l, s, NULL, tty);
	receive(tty, master, out);
	cr_assert(*out);
}

static unsigned int lines_in(const char *text, unsigned int columns)
{
	unsigned int lines = 0;

	for (const char *end; (end = strchr(text, '\n')); text = end + 1, lines++) {
		struct strbuf clipped = STRBUF_INIT;

		/* no wider than the screen: nothing is left to clip */
		text += *text == '\r';
		text__clip(&clipped, text, (size_t)(end - text), columns + 3); /* "[K" and CR */
		cr_expect_eq(clipped.len, (size_t)(end - text));
		strbuf__free(&clipped);
	}
	return lines;
}

Test(live, redraws_in_place_and_survives_resizing)
{
	struct snapshot *s = synth__new();
	struct live *l = live__new(&(struct report_opts){ .colour = false });
	int master, slave;
	char text[16384], up[16];
	unsigned int lines;
	FILE *tty;

	if (openpty(&master, &slave, NULL, NULL, NULL))
		cr_skip_test("no pseudo terminals here (/dev/pts)");
	tty = fdopen(slave, "w");
	draw(l, s, tty, master, 80, text);
	expect_silent(text, "A\x1b");
	expect_says(text, "translator_sv2 (pid 4242)  00:00:10");
	expect_says(text, "poll …");
	lines = lines_in(text, 80);
	cr_expect(lines > 5 && lines < 24);

	draw(l, s, tty, master, 80, text);
	snprintf(up, sizeof(up), "\r\x1b[%uA", lines);
	cr_expect_eq(strncmp(text, up, strlen(up)), 0, "as high as the frame: '%.6s'", text + 1);

	draw(l, s, tty, master, 50, text);
	cr_expect_gt(atoi(text + 3), (int)lines, "the old lines have wrapped");
	cr_expect_eq(lines_in(text, 50), lines);
	for (const char *e = text; (e = strchr(e, '\x1b')); e++)
		cr_expect(strchr("AKJ", e[strcspn(e, "AKJ")]), "only moves and clears");

	live__clear(l, tty);
	receive(tty, master, text);
	snprintf(up, sizeof(up), "\r\x1b[%uA\x1b[J", lines);
	cr_expect_str_eq(text, up);
	fclose(tty);
	close(master);
	live__free(l);
	snapshot__free(s);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <criterion/criterion.h>
#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "says.h"
#include "synth.h"
#include "synth_stacks.h"

/* Lines of figures that are too long go on in another; the rest of the tables fit as they are. */
Test(report, figures_that_do_not_fit_go_on_below)
{
	struct snapshot *s = synth__new();
	char *narrow, *wide, line[512];

	synth__add_stacks(s);
	synth__add_native(s);
	s->memory->rss_bytes = s->memory->rss_start_bytes = 123 << 20;
	s->memory->anon_bytes = 100 << 20;
	s->memory->mapped_bytes = (uint64_t)334 << 20;
	narrow = print(s, 80, false);
	wide = print(s, 160, false);
	expect_says(narrow, ", cold 1.10µs)\n  threads 0.20%; profile 0.09%; growth 0.01%; apart, "
			    "roletrace itself 2.40%\n");
	expect_says(wide, ", cold 1.10µs); threads 0.20%; profile 0.09%; growth 0.01%; apart, "
			  "roletrace itself 2.40%\n");
	expect_says(narrow, " 100MB of it anonymous;\n  334MB mapped\n");
	expect_says(wide, " 100MB of it anonymous; 334MB mapped\n");
	expect_says(narrow, "\nThe total is exact, and net: frees of blocks from before the attach "
			    "are in it\n");
	/* no wider than the longest name */
	cr_expect_lt(utf8__width(line_of(wide, "Caller → callee", line)), 160);
	cr_expect_leq(utf8__width(line_of(narrow, "Caller → callee", line)), 80);
	free(narrow);
	s->memory->estimated = true; /* of blocks that were handed out since then */
	narrow = print(s, 80, false);
	expect_silent(narrow, "The total is exact");
	free(narrow);
	free(wide);
	snapshot__free(s);
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

Test(report, one_is_not_many)
{
	struct snapshot *s = synth__new();
	char *text;

	synth__add_stacks(s);
	s->profiles->of[PROFILE_CPU]->truncated.data[0].count = 1;
	s->profiles->of[PROFILE_CPU]->lost.data[0].count = 1;
	s->profiles->of[PROFILE_OFF_CPU]->older = 1;
	s->overhead.hits = 1;
	text = print(s, 80, false);
	expect_says(text, "  1 sample is cut off before the thread's start: no_rows\n");
	expect_says(text, "  1 sample was lost: stacks_full\n");
	expect_says(text, "  1 of them had begun before and is counted since the attach\n");
	expect_says(text, ": 1 hit, 812ns each");
	free(text);
	snapshot__free(s);
}

Test(report, says_what_was_traced_and_what_it_cost)
{
	struct snapshot *s = synth__new();
	char *text = print(s, 80, false);

	expect_says(text, "translator_sv2 (pid 4242), 10.0s from 20");
	expect_says(text,
		    "Overhead: 4.02% of a CPU (budget 2%), 12.5% of what the process used\n"
		    "  probes 3.72%: 494632 hits, 812ns each (caches warm 700ns, cold 1.10µs)\n"
		    "  threads 0.20%; profile 0.09%; growth 0.01%; apart, roletrace itself "
		    "2.40%\n");
	expect_says(text, "an empty call shows 1.48µs");
	expect_says(text, "Degraded: 1 function was taken off");
	expect_says(text, "Lost: orphan_exits 14");
	expect_silent(text, "depth_exceeded");
	expect_says(text, "1 traced function was not called since the attach:\n"
			  "  translator_sv2::config::TranslatorConfig::never_called\n");
	expect_says(text, "4 functions not probed:");
	expect_silent(text, "\x1b");
	expect_silent(text, "Recording nothing");
	expect_silent(text, "target exited");
	free(text);
	snapshot__free(s);
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
	expect_says(text, "\n  u  left without returning (a panic, longjmp, a thread's exit)");
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
	expect_says(text, "\n  x  not timed all the time");
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

Test(report, recursion_is_marked)
{
	static const char why[] = "\n  r  calls itself: Total is of the outermost calls alone";
	struct snapshot *s = synth__new();
	char *text = print(s, 80, false);

	expect_silent(text, "\n  r  ");
	free(text);
	s->fns[2].sum_ns = s->fns[2].total_ns + s->fns[2].total_ns / 2000; /* read in between */
	text = print(s, 80, false);
	expect_silent(text, "\n  r  ");
	free(text);
	s->fns[2].sum_ns = 70 * s->fns[2].total_ns;
	text = print(s, 80, false);
	expect_says(text, why);
	free(text);
	snapshot__free(s);
}

/* 125 s of corrections in a window of 4 s are no mistake: the head says what they are. */
Test(report, corrections_of_deep_calls_are_explained)
{
	static const char why[] = "each counts once for every open call around it)\n";
	struct snapshot *s = synth__new();
	char *text;

	s->overhead.hits = 1000;
	s->overhead.ns_per_hit = 2000;
	s->overhead.corrected_ns = 1900000;
	text = print(s, 80, false);
	expect_says(text, "corrected for 1.90ms of nested probes\n");
	expect_silent(text, why);
	free(text);
	s->overhead.corrected_ns = 2100000;
	text = print(s, 80, false);
	expect_says(text, "corrected for 2.10ms of nested probes\n");
	expect_says(text, why);
	free(text);
	snapshot__free(s);
}

/* What was not measured all the time shows as the estimate of it, and is in order by that. */
Test(report, estimates_are_marked)
{
	struct snapshot *s = synth__new();
	struct snapshot_sampled *a = s->fns[8].sampled;
	char *text, line[512];

	s->fns[8].floor_ns = 10;
	a->count = BASIS_ESTIMATED;
	a->calls = (struct snapshot_estimate){ 6800000, 6000000, 7000000 };
	a->times[TIME_TOTAL] =
		(struct snapshot_estimate){ 7777000000ull, 7000000000ull, 8000000000ull };
	a->times[TIME_SELF] = (struct snapshot_estimate){ 3333000000ull, 1, UINT64_MAX };
	text = print(s, 132, false);
	line_of(text, "translator_sv2::hot_loop", line);
	expect_says(line, " ~6800000 ");
	expect_says(line, " ~7.78s ");
	expect_says(line, " ~77.8% ");
	expect_says(line, " ~3.33s ");
	cr_expect(strstr(text, "hot_loop") < strstr(text, "handle_new_block"), "in order");
	expect_says(text, "  calls in all: about 6800000, within 6000000 to 7000000\n");
	expect_silent(text, "Too hot");
	free(text);
	a->time = BASIS_LOWER_BOUND;
	text = print(s, 132, false);
	expect_says(text, " >7.78s ");
	expect_says(text, "Too hot to time within the budget: translator_sv2::hot_loop (about "
			  "6800000 calls)\n");
	free(text);
	snapshot__free(s);
}

Test(report, callers_of_sampled_functions_are_in_part)
{
	struct snapshot *s = synth__new();
	char *text = print(s, 132, false), line[512];

	expect_silent(text, "  s  of the timed calls only");
	free(text);
	s->edges[1].callee = 8;
	text = print(s, 132, false);
	line_of(text, " → translator_sv2::hot_loop", line);
	cr_expect_str_eq(line + strlen(line) - 2, " s");
	expect_says(text, "\n  s  of the timed calls only");
	free(text);
	snapshot__free(s);
}

/* Twenty-three microseconds that are left of nearly two hundred are no latency. */
Test(report, what_was_taken_off_may_be_more_than_is_left)
{
	struct snapshot *s = synth__new();
	char *text = print(s, 132, false), line[512];

	expect_silent(text, "\n  p  ");
	free(text);
	s->fns[0].corrected_ns = s->fns[0].sum_ns * 10 / 3 + 10;
	text = print(s, 132, false);
	line_of(text, "handle_submit", line);
	expect_says(line, "handle_submit p");
	expect_says(line, " <287µs  <219µs  <342µs  <3.6ms ");
	expect_says(text, "\n  p  the probes inside cost more");
	free(text);
	s->fns[0].corrected_ns = s->fns[0].sum_ns * 3;
	text = print(s, 132, false);
	expect_silent(text, "\n  p  ");
	free(text);
	snapshot__free(s);
}

Test(report, budget_lines_are_of_functions_that_ran)
{
	struct snapshot *s = synth__new();
	char *text;

	s->overhead.shed[0].name = synth_names[5];
	text = print(s, 132, false);
	expect_silent(text, "Budget: translator_sv2::config::TranslatorConfig::never_called");
	expect_silent(text, "never_called: sampled");
	free(text);
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

Test(report, many_that_were_never_called_are_counted_only)
{
	struct snapshot *s = synth__new();
	char *text;

	for (size_t i = 0; i < 3; i++)
		s->fns[i].calls = s->fns[i].in_flight = 0;
	text = print(s, 80, false);
	expect_says(text, "4 traced functions were not called since the attach.\n");
	expect_silent(text, "never_called");
	free(text);
	snapshot__free(s);
}

Test(report, what_makes_a_future_is_marked)
{
	struct snapshot *s = synth__new();
	char *text, row[512];

	s->fns[3].name = "role::handle";
	s->fns[4].name = "role::handle_all";
	s->fns[1].name = "role::handle::{{closure}}";
	cr_assert_eq(snapshot__find_futures(s), 0);
	text = print(s, 100, false);
	expect_says(text, "  a  makes a future; what that does is in the row of its polls\n");
	cr_expect_not_null(strstr(line_of(text, "role::handle ", row), " a "), "%s", row);
	cr_expect_null(strstr(line_of(text, "role::handle_all", row), " a "), "%s", row);
	free(text);
	s->fns[3].makes_future = false;
	s->fns[1].is_async = false; /* an ordinary closure of it */
	cr_assert_eq(snapshot__find_futures(s), 0);
	text = print(s, 100, false);
	expect_silent(text, "makes a future");
	free(text);
	snapshot__free(s);
}

Test(report, copies_that_are_not_probed_are_one_line)
{
	struct snapshot *s = synth__new();
	char *text;

	for (size_t i = 0; i < 3; i++)
		s->skipped[i] = (struct snapshot_skip){ "role::main::{{closure}}", "only a jump" };
	s->skipped[3] = (struct snapshot_skip){ "role::main::{{closure}}", "data inside" };
	text = print(s, 80, false);
	expect_says(text, "4 functions not probed:\n"
			  "  role::main::{{closure}} (x3): only a jump\n"
			  "  role::main::{{closure}}: data inside\n");
	expect_silent(text, "more (`roletrace list`");
	free(text);
	snapshot__free(s);
}

Test(report, recording_nothing_is_said)
{
	struct snapshot *s = synth__new(), *empty = snapshot__new();
	char *text;

	for (size_t i = 0; i < s->fn_cnt; i++)
		s->fns[i].calls = s->fns[i].in_flight = 0;
	s->fns[8].sampled->calls.value = 0;
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

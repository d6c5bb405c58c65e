/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The report and the live summary on a made-up snapshot, to look at with one's own eyes:
 *   gcc -std=gnu17 -D_GNU_SOURCE -Iinclude -Idaemon -Itests/unit tests/unit/demo/ui_demo.c
 *       daemon/{ui,snapshot}/\*.c daemon/base/{arena,glob,strbuf,utf8}.c -l:libjansson.a -lm -o
 * /tmp/ui_demo /tmp/ui_demo [report WIDTH | live SECONDS | progress SECONDS | bare]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "synth.h"
#include "ui/live.h"
#include "ui/report.h"

static void more_calls(struct snapshot *s, unsigned int round)
{
	for (size_t i = 0; i < s->fn_cnt; i++)
		if (s->fns[i].returned && (i + round) % 4)
			synth__calls(&s->fns[i], s->fns[i].sum_ns / s->fns[i].returned, 200);
	s->window.duration_ns += 500000000;
	s->window.end_unix_ns += 500000000;
	s->overhead.hits += 2000;
}

static void live(int seconds)
{
	struct snapshot *now = synth__new(), *prev = NULL;
	struct live *l = live__new(&(struct report_opts){ .colour = true });

	for (int i = 0; i < 2 * seconds; i++) {
		prev = snapshot__delta(now, NULL);
		more_calls(now, (unsigned int)i);
		live__draw(l, now, prev, stderr);
		snapshot__free(prev);
		usleep(500000);
	}
	live__clear(l, stderr);
	live__free(l);
	snapshot__free(now);
}

static void progress(int seconds)
{
	struct live *l = live__new(&(struct report_opts){ .colour = true });
	uint64_t total_ns = (uint64_t)seconds * 1000000000;

	for (uint64_t ns = 0; ns <= total_ns; ns += 100000000) {
		live__progress(l, stderr, ns, total_ns, ns / 12345, 0.0123);
		usleep(100000);
	}
	live__clear(l, stderr);
	live__free(l);
}

static void report(unsigned int width, bool bare)
{
	struct snapshot *s = synth__new();
	struct report_opts opts = { .width = width, .colour = isatty(1) };

	if (bare)
		for (size_t i = 0; i < s->fn_cnt; i++)
			s->fns[i].calls = s->fns[i].in_flight = 0;
	report__print(s, &opts, stdout);
	snapshot__free(s);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "report";
	int n = argc > 2 ? atoi(argv[2]) : 0;

	if (!strcmp(what, "live"))
		live(n ? n : 5);
	else if (!strcmp(what, "progress"))
		progress(n ? n : 4);
	else
		report((unsigned int)n, !strcmp(what, "bare"));
	return 0;
}

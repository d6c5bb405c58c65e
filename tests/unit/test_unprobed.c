/* SPDX-License-Identifier: BSD-2-Clause */
/* Functions without probes: their samples, their rows, and what formats make of them. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <math.h>

#include "base/strbuf.h"
#include "collect/cpu_rows.h"
#include "export/export.h"
#include "snapshot/read.h"
#include "synth.h"
#include "synth_stacks.h"
#include "ui/report.h"

static struct snapshot *sampled(void)
{
	struct snapshot *s = synth__new();

	synth__add_stacks(s);
	synth__add_unprobed(s);
	return s;
}

/* ---- estimates ---- */

/* Against the exact interval of a Poisson count, as tables have it. */
Test(unprobed, times_with_their_error)
{
	static const struct {
		uint64_t n;
		double low, high;
	} exact[] = { { 0, 0, 3.69 },
		      { 1, 0.025, 5.57 },
		      { 4, 1.09, 10.24 },
		      { 10, 4.80, 18.39 },
		      { 100, 81.36, 121.63 } };
	struct snapshot_profile cpu = { .hz = 1000 };

	for (size_t i = 0; i < sizeof(exact) / sizeof(exact[0]); i++) {
		struct profile_time t = profile__time(&cpu, exact[i].n);

		cr_expect_eq(t.ns, exact[i].n * 1000000);
		cr_expect_leq(fabs((double)t.low_ns / 1e6 - exact[i].low), 1.0, "%f",
			      (double)t.low_ns / 1e6);
		cr_expect_leq(fabs((double)t.high_ns / 1e6 - exact[i].high), 1.0, "%f",
			      (double)t.high_ns / 1e6);
	}
	cpu.hz = 49;
	cr_expect_eq(profile__time(&cpu, 49).ns, 1000000000);
}

/* ---- from frames to rows ---- */

enum { ROOT, OUTER, INNER_COPY, INNER, PROBED, PROBED_COPY, NOWHERE, SAME_IN_LIB, FRAMES };

static const struct named_fn fns[FRAMES] = {
	[ROOT] = { { "start", "libc.so.6", FRAME_LIB }, "start", "", NAMED_NO_ROW },
	[OUTER] = { { "outer", "role", FRAME_OWN }, "outer", "role", NAMED_NO_ROW },
	[INNER_COPY] = { { "inner", "role", FRAME_OWN, true }, "inner", "role", NAMED_NO_ROW },
	[INNER] = { { "inner", "role", FRAME_OWN, false, "a.rs", 7 },
		    "inner",
		    "role",
		    NAMED_NO_ROW },
	[PROBED] = { { "probed (b.rs:1)", "role", FRAME_OWN }, "probed", "role", 3 },
	[PROBED_COPY] = { { "probed (b.rs:1)", "role", FRAME_OWN, true }, "probed", "role", 3 },
	[NOWHERE] = { { "[unknown code]", NULL, FRAME_UNKNOWN }, NULL, "", NAMED_NO_ROW },
	/* Rust, and of the same symbol */
	[SAME_IN_LIB] = { { "outer", "lib.so", FRAME_OWN }, "outer", "role", NAMED_NO_ROW },
};

static const struct snapshot_fn *row_called(const struct snapshot *s, const char *name)
{
	for (size_t i = 0; i < s->fn_cnt; i++)
		if (!strcmp(s->fns[i].name, name))
			return &s->fns[i];
	cr_assert(false, "no row '%s'", name);
	return NULL;
}

static void expect_samples(const struct snapshot *s, const char *name, uint64_t samples,
			   uint64_t self, uint64_t inlined)
{
	const struct snapshot_fn *fn = row_called(s, name);

	cr_expect_eq(fn->cpu_samples, samples, "%s: %lu", name, fn->cpu_samples);
	cr_expect_eq(fn->cpu_self_samples, self, "%s: %lu", name, fn->cpu_self_samples);
	cr_expect_eq(fn->cpu_inlined_samples, inlined, "%s: %lu", name, fn->cpu_inlined_samples);
}

#define ADD(samples, ...)                                                                          \
	cpu_rows__add(rows, (const uint32_t[]){ __VA_ARGS__ },                                     \
		      sizeof((const uint32_t[]){ __VA_ARGS__ }) / sizeof(uint32_t), samples)

Test(unprobed, samples_become_rows)
{
	const struct named_fn *by_frame[FRAMES];
	struct snapshot *s = synth__new();
	struct cpu_rows *rows;
	size_t before = s->fn_cnt;

	for (int i = 0; i < FRAMES; i++)
		by_frame[i] = i == NOWHERE ? NULL : &fns[i];
	synth__add_stacks(s);
	s->target.exe = "/usr/bin/role";
	rows = cpu_rows__new(by_frame, FRAMES);
	ADD(1, ROOT, OUTER, INNER_COPY);
	ADD(2, ROOT, OUTER, INNER, INNER_COPY); /* once, however often */
	ADD(4, ROOT, OUTER, INNER);
	ADD(8, ROOT, PROBED, PROBED_COPY, PROBED);
	ADD(16, ROOT, OUTER, NOWHERE); /* innermost is what has no name */
	ADD(32, SAME_IN_LIB);
	cpu_rows__add(rows, NULL, 0, 64);
	cpu_rows__book(rows, s);
	cr_assert_eq(cpu_rows__append(rows, s), 0);
	cpu_rows__free(rows);
	expect_samples(s, "libc.so.6:start", 31, 0, 0);
	expect_samples(s, "outer", 23, 0, 0);
	expect_samples(s, "inner", 7, 7, 3);
	expect_samples(s, s->fns[3].name, 8, 8, 8);
	expect_samples(s, "lib.so:outer", 32, 32, 0);
	cr_expect_eq(s->fn_cnt, before + 4);
	cr_expect_str_eq(s->fns[before].name, "lib.so:outer", "most samples first");
	cr_expect_str_eq(row_called(s, "inner")->file, "a.rs", "of what is no copy");
	cr_expect(row_called(s, "inner")->unprobed && !s->fns[3].unprobed);
	cr_expect_eq(s->profiles->of[PROFILE_CPU]->unlisted_fns, 0);
	snapshot__free(s);
}

Test(unprobed, rows_are_bounded)
{
	const size_t cnt = CPU_ROWS_MAX + 7;
	struct named_fn *many = calloc(cnt, sizeof(*many));
	const struct named_fn **by_frame = calloc(cnt, sizeof(*by_frame));
	struct snapshot *s = synth__new();
	struct cpu_rows *rows;
	char name[16];

	synth__add_stacks(s);
	for (size_t i = 0; i < cnt; i++) {
		snprintf(name, sizeof(name), "f%zu", i);
		many[i] = (struct named_fn){
			.f = { .name = strdup(name), .module = "role", .kind = FRAME_DEP },
			.crate = "x",
			.row = NAMED_NO_ROW
		};
		by_frame[i] = &many[i];
	}
	rows = cpu_rows__new(by_frame, cnt);
	for (uint32_t i = 0; i < cnt; i++)
		cpu_rows__add(rows, &i, 1, i + 1);
	cr_assert_eq(cpu_rows__append(rows, s), 0);
	cpu_rows__free(rows);
	cr_expect_eq(s->fn_cnt, SYNTH_FNS + CPU_ROWS_MAX);
	cr_expect_eq(s->profiles->of[PROFILE_CPU]->unlisted_fns, 7);
	cr_expect_eq(s->profiles->of[PROFILE_CPU]->unlisted_self, 1 + 2 + 3 + 4 + 5 + 6 + 7);
	for (size_t i = 0; i < cnt; i++)
		free((char *)many[i].f.name);
	free(many);
	free(by_frame);
	snapshot__free(s);
}

/* ---- intervals ---- */

Test(unprobed, intervals_match_rows_by_name)
{
	struct snapshot *prev = sampled(), *now = sampled(), *d;
	struct snapshot_fn *rows = &now->fns[SYNTH_FNS], swap;

	rows[0].cpu_samples += 7;
	rows[1].name = "tokio::another";
	now->fns[0].cpu_samples += 2;
	swap = rows[0];
	rows[0] = rows[2];
	rows[2] = swap;
	d = snapshot__delta(now, prev);
	cr_assert(d);
	cr_expect_eq(d->fn_cnt, now->fn_cnt);
	expect_samples(d, "translator_sv2::utils::folded", 7, 0, 0);
	expect_samples(d, "tokio::another", 90, 1, 0);
	expect_samples(d, "[libc.so.6+0x28000]", 0, 0, 0);
	cr_expect_eq(d->fns[0].cpu_samples, 2);
	snapshot__free(d);

	/* what had been folded may have had any number of samples */
	prev->profiles->of[PROFILE_CPU]->unlisted_fns = 1;
	d = snapshot__delta(now, prev);
	cr_expect_eq(d->fn_cnt, now->fn_cnt - 1);
	snapshot__free(d);
	prev->fn_cnt = SYNTH_FNS;
	profiles__free(prev->profiles);
	prev->profiles = NULL;
	d = snapshot__delta(now, prev);
	cr_expect_eq(d->fn_cnt, SYNTH_FNS);
	snapshot__free(d);
	d = snapshot__delta(now, NULL);
	cr_expect_eq(d->fn_cnt, now->fn_cnt);
	expect_samples(d, "translator_sv2::utils::folded", 47, 25, 40);
	snapshot__free(d);
	snapshot__free(now);
	snapshot__free(prev);
}

/* ---- formats ---- */

static char *render(const struct exporter *e, const struct snapshot *s)
{
	struct strbuf out = STRBUF_INIT;

	cr_assert_eq(e->render(s, &out), 0);
	return strbuf__take(&out);
}

Test(unprobed, json_has_every_member_and_no_figure)
{
	struct snapshot *s = sampled();
	char *text = render(&export_json, s);
	json_t *doc = json_loads(text, 0, NULL), *list = json_object_get(doc, "functions"), *v;
	json_t *probed = json_array_get(list, 0), *row = json_array_get(list, SYNTH_FNS);
	const char *key;
	size_t nulls = 0;

	cr_assert_eq(json_array_size(list), SYNTH_FNS + 3);
	json_object_foreach(probed, key, v)
	{
		json_t *here = json_object_get(row, key);

		cr_expect(here || !strcmp(key, "file") || !strcmp(key, "line"), "%s", key);
		nulls += json_is_null(here);
	}
	cr_expect_eq(nulls, 3 + 26, "kind, sites, exit and all figures: %zu", nulls);
	cr_expect_str_eq(json_string_value(json_object_get(row, "coverage")), "sampled");
	cr_expect_str_eq(json_string_value(json_object_get(row, "origin")), "own");
	row = json_object_get(row, "cpu");
	cr_expect_eq(json_integer_value(json_object_get(row, "samples")), 40);
	cr_expect_eq(json_integer_value(json_object_get(row, "inlined_samples")), 40);
	cr_expect_eq(json_integer_value(json_object_get(row, "time_ns")), 816326530);
	cr_expect_eq(json_array_size(json_object_get(row, "time_interval_ns")), 2);
	json_decref(doc);
	free(text);
	snapshot__free(s);
}

Test(unprobed, csv_leaves_fields_empty)
{
	struct snapshot *s = sampled();
	char *text = render(&export_csv, s), *buckets = render(&export_csv_buckets, s);
	const char *row = strstr(text, "translator_sv2::utils::folded");

	cr_assert(row);
	row = strchr(row, ',');
	cr_expect_eq(strncmp(row,
			     ",_ZN14translator_sv25utils6folded17h0123456789abcdefE,"
			     "translator_sv2,,,,,sampled,,,,,,,,,,,,,",
			     90),
		     0, "%.100s", row);
	row = strstr(row, ",role,own,40,25,40,816326530,");
	cr_expect(row && row < strchr(strstr(text, "utils::folded"), '\n'));
	cr_expect_null(strstr(buckets, "utils::folded"));
	free(text);
	free(buckets);
	snapshot__free(s);
}

Test(unprobed, prometheus_shows_no_calls)
{
	struct snapshot *s = sampled();
	char *text = render(&export_prom, s);

	cr_expect(strstr(text,
			 "roletrace_functions_traced{comm=\"translator_sv2\",pid=\"4242\"} 14\n"));
	cr_expect(strstr(text, "roletrace_function_cpu_samples_total{function=\"translator_sv2::"
			       "utils::folded\",crate=\"translator_sv2\",comm=\"translator_sv2\","
			       "pid=\"4242\",probed=\"false\"} 40\n"));
	cr_expect(strstr(text, "pid=\"4242\",probed=\"true\"} 60\n"));
	cr_expect(strstr(text, "roletrace_cpu_samples_per_second{comm=\"translator_sv2\","
			       "pid=\"4242\"} 49\n"));
	cr_expect_null(strstr(text, "calls_total{function=\"translator_sv2::utils::folded"));
	cr_expect_null(strstr(text, "tokio::runtime::task"), "not the role's own");
	free(text);
	snapshot__free(s);
}

static char *report(const struct snapshot *s, unsigned int width, bool chosen)
{
	struct report_opts opts = { .width = width, .chosen = chosen };
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	cr_assert_eq(report__print(s, &opts, f), 0);
	fclose(f);
	return text;
}

Test(unprobed, report_shows_the_roles_own)
{
	struct snapshot *s = sampled();
	char *text = report(s, 100, false);

	cr_expect(strstr(text, "816ms ±295ms"), "%s", text);
	cr_expect(strstr(text, "~ translator_sv2::utils::folded (inlined)"), "%s", text);
	cr_expect_null(strstr(text, "task::raw::poll"));
	cr_expect(strstr(text, "1 traced function was not called since the attach:"), "%s", text);
	free(text);
	text = report(s, 100, true);
	cr_expect(strstr(text, "~ tokio::runtime::task::raw::poll"), "asked for");
	free(text);
	for (unsigned int width = 40; width < 130; width += 7) {
		text = report(s, width, false);
		for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
			cr_expect(!strstr(line, "folded") || strlen(line) <= width + 6, "%u: %s",
				  width, line);
		free(text);
	}
	snapshot__free(s);
}

Test(unprobed, a_document_in_disorder_is_refused)
{
	struct snapshot *s = sampled(), *again;
	struct strbuf reason = STRBUF_INIT;
	struct snapshot_fn first = s->fns[0];
	char *text;

	s->fns[0] = s->fns[SYNTH_FNS];
	s->fns[SYNTH_FNS] = first;
	text = render(&export_json, s);
	cr_expect_eq(snapshot__read(text, strlen(text), &again, &reason), -EINVAL);
	cr_expect(strstr(reason.s, "functions[1].calls"), "%s", reason.s);
	strbuf__free(&reason);
	free(text);
	snapshot__free(s);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <criterion/criterion.h>
#include <errno.h>
#include <math.h>

#include "base/strbuf.h"
#include "export/export.h"
#include "export/flame.h"
#include "snapshot/read.h"
#include "synth.h"
#include "synth_stacks.h"
#include "synth_threads.h"

static void render(const struct snapshot *s, struct strbuf *out)
{
	cr_assert_eq(export_json.render(s, out), 0);
}

static struct snapshot *read_back(const char *text, size_t len)
{
	struct strbuf reason = STRBUF_INIT;
	struct snapshot *s = NULL;

	cr_assert_eq(snapshot__read(text, len, &s, &reason), 0, "%s", reason.s);
	cr_expect_str_eq(reason.s, "");
	strbuf__free(&reason);
	return s;
}

/* What is read says the same as what was written, in every format. */
static void expect_round_trip(const struct snapshot *s)
{
	static const struct exporter *const formats[] = { &export_json, &export_csv,
							  &export_csv_buckets, &export_prom };
	struct strbuf doc = STRBUF_INIT;
	struct snapshot *again;

	render(s, &doc);
	again = read_back(doc.s, doc.len);
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		struct strbuf was = STRBUF_INIT, is = STRBUF_INIT;

		cr_assert_eq(formats[i]->render(s, &was), 0);
		cr_assert_eq(formats[i]->render(again, &is), 0);
		cr_expect_str_eq(is.s, was.s, "%s", formats[i]->name);
		strbuf__free(&was);
		strbuf__free(&is);
	}
	strbuf__free(&doc);
	snapshot__free(again);
}

Test(read, round_trip)
{
	struct snapshot *s = synth__new(), *empty = snapshot__new();

	/* what cannot be shown in one format may be shown in another, but comes back as shown */
	s->fns[11].name = "odd \"name\\ with; spaces\nand\t計算, <odd> \x7f\x01";
	s->fns[11].symbol = "";
	s->hint = "try --crate stratum_apps";
	s->fns[0].makes_future = true; /* the row of its polls may have been filtered out */
	expect_round_trip(s);
	expect_round_trip(empty);
	synth__add_stacks(s);
	expect_round_trip(s);
	synth__add_unprobed(s);
	s->profiles->of[PROFILE_CPU]->unlisted_fns = 8;
	s->profiles->of[PROFILE_CPU]->unlisted_self = 9;
	s->profiles->of[PROFILE_CPU]->unnamed = 10;
	s->profiles->of[PROFILE_CPU]->in_probes = 11;
	expect_round_trip(s);
	s->profiles->frames.data[0].line = 7; /* of no file: it says nothing */
	s->profiles->of[PROFILE_OFF_CPU]->stacks.cnt = 0;
	s->profiles->of[PROFILE_CPU]->stacks.data[0].value = UINT64_MAX;
	expect_round_trip(s);
	synth__add_native(s);
	s->alloc_stacks[0].estimated = s->fns[0].has_alloc = s->fns[0].alloc_estimated = true;
	s->alloc_stacks[0].live_error_bytes = 77;
	s->fns[0].alloc_error_bytes = UINT64_MAX;
	s->memory->estimated = true;
	s->memory->live_error_bytes = 1000;
	expect_round_trip(s);
	snapshot__free(empty);
	snapshot__free(s);
}

Test(read, round_trip_of_ends_and_extremes)
{
	static uint64_t counts[] = { UINT64_MAX / 4, 0, 1ull << 62 };
	struct snapshot *s = synth__new();
	struct snapshot_fn *fn = &s->fns[0];

	free(fn->hist.counts);
	fn->hist = (struct snapshot_hist){ .first = 1006, .cnt = 3, .counts = counts };
	fn->calls = fn->sum_ns = fn->max_ns = UINT64_MAX;
	fn->total_ns = 1ull << 63;
	fn->self_ns = (1ull << 63) - 1;
	fn->min_ns = 0;
	s->overhead.cpu_ratio = 1.0 / 3;
	s->overhead.budget_ratio = 1e-17;
	for (int end = END_NOT; end < END_CNT; end++) {
		s->target.end = (enum snapshot_end)end;
		s->target.end_code = end == END_EXEC ? 0 : -7;
		s->target.end_unix_ns = end == END_NOT ? 0 : 1764471600000000001;
		expect_round_trip(s);
	}
	s->overhead.cpu_ratio = NAN;
	s->overhead.budget_ratio = -1;
	s->target.comm = s->target.exe = s->target.build_id = s->profile = NULL;
	s->window.settled = false;
	expect_round_trip(s);
	fn->hist.counts = NULL;
	snapshot__free(s);
}

Test(read, bad_bytes_come_back_as_they_were_shown)
{
	struct snapshot *s = synth__new(), *again;
	struct strbuf doc = STRBUF_INIT, twice = STRBUF_INIT;

	s->fns[0].name = "cut\xe8\xa8";
	s->target.comm = "caf\xc3";
	render(s, &doc);
	again = read_back(doc.s, doc.len);
	cr_expect_str_eq(again->fns[0].name, "cut\xef\xbf\xbd");
	render(again, &twice);
	cr_expect_str_eq(twice.s, doc.s);
	strbuf__free(&doc);
	strbuf__free(&twice);
	snapshot__free(again);
	snapshot__free(s);
}

/* An interval of two snapshots that were read has its strings from the later one. */
Test(read, deltas_of_what_was_read)
{
	struct snapshot *s = synth__new(), *prev, *now, *d;
	struct strbuf doc = STRBUF_INIT;

	render(s, &doc);
	prev = read_back(doc.s, doc.len);
	synth__call(&s->fns[0], 5000);
	strbuf__reset(&doc);
	render(s, &doc);
	now = read_back(doc.s, doc.len);
	d = snapshot__delta(now, prev);
	cr_assert(d);
	cr_expect_eq(snapshot__calls(d), 1);
	cr_expect_str_eq(d->fns[0].name, synth_names[0]);
	snapshot__free(prev);
	snapshot__free(d);
	cr_expect_str_eq(now->fns[0].name, synth_names[0]);
	snapshot__free(now);
	strbuf__free(&doc);
	snapshot__free(s);
}

/* ---- what is refused ---- */

static void replace(struct strbuf *text, const char *was, const char *is)
{
	char *at = strstr(text->s, was);
	struct strbuf out = STRBUF_INIT;

	cr_assert(at, "'%s' is not in the document", was);
	strbuf__add(&out, text->s, (size_t)(at - text->s));
	strbuf__adds(&out, is);
	strbuf__adds(&out, at + strlen(was));
	strbuf__free(text);
	*text = out;
}

struct change {
	const char *was, *is, *words; /* words NULL: is read */
};

static const struct change changes[] = {
	{ "{", "{\"new\": [1, {\"x\": null}],", NULL },
	{ "\"name\":", "\"alloc\":{\"bytes\":-1},\"name\":", NULL },
	{ "\"hint\":null", "\"hint\":\"more\"", NULL },
	{ ",\"hint\":null", "", NULL },
	{ "\"ended\":null", "\"ended\":{\"reason\":\"exec\",\"code\":null,\"unix_ns\":1}", NULL },
	{ "snapshot/1\"", "snapshot/2\"", "its schema is \"roletrace.snapshot/2\"" },
	{ "snapshot/1\"", "\\u001b[31m\"", "its schema is \"roletrace.\xef\xbf\xbd[31m\"" },
	{ "\"schema\":", "\"scheme\":", "it has no \"schema\"" },
	{ "\"roletrace.snapshot/1\"", "1", "it has no \"schema\"" },
	{ "\"schema\":", "\"schema\":\"x\",\"schema\":", "line 1: duplicate" },
	{ "\"window\":", "\"windows\":", "window is missing" },
	{ "\"overhead\":{", "\"overhead\":[],\"x\":{", "overhead is no object" },
	{ "\"functions\":[", "\"functions\":{},\"x\":[", "functions is no list" },
	{ "\"functions\":[", "\"functions\":[7,", "functions[0] is no object" },
	{ "\"pid\":4242", "\"pid\":-1", "target.pid is no integer" },
	{ "\"pid\":4242", "\"pid\":3000000000", "target.pid is no integer" },
	{ "\"pid\":4242", "\"pid\":\"4242\"", "target.pid is no integer" },
	{ "\"comm\":\"", "\"comm\":1,\"x\":\"", "target.comm is no string" },
	{ "\"ended\":null", "\"ended\":7", "ended is no object" },
	{ "\"ended\":null", "\"ended\":{\"reason\":\"boredom\"}", "reason is no word known" },
	{ "\"settled\":true", "\"settled\":1", "settled is neither" },
	{ "\"status\":\"degraded\"", "\"status\":\"ok\"", "status and reasons contradict" },
	{ "\"reasons\":[", "\"reasons\":[null,", "reasons holds what is no string" },
	{ "\"orphan_exits\":14", "\"orphan\\u001b\":-14", "lost.orphan\xef\xbf\xbd is no count" },
	{ "\"orphan_exits\":14", "\"orphan_exits\":1.5", "lost.orphan_exits is no count" },
	{ "\"orphan_exits\":14", "\"orphan_exits\":1e30", "lost.orphan_exits is no count" },
	{ "\"orphan_exits\":14", "\"orphan_exits\":99999999999999999999", "too big" },
	{ "\"cpu_ratio\":", "\"cpu_ratio\":-0.1,\"x\":", "overhead.cpu_ratio is no ratio" },
	{ "\"shed\":[{", "\"shed\":[{\"reason\":7},{", "overhead.shed[0].name is missing" },
	{ "\"kind\":\"fn\"", "\"kind\":\"gen\"", "functions[0].kind is no word known" },
	{ "\"aliases\":[", "\"aliases\":[[],", "functions[0].aliases holds what" },
	{ "\"coverage\":\"exact\"", "\"coverage\":null", "functions[0].coverage is no word" },
	{ "\"line\":321", "\"line\":-1", "functions[0].line is no integer" },
	{ "\"sites\":1", "\"sites\":4294967296", "functions[0].sites is no integer" },
	{ "\"calls\":4321", "\"calls\":null", "functions[0].calls is no count" },
	{ "\"name\":\"", "\"name\":\"\\u0000", "line 7: \\u0000" },
	{ "\"min_ns\":", "\"min_ns\":{},\"x\":", "functions[0].min_ns is no count" },
	{ "\"scale\":4", "\"scale\":3", "functions[0].histogram.scale is not 4" },
	{ "\"offset\":", "\"offset\":-2,\"x\":", "functions[0].offset is no integer" },
	{ "\"offset\":", "\"offset\":1000,\"x\":", "goes beyond" },
	{ "\"offset\":", "\"offset\":4294967295,\"x\":", "functions[0].offset is no integer" },
	{ "\"counts\":[", "\"counts\":[-1,", "functions[0].histogram.counts is no count" },
	{ "\"zero_count\":0", "\"zero_count\":18446744073709551000.0", "more than 2^64" },
	{ "\"caller\":\"", "\"caller\":\"x", "edges[0].caller is none of the functions" },
	{ "\"callee\":\"", "\"callee\":7,\"x\":\"", "edges[0].callee is none of the functions" },
	{ "\"skipped\":[", "\"skipped\":[{},", "skipped[0]." },
	{ "\"paths\":[", "\"paths\":null,\"x\":[", NULL },
	{ "\"paths\":[", "\"paths\":[[],", "paths[0] is no object" },
	{ "\"paths\":[", "\"paths\":[{\"frames\":[]},", "paths[0].frames is empty" },
	{ "\"paths\":[", "\"paths\":[{\"frames\":[7]},",
	  "paths[0].frames holds what is no string" },
	{ "\"self_ns\":1350000000", "\"self_ns\":-1", "paths[0].self_ns is no count" },
	{ "\"profiles\":{", "\"profiles\":null,\"x\":{", NULL },
	{ "\"profiles\":{", "\"profiles\":[],\"x\":{", "profiles is no object" },
	{ "\"cpu\":{\"samples\"", "\"cpu\":{\"sample\"", "functions[0].samples is missing" },
	{ "\"cpu\":{\"samples\"", "\"cpu\":null,\"x\":{\"samples\"", NULL },
	{ "\"cpu\":{\"unit\"", "\"cpu\":null,\"x\":{\"unit\"", NULL },
	{ "\"cpu\":{\"unit\"", "\"cpu\":[],\"x\":{\"unit\"", "profiles.cpu is no object" },
	{ "\"kind\":\"lib\"", "\"kind\":\"glib\"", "profiles.frames[0].kind is no word" },
	{ "\"name\":\"__clone3\",", "", "profiles.frames[0].name is missing" },
	{ "\"inlined\":true", "\"inlined\":1", "profiles.frames[2].inlined is neither" },
	{ "\"unit\":\"samples\"", "\"unit\":\"ns\"", "profiles.cpu.unit is no word" },
	{ "\"hz\":49,", "", "profiles.cpu.hz is missing" },
	{ "\"no_rows\":5", "\"no_rows\":0.5", "profiles.cpu.no_rows is no count" },
	{ "{\"frames\":[0,1,2", "{\"frames\":[0,1,7", "cpu.stacks[0].frames names a frame" },
	{ "{\"frames\":[0,1,2", "{\"frames\":[0,1,-2", "cpu.stacks[0].frames is no count" },
	{ "\"value\":25", "\"value\":\"25\"", "profiles.cpu.stacks[1].value is no count" },
	{ "\"count\":3", "\"counts\":3", "profiles.off_cpu.stacks[1].count is missing" },
	{ "\"memory\":{", "\"memory\":7,\"x\":{", "memory is no object" },
	{ "\"memory\":{", "\"memory\":{},\"x\":{", NULL },
	{ "\"live_bytes\":4096", "\"live_bytes\":null", "memory.stacks[0].live_bytes is no" },
};

static void check_changes(struct snapshot *s, const struct change *changes, size_t cnt)
{
	for (size_t i = 0; i < cnt; i++) {
		struct strbuf doc = STRBUF_INIT, reason = STRBUF_INIT;
		struct snapshot *got = NULL;
		int err;

		render(s, &doc);
		replace(&doc, changes[i].was, changes[i].is);
		err = snapshot__read(doc.s, doc.len, &got, &reason);
		if (changes[i].words) {
			cr_expect_eq(err, -EINVAL, "%s: %d", changes[i].is, err);
			cr_expect_null(got, "set only on success");
			cr_expect(strstr(reason.s, changes[i].words), "%s: %s", changes[i].is,
				  reason.s);
			cr_expect_null(strpbrk(reason.s, "\n\x1b"));
		} else {
			cr_expect_eq(err, 0, "%s: %s", changes[i].is, reason.s);
		}
		snapshot__free(got);
		strbuf__free(&doc);
		strbuf__free(&reason);
	}
	snapshot__free(s);
}

Test(read, says_what_is_wrong_and_where)
{
	struct snapshot *s = synth__new();

	synth__add_stacks(s);
	check_changes(s, changes, sizeof(changes) / sizeof(changes[0]));
}

static const struct change native_changes[] = {
	{ "\"native\":[", "\"native\":null,\"x\":[", NULL },
	{ "\"native\":[", "\"native\":7,\"x\":[", "memory.native is no list" },
	{ "[0,1,2,3],\"stack\":0", "[0,1,2,7],\"stack\":0", "native[0].frames names a frame" },
	{ "\"stack\":0", "\"stack\":2", "native[0].stack is no place" },
	{ "\"stack\":0", "\"stack\":-1", "native[0].stack" },
	{ "\"live_error_bytes\":7000", "\"live_error_bytes\":-1", "native[0].live_error_bytes" },
	{ "\"alloc_count\":7", "\"alloc_counts\":7", "native[1].alloc_count is missing" },
	{ "\"native_lost\":{", "\"native_lost\":[],\"x\":{", "native_lost is no object" },
	{ "\"sampled\":true", "\"sampled\":1", "memory.sampled is neither" },
};

Test(read, says_what_is_wrong_with_native_stacks)
{
	struct snapshot *s = synth__new();

	synth__add_stacks(s);
	synth__add_native(s);
	check_changes(s, native_changes, sizeof(native_changes) / sizeof(native_changes[0]));
}

static const char *const others[] = {
	"",
	"{}",
	"[]",
	"null",
	"1",
	"\"roletrace.snapshot/1\"",
	"\xff",
	"{\"schema\":",
	"\x1f\x8b\x08",
	"roletrace.snapshot/1",
	"{\"schema\":\"roletrace.snapshot/1\"}",
	"{\"schema\":\"roletrace.snapshot/1\",\"tool\":{}} x",
};

Test(read, other_documents_are_none)
{
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		struct strbuf reason = STRBUF_INIT;
		struct snapshot *got = NULL;

		cr_expect_eq(snapshot__read(others[i], strlen(others[i]), &got, &reason), -EINVAL);
		cr_expect(reason.len && !strpbrk(reason.s, "\n\x1b"), "%s: %s", others[i],
			  reason.s);
		strbuf__free(&reason);
	}
}

/* Each kind in the format whose turn it is: all of them take long. */
static void draw(const struct snapshot *s, struct strbuf *out)
{
	static const struct exporter *const formats[] = { &export_folded, &export_html, &export_svg,
							  &export_pprof, &export_speedscope };
	static unsigned int turn;

	for (int kind = 0; kind < FLAME_CNT; kind++) {
		struct flame_ask ask = { s, NULL, (enum flame_kind)kind };

		cr_expect_eq(formats[turn % 5]->flame(&ask, out), 0);
	}
	turn++;
}

static bool try(const char *text, size_t len, bool whole)
{
	struct strbuf reason = STRBUF_INIT, again = STRBUF_INIT;
	struct snapshot *got = NULL;
	int err = snapshot__read(text, len, &got, &reason);

	cr_expect(!err == !reason.len, "%d: %s", err, reason.s);
	cr_expect(err != 0 || whole, "%zu bytes are no whole document", len);
	if (!err) {
		render(got, &again);
		export_csv.render(got, &again);
		export_csv_buckets.render(got, &again);
		export_prom.render(got, &again);
		draw(got, &again);
		export_csv_threads.render(got, &again);
		snapshot__free(got);
	}
	strbuf__free(&reason);
	strbuf__free(&again);
	return !err;
}

Test(read, no_part_of_a_document_is_one)
{
	struct snapshot *s = synth__new();
	struct strbuf doc = STRBUF_INIT;

	s->fn_cnt = s->edge_cnt = 2;
	s->edges[0].caller = s->edges[1].caller = 0;
	s->edges[0].callee = s->edges[1].callee = 1;
	synth__add_stacks(s);
	synth__add_threads(s);
	render(s, &doc);
	for (size_t len = 0; len < doc.len - 2; len += 1 + len / 64)
		try(doc.s, len, false);
	try(doc.s, doc.len, true);
	s->fn_cnt = SYNTH_FNS;
	strbuf__free(&doc);
	snapshot__free(s);
}

/* xorshift: the same changes on every machine */
static uint32_t next(uint32_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 17;
	*seed ^= *seed << 5;
	return *seed;
}

/* Puts a bit in the place of a value, or anywhere. */
static void change(struct strbuf *doc, size_t at, bool value, const char *bit)
{
	struct strbuf out = STRBUF_INIT;
	size_t end;

	if (value)
		at += strcspn(doc->s + at, ":,[");
	if (++at >= doc->len)
		return;
	end = at + (value ? strcspn(doc->s + at, ",]}\n") : 1);
	strbuf__add(&out, doc->s, at);
	strbuf__adds(&out, bit);
	strbuf__add(&out, doc->s + end, doc->len - end);
	strbuf__free(doc);
	*doc = out;
}

/* What is read must be safe to show, whatever it says. */
Test(read, changed_at_random)
{
	static const char *const bits[] = { "null",   "-1",	"0",	"18446744073709551615.0",
					    "1e19",   "[]",	"{}",	"\"\"",
					    "1e308",  "true",	"[[[[", "9223372036854775807",
					    "\"fn\"", "\"x\":", "}",	"-9223372036854775808" };
	struct snapshot *s = synth__new();
	struct strbuf doc = STRBUF_INIT;
	uint32_t seed = 20260101;
	size_t read = 0;

	synth__add_stacks(s);
	synth__add_threads(s);
	render(s, &doc);
	for (int round = 0; round < 3000; round++) {
		struct strbuf odd = STRBUF_INIT;

		strbuf__add(&odd, doc.s, doc.len);
		for (uint32_t n = next(&seed) % 3 + 1; n; n--)
			change(&odd, next(&seed) % odd.len, round % 5,
			       bits[next(&seed) % (sizeof(bits) / sizeof(bits[0]))]);
		read += try(odd.s, odd.len, true);
		strbuf__free(&odd);
	}
	cr_expect(read > 100 && read < 2500, "%zu of 3000 were read: too alike", read);
	strbuf__free(&doc);
	snapshot__free(s);
}

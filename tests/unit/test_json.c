/* SPDX-License-Identifier: BSD-2-Clause */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <jansson.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/strbuf.h"
#include "export/export.h"
#include "export/jsonw.h"
#include "synth.h"

static json_t *parse(const char *text)
{
	json_error_t e;
	json_t *doc = json_loads(text, JSON_REJECT_DUPLICATES, &e);

	cr_assert(doc, "line %d column %d: %s", e.line, e.column, e.text);
	return doc;
}

static json_t *render(const struct snapshot *s)
{
	struct strbuf out = STRBUF_INIT;
	json_t *doc;

	cr_assert_eq(export_json.render(s, &out), 0);
	doc = parse(out.s);
	cr_expect_eq(out.s[out.len - 1], '\n');
	strbuf__free(&out);
	return doc;
}

static json_t *at(json_t *o, const char *key)
{
	json_t *v = json_object_get(o, key);

	cr_assert(v, "no member '%s'", key);
	return v;
}

static json_int_t num(json_t *o, const char *key)
{
	cr_expect(json_is_integer(at(o, key)), "%s is no integer", key);
	return json_integer_value(at(o, key));
}

static const char *text(json_t *o, const char *key)
{
	cr_assert(json_is_string(at(o, key)), "%s is no string", key);
	return json_string_value(at(o, key));
}

Test(json, head_of_the_document)
{
	struct snapshot *s = synth__new();
	json_t *doc = render(s), *target = at(doc, "target"), *overhead = at(doc, "overhead");

	cr_expect_str_eq(text(doc, "schema"), "roletrace.snapshot/1");
	cr_expect_str_eq(text(at(doc, "tool"), "exit_mode"), "sites");
	cr_expect_eq(num(target, "pid"), 4242);
	cr_expect_eq(num(target, "ns_pid"), 7);
	cr_expect_str_eq(text(target, "comm"), "translator_sv2");
	cr_expect(json_is_null(at(target, "ended")));
	cr_expect_eq(num(at(doc, "window"), "duration_ns"), 10000000000);
	cr_expect_str_eq(text(at(doc, "health"), "status"), "degraded");
	cr_expect_eq(json_array_size(at(at(doc, "health"), "reasons")), 1);
	cr_expect_eq(num(at(doc, "lost"), "orphan_exits"), 14);
	cr_expect_eq(num(at(doc, "lost"), "edges_full"), 0, "zeros are listed: they were counted");
	cr_expect_eq(json_real_value(at(overhead, "budget_ratio")), 0.02);
	cr_expect_str_eq(text(json_array_get(at(overhead, "shed"), 0), "name"), synth_names[8]);
	cr_expect_eq(json_array_size(at(doc, "skipped")), 4);
	cr_expect_str_eq(text(json_array_get(at(doc, "edges"), 1), "callee"), synth_names[0]);
	json_decref(doc);

	s->overhead.budget_ratio = -1;
	s->overhead.cpu_ratio = NAN;
	s->target.build_id = NULL;
	s->target.end = END_SIGNAL;
	s->target.end_code = 11;
	doc = render(s);
	cr_expect(json_is_null(at(at(doc, "overhead"), "budget_ratio")));
	cr_expect(json_is_null(at(at(doc, "overhead"), "cpu_ratio")));
	cr_expect(json_is_null(at(at(doc, "target"), "build_id")));
	cr_expect_str_eq(text(at(at(doc, "target"), "ended"), "reason"), "signal");
	cr_expect_eq(num(at(at(doc, "target"), "ended"), "code"), 11);
	json_decref(doc);
	snapshot__free(s);
}

static json_int_t histogram_sum(json_t *h)
{
	json_int_t sum = num(h, "zero_count");
	json_t *c;
	size_t i;

	json_array_foreach(at(h, "counts"), i, c) sum += json_integer_value(c);
	return sum;
}

static void check_function(json_t *row, const struct snapshot_fn *fn)
{
	json_t *h = at(row, "histogram");

	cr_expect_eq(num(row, "calls"), (json_int_t)fn->calls);
	if (fn->coverage == COVERAGE_ENTRY_ONLY)
		return;
	cr_expect_eq(num(row, "calls"),
		     num(row, "returned") + num(row, "unwound") + num(row, "in_flight"));
	cr_expect_eq(histogram_sum(h), num(row, "returned"), "%s", fn->name);
	cr_expect_eq(num(h, "scale"), 4);
	if (!fn->returned) {
		cr_expect(json_is_null(at(row, "p50_ns")));
		cr_expect(json_is_null(at(row, "min_ns")));
		cr_expect_eq(num(row, "sum_ns"), 0, "a sum of nothing is known");
		return;
	}
	cr_expect_eq(num(row, "sum_ns"), (json_int_t)fn->sum_ns);
	cr_expect_leq(num(row, "min_ns"), num(row, "p50_ns"));
	cr_expect_leq(num(row, "p50_ns"), num(row, "p95_ns"));
	cr_expect_leq(num(row, "p95_ns"), num(row, "p99_ns"));
	cr_expect_leq(num(row, "p99_ns"), num(row, "max_ns"));
	/* OpenTelemetry: counts[k] covers (2^((offset+k)/16), 2^((offset+k+1)/16)] */
	cr_expect_leq(exp2((double)num(h, "offset") / 16), (double)fn->min_ns);
	cr_expect_geq(exp2((double)(num(h, "offset") + 1) / 16), (double)fn->min_ns);
	cr_expect_geq(
		exp2((double)(num(h, "offset") + (json_int_t)json_array_size(at(h, "counts"))) /
		     16),
		(double)fn->max_ns);
}

Test(json, functions_hold_their_invariants)
{
	struct snapshot *s = synth__new();
	json_t *doc = render(s), *row;
	size_t i;

	cr_assert_eq(json_array_size(at(doc, "functions")), s->fn_cnt);
	json_array_foreach(at(doc, "functions"), i, row) check_function(row, &s->fns[i]);
	row = json_array_get(at(doc, "functions"), 0);
	cr_expect_str_eq(text(row, "kind"), "fn");
	cr_expect_str_eq(text(row, "file"), "src/lib/sv1/downstream.rs");
	cr_expect_eq(num(row, "line"), 321);
	cr_expect_eq(json_array_size(at(row, "aliases")), 1);
	row = json_array_get(at(doc, "functions"), 1);
	cr_expect_str_eq(text(row, "kind"), "async");
	cr_expect_null(json_object_get(row, "file"));
	json_decref(doc);
	snapshot__free(s);
}

Test(json, what_was_not_measured_is_null)
{
	static const char *const nulls[] = { "returned", "unwound",  "in_flight", "tail_exits",
					     "sum_ns",	 "total_ns", "self_ns",	  "min_ns",
					     "max_ns",	 "mean_ns",  "p50_ns",	  "p95_ns",
					     "p99_ns",	 "share",    "histogram" };
	struct snapshot *s = synth__new();
	json_t *doc = render(s), *row = json_array_get(at(doc, "functions"), 9);

	cr_expect_str_eq(text(row, "coverage"), "entry-only");
	cr_expect_eq(num(row, "calls"), 123456789);
	for (size_t i = 0; i < sizeof(nulls) / sizeof(nulls[0]); i++)
		cr_expect(json_is_null(at(row, nulls[i])), "%s", nulls[i]);
	json_decref(doc);
	snapshot__free(s);
}

Test(json, odd_names_come_out_valid_and_apart)
{
	static const char *const odd[][2] = {
		{ "quote\" back\\slash /", "quote\" back\\slash /" },
		{ "tab\t nl\n esc\x1b del\x7f", "tab\t nl\n esc\x1b del\x7f" },
		{ "\xff", "\xef\xbf\xbd" },
		{ "cut\xe4\xbd", "cut\xef\xbf\xbd" },
		{ "größe計算🦀", "größe計算🦀" },
		{ "", "" },
	};
	struct snapshot *s = synth__new();
	char *five_k = calloc(1, 5001);
	json_t *doc;

	memset(five_k, 'x', 5000);
	memcpy(five_k + 4998, "\xc3\xa9", 2);
	for (size_t i = 0; i < 6; i++)
		s->fns[i].name = odd[i][0];
	s->fns[6].name = five_k;
	s->target.comm = "caf\xc3"; /* 15 bytes of a thread's name end anywhere */
	doc = render(s);
	for (size_t i = 0; i < 6; i++)
		cr_expect_str_eq(text(json_array_get(at(doc, "functions"), i), "name"), odd[i][1]);
	cr_expect_str_eq(text(json_array_get(at(doc, "functions"), 6), "name"), five_k);
	cr_expect_str_eq(text(at(doc, "target"), "comm"), "caf\xef\xbf\xbd");
	json_decref(doc);
	snapshot__free(s);
	free(five_k);
}

Test(json, integers_are_exact_to_2_63_and_never_wrap)
{
	static const uint64_t values[] = { 0, 1, 999999999999, (1ull << 53) + 1, INT64_MAX };
	struct strbuf out = STRBUF_INIT;
	struct jsonw w = { .out = &out };
	json_t *a;

	jsonw__open(&w, '[');
	for (size_t i = 0; i < 5; i++)
		jsonw__uint(&w, values[i]);
	jsonw__uint(&w, UINT64_MAX);
	jsonw__int(&w, INT64_MIN);
	jsonw__real(&w, 0.1);
	jsonw__real(&w, 2);
	jsonw__real(&w, 1e-9);
	jsonw__real(&w, INFINITY);
	jsonw__close(&w, ']');
	a = parse(out.s);
	for (size_t i = 0; i < 5; i++)
		cr_expect_eq(json_integer_value(json_array_get(a, i)), (json_int_t)values[i]);
	cr_expect(fabs(json_real_value(json_array_get(a, 5)) / 0x1p64 - 1) < 1e-14);
	cr_expect_eq(json_integer_value(json_array_get(a, 6)), INT64_MIN);
	cr_expect_eq(json_real_value(json_array_get(a, 7)), 0.1);
	cr_expect(json_is_real(json_array_get(a, 8)));
	cr_expect_eq(json_real_value(json_array_get(a, 9)), 1e-9);
	cr_expect(json_is_null(json_array_get(a, 10)));
	json_decref(a);
	strbuf__free(&out);
}

Test(json, an_empty_snapshot_is_a_document_too)
{
	struct snapshot *s = snapshot__new();
	json_t *doc = render(s);

	cr_expect_eq(json_array_size(at(doc, "functions")), 0);
	cr_expect_str_eq(text(at(doc, "health"), "status"), "ok");
	cr_expect(json_is_null(at(at(doc, "target"), "comm")));
	json_decref(doc);
	snapshot__free(s);
}

static const struct {
	const char *spec, *path; /* path NULL: refused */
	const char *words;	 /* the format, or what the refusal must hold */
	enum flame_kind kind;	 /* 0: none is named */
} specs[] = {
	{ "out.json", "out.json", "json", 0 },
	{ "a/b:c.json", "a/b:c.json", "json", 0 },
	{ "./odd:name.json", "./odd:name.json", "json", 0 },
	{ "json:out", "out", "json", 0 },
	{ "json:-", "-", "json", 0 },
	{ "-", "-", "json", 0 },
	{ "json:/dev/stdout", "/dev/stdout", "json", 0 },
	{ "json:a:b", "a:b", "json", 0 },
	{ "out.csv", "out.csv", "csv", 0 },
	{ "csv:-", "-", "csv", 0 },
	{ "csv:out.json", "out.json", "csv", 0 },
	{ "out.buckets.csv", "out.buckets.csv", "csv-buckets", 0 },
	{ "csv-buckets:out.csv", "out.csv", "csv-buckets", 0 },
	{ "/var/lib/role.prom", "/var/lib/role.prom", "prom", 0 },
	{ "prom:x", "x", "prom", 0 },
	{ "x.folded", "x.folded", "folded", 0 },
	{ "x.pb.gz", "x.pb.gz", "pprof", 0 },
	{ "x.speedscope.json", "x.speedscope.json", "speedscope", 0 },
	{ "html:x.svg", "x.svg", "html", 0 },
	{ "svg-live:x", "x", "svg", FLAME_LIVE },
	{ "html-off-cpu:-", "-", "html", FLAME_OFF_CPU },
	{ "x.off-cpu.folded", "x.off-cpu.folded", "folded", FLAME_OFF_CPU },
	{ "a.b/x.alloc.pb.gz", "a.b/x.alloc.pb.gz", "pprof", FLAME_ALLOC },
	{ "x.calls.speedscope.json", "x.calls.speedscope.json", "speedscope", FLAME_CALLS },
	{ "svg:x.live.svg", "x.live.svg", "svg", 0 }, /* the format was said, and no kind */
	{ "live.svg", "live.svg", "svg", 0 },
	{ "d/live.svg", "d/live.svg", "svg", 0 },
	{ "d/.live.svg", "d/.live.svg", "svg", 0 },
	{ "x.life.svg", "x.life.svg", "svg", 0 },
	{ "x.live.json", "x.live.json", "json", 0 },
	{ "svg-life:x", NULL, "unknown output format 'svg-life'", 0 },
	{ "svg-:x", NULL, "unknown output format 'svg-'", 0 },
	{ "json-live:x", NULL, "unknown output format 'json-live'", 0 },
	{ "x.gz", NULL, "no suffix", 0 },
	{ "xml:out.json", NULL, "unknown output format 'xml'", 0 },
	{ "xml:-", NULL, "(formats: json csv csv-buckets csv-threads prom folded", 0 },
	{ "buckets.csv:x", NULL, "unknown output format 'buckets.csv'", 0 },
	{ "odd:name.json", NULL, "unknown output format 'odd'", 0 },
	{ ":x.json", NULL, "unknown output format ''", 0 },
	{ "JSON:x", NULL, "unknown output format 'JSON'", 0 },
	{ "out.txt", NULL, "no suffix", 0 },
	{ "./-", NULL, "no suffix", 0 },
	{ "", NULL, "no suffix", 0 },
	{ ".json", NULL, "no suffix", 0 },
	{ "json:", NULL, "no file name", 0 },
};

Test(export, specs)
{
	for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
		struct export_dest dest = {};
		struct strbuf reason = STRBUF_INIT;
		int err = export__find(specs[i].spec, &dest, &reason);

		cr_expect_eq(err, specs[i].path ? 0 : -EINVAL, "'%s'", specs[i].spec);
		if (specs[i].path) {
			cr_expect_str_eq(dest.exporter->name, specs[i].words);
			cr_expect_str_eq(dest.path, specs[i].path);
			cr_expect_eq(dest.kind, specs[i].kind ?: FLAME_ANY, "'%s'", specs[i].spec);
		} else {
			cr_expect_null(dest.exporter, "set only on success");
			cr_expect(strstr(reason.s, specs[i].words), "'%s': %s", specs[i].spec,
				  reason.s);
			cr_expect_null(strchr(reason.s, '\n'));
		}
		strbuf__free(&reason);
	}
}

static const struct {
	const char *a, *b;
	bool same;
} places[] = {
	{ "out", "out", true },
	{ "out", "./out", true },
	{ "out", "sub/../out", true },
	{ "out", "link/out", true },
	{ "sub/out", "sub//out", true },
	{ "out", "out2", false },
	{ "out", "sub/out", false },
	{ "there", "./there", true },
	{ "there", "hard", false }, /* each is replaced */
	{ "there", "soft", false },
	{ "nowhere/out", "nowhere/out", true },
	{ "nowhere/out", "nowhere2/out", false },
	{ "-", "-", true },
	{ "-", "out", false },
	{ "-", "/dev/stdout", true },
	{ "/dev/stdout", "/proc/self/fd/1", true },
	{ "/dev/null", "/dev/null", true },
	{ "/dev/null", "/dev/zero", false },
	{ "fifo", "./fifo", true },
};

Test(export, one_place_by_two_names)
{
	char dir[] = "/tmp/roletrace-unit-XXXXXX", command[64];

	cr_assert(mkdtemp(dir));
	cr_assert_eq(chdir(dir), 0);
	cr_assert_eq(mkdir("sub", 0700), 0);
	cr_assert_eq(symlink(".", "link"), 0);
	cr_assert_eq(close(creat("there", 0600)), 0);
	cr_assert_eq(link("there", "hard"), 0);
	cr_assert_eq(symlink("there", "soft"), 0);
	cr_assert_eq(mkfifo("fifo", 0600), 0);
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		struct export_dest a = { &export_json, places[i].a, FLAME_ANY };
		struct export_dest b = { &export_csv, places[i].b, FLAME_ANY };

		cr_expect_eq(export__same_place(&a, &b), places[i].same, "'%s' '%s'", a.path,
			     b.path);
		cr_expect_eq(export__same_place(&b, &a), places[i].same, "'%s' '%s'", b.path,
			     a.path);
	}
	cr_assert_eq(chdir("/"), 0);
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	cr_assert_eq(system(command), 0);
}

Test(export, replaces_a_file_whole_and_leaves_nothing_else)
{
	char dir[] = "/tmp/roletrace-unit-XXXXXX", path[64], glob_path[64];
	struct snapshot *s = synth__new();
	struct export_dest dest = { &export_json, path, FLAME_ANY };
	struct strbuf got = STRBUF_INIT;
	glob_t g;

	cr_assert(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/out.json", dir);
	snprintf(glob_path, sizeof(glob_path), "%s/*", dir);
	cr_assert_eq(export__write(&dest, s), 0);
	s->fn_cnt = 1; /* a shorter one over a longer one */
	cr_assert_eq(export__write(&dest, s), 0);
	s->fn_cnt = SYNTH_FNS;
	cr_assert_eq(fs__read(path, &got), 0);
	json_decref(parse(got.s));
	cr_assert_eq(glob(glob_path, 0, NULL, &g), 0);
	cr_expect_eq(g.gl_pathc, 1);
	globfree(&g);
	unlink(path);
	rmdir(dir);
	cr_expect_eq(export__write(&dest, s), -ENOENT);
	strbuf__free(&got);
	snapshot__free(s);
}

/* A row says what it says as the only one. */
static void check_row(const struct snapshot *doc, size_t i)
{
	struct snapshot alone = *doc;
	json_t *all = render(doc), *one;

	alone.fns += i;
	alone.fn_cnt = 1;
	one = render(&alone);
	cr_expect(json_equal(json_array_get(at(all, "functions"), i),
			     json_array_get(at(one, "functions"), 0)),
		  "row %zu", i);
	json_decref(all);
	json_decref(one);
}

Test(json, rows_with_the_same_figures)
{
	struct snapshot doc = { .window.duration_ns = 10000000000 };
	struct snapshot_fn rows[6] = {};

	doc.fns = rows;
	doc.fn_cnt = 6;
	for (size_t i = 0; i < doc.fn_cnt; i++) {
		rows[i].name = rows[i].symbol = synth_names[i];
		rows[i].crate = "own";
		rows[i].exit = "sites";
		rows[i].line = (uint32_t)i + 1;
		rows[i].observed_ns = doc.window.duration_ns;
		rows[i].price_ns = i < 3 ? 7000 : 2000;
	}
	rows[1].file = "a.rs";
	rows[4].in_flight = rows[4].calls = 1;
	for (size_t i = 0; i < doc.fn_cnt; i++)
		check_row(&doc, i);
}

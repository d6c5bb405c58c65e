/* SPDX-License-Identifier: BSD-2-Clause */
#include <criterion/criterion.h>
#include <errno.h>

#include "base/strbuf.h"
#include "base/utf8.h"
#include "export/export.h"
#include "synth.h"

#define MAX_ROWS 4096
#define MAX_FIELDS 80

/* A reader of RFC 4180, as strict as it is, but for the line ends (LF) and characters beyond it. */
struct csv {
	char *text; /* fields are unquoted in place */
	char *cells[MAX_ROWS][MAX_FIELDS];
	size_t field_cnt[MAX_ROWS], row_cnt;
};

static char *unquote(char *at, char **field)
{
	char *to = ++at;

	for (*field = to; *at; at++) {
		if (*at == '"' && *++at != '"')
			break;
		*to++ = *at;
	}
	cr_assert(*at == ',' || *at == '\n', "text behind a closing quote");
	at[-1] = '\0';
	*to = '\0';
	return at;
}

static char *plain(char *at, char **field)
{
	*field = at;
	at += strcspn(at, ",\n");
	for (char *c = *field; c < at; c++)
		cr_assert(*c != '"' && *c != '\r', "a quote in a field without quotes");
	return at;
}

static struct csv *parse(struct strbuf *doc)
{
	struct csv *csv = calloc(1, sizeof(*csv));
	char *at = csv->text = strbuf__take(doc);

	while (*at) {
		size_t *n = &csv->field_cnt[csv->row_cnt];
		char end;

		do {
			char **field = &csv->cells[csv->row_cnt][(*n)++];

			at = *at == '"' ? unquote(at, field) : plain(at, field);
			end = *at;
			cr_assert(end, "no line end at the end");
			*at++ = '\0';
			cr_assert_lt(*n, (size_t)MAX_FIELDS);
		} while (end == ',');
		cr_assert_lt(++csv->row_cnt, (size_t)MAX_ROWS);
	}
	for (size_t i = 0; i < csv->row_cnt; i++)
		cr_assert_eq(csv->field_cnt[i], csv->field_cnt[0], "row %zu: %zu fields", i,
			     csv->field_cnt[i]);
	return csv;
}

static void csv__free(struct csv *csv)
{
	free(csv->text);
	free(csv);
}

static struct csv *render(const struct exporter *e, const struct snapshot *s)
{
	struct strbuf doc = STRBUF_INIT;
	size_t n;

	cr_assert_eq(e->render(s, &doc), 0);
	for (size_t i = 0; i < doc.len; i += n) {
		bool is_fffd = !strncmp(doc.s + i, "\xef\xbf\xbd", 3);
		uint32_t c = utf8__decode(doc.s + i, doc.len - i, &n);

		cr_assert(c != UTF8_BAD || is_fffd, "not UTF-8");
		cr_assert(c >= 0x20 || c == '\n' || c == '\t' || c == '\r', "control character");
	}
	return parse(&doc);
}

static const char *cell(const struct csv *csv, size_t row, const char *column)
{
	for (size_t i = 0; i < csv->field_cnt[0]; i++)
		if (!strcmp(csv->cells[0][i], column))
			return csv->cells[row][i];
	cr_assert_fail("no column '%s'", column);
	return NULL;
}

static uint64_t num(const struct csv *csv, size_t row, const char *column)
{
	const char *text = cell(csv, row, column);

	cr_assert(*text && !text[strspn(text, "0123456789")], "%s of row %zu is no integer: '%s'",
		  column, row, text);
	return strtoull(text, NULL, 10);
}

/* ---- csv ---- */

Test(csv, one_row_per_function_with_its_figures)
{
	struct snapshot *s = synth__new();
	struct csv *csv;

	s->fns[3].makes_future = true;
	csv = render(&export_csv, s);
	cr_assert_eq(csv->row_cnt, s->fn_cnt + 1);
	for (size_t i = 0; i < s->fn_cnt; i++) {
		const struct snapshot_fn *fn = &s->fns[i];

		cr_expect_eq(num(csv, i + 1, "calls"), fn->calls);
		cr_expect_str_eq(cell(csv, i + 1, "kind"), fn->is_async ? "async" : "fn");
		cr_expect_eq(num(csv, i + 1, "window_ns"), s->window.duration_ns);
		cr_expect_str_eq(cell(csv, i + 1, "comm"), "translator_sv2");
		cr_expect_eq(num(csv, i + 1, "lost"), 14);
		cr_expect_eq(num(csv, i + 1, "makes_future"), i == 3);
		cr_expect_str_eq(cell(csv, i + 1, "health"), "degraded");
		if (fn->coverage == COVERAGE_ENTRY_ONLY)
			continue;
		cr_expect_eq(num(csv, i + 1, "sum_ns"), fn->sum_ns);
		cr_expect_eq(num(csv, i + 1, "in_flight"), fn->in_flight);
		if (fn->returned)
			cr_expect_eq(num(csv, i + 1, "p95_ns"), snapshot__quantile_ns(fn, 0.95));
	}
	cr_expect_str_eq(cell(csv, 1, "file"), "src/lib/sv1/downstream.rs");
	cr_expect_eq(num(csv, 1, "line"), 321);
	csv__free(csv);
	snapshot__free(s);
}

Test(csv, what_was_not_measured_is_empty)
{
	static const char *const timed[] = { "returned", "unwound",  "in_flight",  "tail_exits",
					     "sum_ns",	 "self_ns",  "min_ns",	   "p99_ns",
					     "mean_ns",	 "floor_ns", "share_ratio" };
	static const char *const returned[] = { "min_ns", "max_ns", "mean_ns", "p50_ns", "p99_ns" };
	struct snapshot *s = synth__new();
	struct csv *csv = render(&export_csv, s);

	cr_expect_str_eq(cell(csv, 10, "coverage"), "entry-only");
	for (size_t i = 0; i < sizeof(timed) / sizeof(timed[0]); i++)
		cr_expect_str_eq(cell(csv, 10, timed[i]), "", "%s", timed[i]);
	for (size_t i = 0; i < sizeof(returned) / sizeof(returned[0]); i++)
		cr_expect_str_eq(cell(csv, 6, returned[i]), "", "%s: never returned", returned[i]);
	cr_expect_eq(num(csv, 6, "sum_ns"), 0, "a sum of nothing is known");
	cr_expect_str_eq(cell(csv, 2, "file"), "");
	csv__free(csv);
	snapshot__free(s);
}

Test(csv, x1_odd_names_come_out_valid_and_apart)
{
	static const char *const odd[][2] = {
		{ "quote\" comma, back\\slash", "quote\" comma, back\\slash" },
		{ "two\nlines\r\n", "two\nlines\r\n" },
		{ "\"\"", "\"\"" },
		{ "\xff", "\xef\xbf\xbd" },
		{ "cut\xe8\xa8", "cut\xef\xbf\xbd" },
		{ "計算,哈希", "計算,哈希" },
		{ "esc\x1b[31m\x7f\xc2\x9b", "esc\xef\xbf\xbd[31m\xef\xbf\xbd\xef\xbf\xbd" },
		{ "", "" },
		{ ",", "," },
		{ "=1+1", "=1+1" },
	};
	struct snapshot *s = synth__new();
	struct csv *csv;

	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++)
		s->fns[i].name = s->fns[i].symbol = odd[i][0];
	s->target.comm = "計算計算計\xe7"; /* 16 bytes end anywhere */
	csv = render(&export_csv, s);
	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		cr_expect_str_eq(cell(csv, i + 1, "function"), odd[i][1]);
		cr_expect_str_eq(cell(csv, i + 1, "symbol"), odd[i][1]);
	}
	cr_expect_str_eq(cell(csv, 1, "comm"), "計算計算計\xef\xbf\xbd");
	csv__free(csv);
	snapshot__free(s);
}

Test(csv, estimates_have_columns_of_their_own)
{
	struct snapshot *s = synth__new();
	struct csv *csv = render(&export_csv, s);

	cr_expect_str_eq(cell(csv, 9, "calls_basis"), "lower-bound");
	cr_expect_eq(num(csv, 9, "calls_estimate"), 123456);
	cr_expect_str_eq(cell(csv, 9, "calls_high"), "");
	cr_expect_str_eq(cell(csv, 9, "time_basis"), "estimated");
	cr_expect_eq(num(csv, 9, "total_estimate_ns"), s->fns[8].sampled->times[TIME_TOTAL].value);
	cr_expect_eq(num(csv, 9, "self_high_ns"), s->fns[8].sampled->times[TIME_SELF].high);
	cr_expect_str_eq(cell(csv, 1, "calls_basis"), "exact");
	cr_expect_str_eq(cell(csv, 1, "calls_estimate"), "");
	cr_expect_str_eq(cell(csv, 10, "time_basis"), "", "entries only");
	csv__free(csv);
	snapshot__free(s);
}

Test(csv, integers_are_exact_to_the_end)
{
	struct snapshot *s = synth__new();
	struct csv *csv;

	s->fns[0].calls = UINT64_MAX;
	s->fns[0].sum_ns = (1ull << 53) + 1;
	csv = render(&export_csv, s);
	cr_expect_eq(num(csv, 1, "calls"), UINT64_MAX);
	cr_expect_eq(num(csv, 1, "sum_ns"), (1ull << 53) + 1);
	csv__free(csv);
	snapshot__free(s);
}

Test(csv, nothing_traced_is_a_header)
{
	struct snapshot *s = snapshot__new();
	struct csv *csv = render(&export_csv, s), *buckets = render(&export_csv_buckets, s);

	cr_expect_eq(csv->row_cnt, 1);
	cr_expect_eq(buckets->row_cnt, 1);
	csv__free(csv);
	csv__free(buckets);
	snapshot__free(s);
}

/* ---- csv-buckets ---- */

static uint64_t sum_of_counts(const struct csv *csv, const char *name)
{
	uint64_t sum = 0;

	for (size_t i = 1; i < csv->row_cnt; i++)
		if (!strcmp(cell(csv, i, "function"), name))
			sum += num(csv, i, "count");
	return sum;
}

Test(csv_buckets, counts_add_up_and_bounds_are_exact)
{
	struct snapshot *s = synth__new();
	struct csv *csv;
	size_t row = 1;

	s->fns[0].hist.zero_cnt = 5;
	s->fns[0].hist_lost = 7;
	s->fns[0].returned += 12;
	s->fns[11].name = "plain"; /* to be found again */
	csv = render(&export_csv_buckets, s);
	for (size_t i = 0; i < s->fn_cnt; i++)
		cr_expect_eq(sum_of_counts(csv, s->fns[i].name),
			     snapshot__timed(&s->fns[i]) ? s->fns[i].returned : 0, "%s",
			     s->fns[i].name);

	cr_expect_str_eq(cell(csv, row, "gt_ns"), "");
	cr_expect_str_eq(cell(csv, row, "le_ns"), "0");
	cr_expect_eq(num(csv, row, "count"), 5);
	for (uint32_t p = 0; p < s->fns[0].hist.cnt; p++) {
		if (!s->fns[0].hist.counts[p])
			continue;
		row++;
		cr_expect_eq(strtod(cell(csv, row, "gt_ns"), NULL), hist__lower_ns(p));
		cr_expect_eq(strtod(cell(csv, row, "le_ns"), NULL), hist__upper_ns(p));
		cr_expect_eq(num(csv, row, "count"), s->fns[0].hist.counts[p]);
	}
	row++;
	cr_expect_str_eq(cell(csv, row, "le_ns"), "", "how long these took is not known");
	cr_expect_eq(num(csv, row, "count"), 7);
	csv__free(csv);
	snapshot__free(s);
}

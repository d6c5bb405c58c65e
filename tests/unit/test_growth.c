/* SPDX-License-Identifier: BSD-2-Clause */
/* Growth in the snapshot: written, read back, drawn. */
#include <criterion/criterion.h>
#include <errno.h>

#include "attach/growthsample.h"
#include "base/strbuf.h"
#include "export/export.h"
#include "roletrace/growth.h"
#include "roletrace/sample.h"
#include "snapshot/read.h"
#include "synth.h"
#include "synth_stacks.h"
#include "ui/memory.h"

static const char *const path[] = { "role::main", "role::load" };
static const char *const outside[] = { "[outside traced functions]" };

static struct snapshot *with_growth(bool has_maps)
{
	static const struct snapshot_growth rows[] = {
		{ path, 2, NULL, 300, 8 << 20, 4096, -40960 },
		{ outside, 1, "odd\x1b\"name\xff", 7, 4096, 0, 4096 },
	};
	struct snapshot *s = synth__new();
	struct snapshot_memory *m = s->memory = snapshot_memory__new();

	m->reliable = true;
	m->has_maps = has_maps;
	m->maps_why = has_maps ? NULL : "it does not tell";
	m->page_faults = 307;
	m->map_grown_bytes = (8 << 20) + 4096;
	m->map_shrunk_bytes = 4096;
	m->data_growth_bytes = 4096 - 40960;
	m->growth = calloc(2, sizeof(rows[0]));
	memcpy(m->growth, rows, sizeof(rows));
	m->growth_cnt = 2;
	return s;
}

static struct snapshot *with_stacks(bool has_maps, bool sampled)
{
	struct snapshot *s = with_growth(has_maps);

	s->arena = arena__new();
	synth__profiles(s);
	synth__add_native_growth(s, sampled);
	return s;
}

static void render(const struct exporter *format, const struct snapshot *s, struct strbuf *out)
{
	cr_assert_eq(format->render(s, out), 0);
}

Test(growth, round_trip)
{
	static const struct exporter *const formats[] = { &export_json, &export_prom };

	for (int has_maps = 0; has_maps < 2; has_maps++) {
		struct strbuf doc = STRBUF_INIT, reason = STRBUF_INIT;
		struct snapshot *s = with_growth(has_maps), *again = NULL;

		render(&export_json, s, &doc);
		cr_expect_eq(!!strstr(doc.s, "\"mapped_bytes\":null"), !has_maps);
		cr_expect_eq(!!strstr(doc.s, "\"data_bytes\":-40960"), has_maps);
		cr_assert_eq(snapshot__read(doc.s, doc.len, &again, &reason), 0, "%s", reason.s);
		cr_expect_eq(again->memory->growth_cnt, 2);
		for (size_t i = 0; i < 2; i++) {
			struct strbuf was = STRBUF_INIT, is = STRBUF_INIT;

			render(formats[i], s, &was);
			render(formats[i], again, &is);
			cr_expect_str_eq(is.s, was.s, "%s", formats[i]->name);
			strbuf__free(&was);
			strbuf__free(&is);
		}
		strbuf__free(&doc);
		strbuf__free(&reason);
		snapshot__free(again);
		snapshot__free(s);
	}
}

/* What was not seen is no series of zeros. */
Test(growth, prometheus_has_no_zeros_for_what_was_not_seen)
{
	for (int has_maps = 0; has_maps < 2; has_maps++) {
		struct snapshot *s = with_growth(has_maps);
		struct strbuf page = STRBUF_INIT;

		render(&export_prom, s, &page);
		cr_expect_eq(!!strstr(page.s, "roletrace_memory_map_grown_bytes_total"), has_maps);
		cr_expect_not_null(strstr(page.s, "roletrace_memory_page_faults_total{"));
		strbuf__free(&page);
		snapshot__free(s);
	}
}

static const struct {
	const char *was, *is, *words;
} changes[] = {
	{ "\"growth\":[", "\"growth\":7,\"x\":[", "memory.growth is no list" },
	{ "\"page_faults\":300", "\"page_faults\":-1", "memory.growth[0].page_faults is no count" },
	{ "\"page_faults\":300", "\"page_fault\":300", "memory.growth[0].page_faults is missing" },
	{ "\"data_bytes\":-40960", "\"data_bytes\":0.5", "memory.growth[0].data_bytes is" },
	{ "\"unmapped_bytes\":4096", "\"unmapped_bytes\":\"4096\"",
	  "memory.growth[0].unmapped_bytes is no count" },
	{ "\"thread\":\"odd", "\"thread\":7,\"x\":\"odd", "memory.growth[1].thread is no" },
	{ "\"frames\":[\"[outside traced functions]\"]", "\"frames\":[]",
	  "memory.growth[1].frames is empty" },
};

Test(growth, says_what_is_wrong_and_where)
{
	struct snapshot *s = with_growth(true);

	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		struct strbuf doc = STRBUF_INIT, bad = STRBUF_INIT, reason = STRBUF_INIT;
		struct snapshot *got = NULL;
		const char *at;

		render(&export_json, s, &doc);
		at = strstr(doc.s, changes[i].was);
		cr_assert_not_null(at, "%s", changes[i].was);
		strbuf__add(&bad, doc.s, (size_t)(at - doc.s));
		strbuf__adds(&bad, changes[i].is);
		strbuf__adds(&bad, at + strlen(changes[i].was));
		cr_expect_eq(snapshot__read(bad.s, bad.len, &got, &reason), -EINVAL, "%s",
			     changes[i].is);
		cr_expect(reason.s && strstr(reason.s, changes[i].words), "%s: %s", changes[i].is,
			  reason.s);
		snapshot__free(got);
		strbuf__free(&doc);
		strbuf__free(&bad);
		strbuf__free(&reason);
	}
	snapshot__free(s);
}

Test(growth, two_paths_to_a_function_are_one_row)
{
	static const char *const other[] = { "role::idle", "role::load" };
	struct memory_view view = { .width = 80 };
	struct snapshot *s = with_growth(true);
	struct snapshot_memory *m = s->memory;
	struct strbuf text = STRBUF_INIT;
	const char *row;

	m->growth = realloc(m->growth, 3 * sizeof(*m->growth));
	m->growth[m->growth_cnt++] =
		(struct snapshot_growth){ other, 2, NULL, 12, 1 << 20, 4096, 4096 };
	memory__section(s, &view, &text);
	row = strstr(text.s, "role::load");
	cr_assert_not_null(row);
	cr_expect_null(strstr(row + 1, "role::load"), "%s", text.s);
	cr_expect_not_null(strstr(row, "312   -36.0KB    9.00MB    8.00KB\n"), "%s", text.s);
	strbuf__free(&text);
	snapshot__free(s);
}

Test(growth, section_of_the_report)
{
	struct memory_view view = { .width = 80 };

	for (int has_maps = 0; has_maps < 2; has_maps++) {
		struct snapshot *s = with_growth(has_maps);
		struct strbuf text = STRBUF_INIT;

		memory__section(s, &view, &text);
		cr_expect_not_null(strstr(text.s, "Grows in"));
		cr_expect_eq(!!strstr(text.s, "-40.0KB    8.00MB    4.00KB"), has_maps, "%s",
			     text.s);
		cr_expect_not_null(strstr(text.s, "role::load"));
		cr_expect_not_null(strstr(text.s, "[thread odd"));
		cr_expect_null(strchr(text.s, '\x1b'), "no escape of a thread's name");
		cr_expect_eq(!!strstr(text.s, "it does not tell"), !has_maps);
		strbuf__free(&text);
		snapshot__free(s);
	}
}

/* ---- by native stack ---- */

Test(growth, stacks_round_trip)
{
	for (int way = 0; way < 4; way++) {
		struct snapshot *s = with_stacks(way & 1, way & 2), *again = NULL;
		struct strbuf was = STRBUF_INIT, is = STRBUF_INIT, reason = STRBUF_INIT;

		/* what was not seen is null, and nothing when it is read */
		render(&export_json, s, &was);
		cr_expect_not_null(strstr(was.s, way & 1 ? "\"changes\":3" : "\"changes\":null"));
		cr_assert_eq(snapshot__read(was.s, was.len, &again, &reason), 0, "%s", reason.s);
		cr_expect_eq(again->memory->native_growth_cnt, 2);
		cr_expect_eq(again->memory->native_growth[1].page_faults_error, way & 2 ? 90 : 0);
		cr_expect_eq(again->memory->fault_sample.high_bytes, way & 2 ? 131072 : 1);
		render(&export_json, again, &is);
		cr_expect_str_eq(is.s, was.s);
		strbuf__free(&was);
		strbuf__free(&is);
		strbuf__free(&reason);
		snapshot__free(again);
		snapshot__free(s);
	}
}

static const struct {
	const char *was, *is, *words;
} stack_changes[] = {
	{ "\"native_growth\":[", "\"native_growth\":7,\"x\":[", "memory.native_growth is no list" },
	{ "\"changes\":3", "\"changes\":-3", "memory.native_growth[0].changes is no count" },
	{ "\"samples\":20", "\"sample\":20", "memory.native_growth[1].samples is missing" },
	{ "\"frames\":[0,3,6]", "\"frames\":[0,3,99]",
	  "memory.native_growth[0].frames names a frame that is none" },
	{ "\"native_growth_sample\":{", "\"x\":{", "memory.native_growth_sample is missing" },
	{ "\"native_growth_lost\":{", "\"x\":{", "memory.native_growth_lost is missing" },
};

Test(growth, stacks_say_what_is_wrong_and_where)
{
	struct snapshot *s = with_stacks(true, true);

	for (size_t i = 0; i < sizeof(stack_changes) / sizeof(stack_changes[0]); i++) {
		struct strbuf doc = STRBUF_INIT, bad = STRBUF_INIT, reason = STRBUF_INIT;
		struct snapshot *got = NULL;
		const char *at, *part;

		render(&export_json, s, &doc);
		part = strstr(doc.s, "\"native_growth\"");
		cr_assert_not_null(part);
		at = strstr(part, stack_changes[i].was);
		cr_assert_not_null(at, "%s", stack_changes[i].was);
		strbuf__add(&bad, doc.s, (size_t)(at - doc.s));
		strbuf__adds(&bad, stack_changes[i].is);
		strbuf__adds(&bad, at + strlen(stack_changes[i].was));
		cr_expect_eq(snapshot__read(bad.s, bad.len, &got, &reason), -EINVAL, "%s",
			     stack_changes[i].is);
		cr_expect(reason.s && strstr(reason.s, stack_changes[i].words), "%s: %s",
			  stack_changes[i].is, reason.s);
		snapshot__free(got);
		strbuf__free(&doc);
		strbuf__free(&bad);
		strbuf__free(&reason);
	}
	snapshot__free(s);
}

/* Stacks are shown where traced functions have less than half of it. */
Test(growth, stacks_in_the_report)
{
	struct memory_view view = { .width = 80 };

	for (int told = 0; told < 2; told++) {
		struct snapshot *s = with_stacks(true, true);
		struct strbuf text = STRBUF_INIT;

		if (!told)
			s->memory->growth[1].mapped_bytes = 64 << 20;
		memory__section(s, &view, &text);
		cr_expect_eq(!!strstr(text.s, "Grows by +2.00MB of data, ~3.00MB ± 4.00KB mapped, "
					      "8.00KB unmapped in\n"),
			     !told, "%s", text.s);
		cr_expect_eq(!!strstr(text.s, "Grows by ~320 ± 90 faults, ~-4.00KB ± 12.0KB of "
					      "data (not followed to its root) in\n"),
			     !told, "%s", text.s);
		strbuf__free(&text);
		snapshot__free(s);
	}
}

/* What a function maps by one call of the system and unmaps by another is one row, net. */
Test(growth, stacks_of_a_function_are_one)
{
	static const int frames[] = { SYNTH_START, SYNTH_SUBMIT, SYNTH_READ };
	struct snapshot *s = with_stacks(true, false);
	struct memory_view view = { .width = 80 };
	struct snapshot_memory *m = s->memory;
	struct strbuf text = STRBUF_INIT;

	m->growth[1].mapped_bytes = 64 << 20;
	for (size_t i = 0; i < 2; i++) {
		m->native_growth[i] =
			(struct snapshot_growth_stack){ .first = (uint32_t)m->native_refs.cnt,
							.depth = i ? 3 : 2,
							.mapped_bytes = i ? 0 : 3 << 20,
							.unmapped_bytes = i ? 2 << 20 : 0,
							.data_bytes =
								i ? -2 * (1 << 20) : 3 << 20 };
		for (size_t at = 0; at < m->native_growth[i].depth; at++)
			*vec__push(&m->native_refs) =
				profiles__frame(s->profiles, &synth_frames[frames[at]]);
	}
	memory__section(s, &view, &text);
	cr_expect(strstr(text.s, "Grows by +1.00MB of data, 3.00MB mapped, 2.00MB unmapped in\n"),
		  "%s", text.s);
	cr_expect(!strstr(text.s, "Grows by -"), "%s", text.s);
	strbuf__free(&text);
	snapshot__free(s);
}

/* What is in the sample stands for the interval, or for itself. */
Test(growth, weights_are_unbiased)
{
	for (rt_u32 shift = 0; shift <= RT_GROWTH_MOST_SHIFT; shift++)
		for (rt_u64 pages = 1; pages < 1u << 20; pages = pages * 3 + 1) {
			rt_u64 bytes = pages << RT_GROWTH_PAGE_BITS, stands_for;
			rt_u32 threshold = rt_sample_threshold(bytes, shift);

			cr_assert(threshold);
			stands_for = rt_sample_bytes(bytes, rt_sample_weight(threshold)) >>
				     RT_SAMPLE_BYTES_BITS;
			if (bytes >= 1ull << shift)
				cr_expect(threshold == RT_SAMPLE_ALWAYS && stands_for == bytes);
			else
				cr_expect(stands_for >= (1ull << shift) - 1 - (bytes >> 16) &&
						  stands_for <= (1ull << shift) + (bytes >> 16),
					  "%llu of %u: %llu", (unsigned long long)bytes, shift,
					  (unsigned long long)stands_for);
		}
}

Test(growth, more_stacks_again_when_it_is_calm)
{
	struct growthsample s;
	uint32_t shift = 20;
	int looks = 0;

	growthsample__init(&s, 100000); /* rounded down */
	cr_expect_eq(growthsample__bytes(s.base), 65536);
	for (int i = 0; i < 100; i++) /* at the quota it stays */
		cr_expect_eq(growthsample__look(&s, shift, 0.9), 20);
	for (; shift != s.base && looks < 100; looks++)
		shift = growthsample__look(&s, shift, 0.1);
	cr_expect(looks >= 4 && looks <= 40, "after %d looks", looks);
	cr_expect_eq(growthsample__look(&s, shift, 0), s.base);
	cr_expect_eq(growthsample__bytes(s.high), 1 << 20, "what it was is remembered");
	cr_expect_eq(growthsample__bytes(s.low), 65536);
	/* below a page all are one */
	growthsample__init(&s, 1);
	for (looks = 0, shift = 13; shift && looks < 10; looks++)
		shift = growthsample__look(&s, shift, 0);
	cr_expect_eq(shift, 0);
	cr_expect_eq(growthsample__bytes(12), 1);
}

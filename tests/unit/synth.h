/* SPDX-License-Identifier: BSD-2-Clause */
/* A made-up snapshot of a role for the suites of snapshot/, export/ and ui/, fed call by call. */
#ifndef TESTS_UNIT_SYNTH_H
#define TESTS_UNIT_SYNTH_H

#include <stdlib.h>
#include <string.h>

#include "roletrace/hist.h"
#include "snapshot/snapshot.h"

#define SYNTH_FNS 14u

/* One returned call of ns, as the BPF programs count it. */
static inline void synth__call(struct snapshot_fn *fn, uint64_t ns)
{
	static const rt_u64 bounds[] = RT_HIST_BOUNDS;

	if (!fn->hist.counts) {
		fn->hist.counts = calloc(RT_HIST_BUCKETS + 1, sizeof(uint64_t));
		fn->hist.cnt = RT_HIST_BUCKETS + 1;
	}
	if (ns)
		fn->hist.counts[rt_hist_place(ns, bounds)]++;
	else
		fn->hist.zero_cnt++;
	if (!fn->returned || ns < fn->min_ns)
		fn->min_ns = ns;
	if (ns > fn->max_ns)
		fn->max_ns = ns;
	fn->calls++;
	fn->returned++;
	fn->sum_ns += ns;
	fn->total_ns += ns;
	fn->self_ns += ns / 2;
}

/* cnt calls spread around ns: half of it to nearly twice, some 20 times as long. */
static inline void synth__calls(struct snapshot_fn *fn, uint64_t ns, unsigned int cnt)
{
	for (unsigned int i = 0; i < cnt; i++)
		synth__call(fn, i % 50 == 49 ? ns * 20 : ns / 2 + ns * (i % 29) / 20);
}

static const char *const synth_names[SYNTH_FNS] = {
	"translator_sv2::sv1::downstream::Downstream::handle_submit",
	"translator_sv2::sv1::sv1_server::sv1_server::Sv1Server::handle_message::{{closure}}",
	"<translator_sv2::utils::ShareId as core::hash::Hash>::hash",
	"translator_sv2::tiny",
	"translator_sv2::error::risky_parse",
	"translator_sv2::config::TranslatorConfig::never_called",
	"translator_sv2::sv2::channel_manager::mining_message_handler::<impl "
	"stratum_apps::stratum_core::handlers_sv2::HandleMiningMessagesFromServerAsync for "
	"translator_sv2::sv2::channel_manager::channel::ChannelManager>::handle_new_block",
	"translator_sv2::sv2::upstream::Upstream::run::{{closure}}",
	"translator_sv2::hot_loop",
	"translator_sv2::entry_only_one",
	"translator_sv2::map_all::<alloc::vec::Vec<translator_sv2::a::Very, "
	"translator_sv2::b::Long>, "
	"fn(u32) -> core::option::Option<u8>>",
	"evil\x1b[31m\xff\xfe\"name\\ with; spaces\nand <odd> \xe2\x82",
	"données::größe::计算::哈希率",
	"main",
};

/* A row that was timed in windows; those of windows are the upper half of its buckets. */
static inline void synth__sampled(struct snapshot_fn *fn)
{
	struct snapshot_sampled *a = fn->sampled = calloc(1, sizeof(*a));

	fn->coverage = COVERAGE_SAMPLED;
	a->mode = "off";
	a->count = BASIS_LOWER_BOUND;
	a->time = BASIS_ESTIMATED;
	a->counted_ns = 1400000000;
	a->calls = (struct snapshot_estimate){ 123456, 111111, UINT64_MAX };
	a->exact_calls = 35000;
	a->extrapolated_calls = 900;
	a->windows = 17;
	a->given_up = 3;
	a->weight = 2.5;
	a->quantiles[0] = (struct snapshot_interval){ 700, 900 };
	a->quantiles[1] = (struct snapshot_interval){ 1500, 17000 };
	a->quantiles[2] = (struct snapshot_interval){ 15000, UINT64_MAX };
	a->hist.first = fn->hist.first + fn->hist.cnt / 2;
	a->hist.cnt = fn->hist.cnt - fn->hist.cnt / 2;
	a->hist.counts = calloc(a->hist.cnt, sizeof(uint64_t));
	memcpy(a->hist.counts, fn->hist.counts + fn->hist.cnt / 2, a->hist.cnt * sizeof(uint64_t));
	for (int i = 0; i < SNAPSHOT_TIMES; i++) {
		uint64_t ns = i == TIME_SELF ? fn->self_ns : fn->sum_ns;

		a->windows_ns[i] = ns / 2;
		a->times[i] = (struct snapshot_estimate){ ns * 3, ns * 2, ns * 5 };
		a->per_call_ns[i] = 900;
	}
}

static inline void synth__functions(struct snapshot *s)
{
	static const char *const aliases[] = { "_ZN14translator_sv25alias17h0123456789abcdefE" };

	s->fns = calloc(SYNTH_FNS, sizeof(*s->fns));
	s->fn_cnt = SYNTH_FNS;
	for (unsigned int i = 0; i < SYNTH_FNS; i++) {
		struct snapshot_fn *fn = &s->fns[i];

		fn->name = synth_names[i];
		fn->symbol = synth_names[i];
		fn->crate = "translator_sv2";
		fn->exit = "sites";
		fn->sites = 1;
		fn->observed_ns = s->window.duration_ns;
		fn->floor_ns = 1480;
		fn->is_async = strstr(fn->name, "{{closure}}") != NULL;
	}
	s->fns[0].file = "src/lib/sv1/downstream.rs";
	s->fns[0].line = 321;
	s->fns[0].aliases = aliases;
	s->fns[0].alias_cnt = 1;
	synth__calls(&s->fns[0], 182000, 4321);
	synth__calls(&s->fns[1], 41000, 12000);
	s->fns[1].in_flight = 2;
	s->fns[1].calls += 2;
	synth__calls(&s->fns[2], 2900, 60000);
	for (int i = 0; i < 100000; i++)
		synth__call(&s->fns[3], 1400 + (uint64_t)(i % 200));
	synth__calls(&s->fns[4], 530000, 40);
	s->fns[4].unwound = 10;
	s->fns[4].calls += 10;
	synth__calls(&s->fns[6], 7300000, 300);
	s->fns[6].tail_exits = 300;
	synth__calls(&s->fns[7], 1200, 5);
	s->fns[7].in_flight = 1;
	s->fns[7].in_flight_stale = 1;
	s->fns[7].calls++;
	synth__calls(&s->fns[8], 800, 70000);
	s->fns[8].floor_ns = 16200;
	s->fns[8].observed_ns = 1300000000;
	synth__sampled(&s->fns[8]);
	s->fns[9].coverage = COVERAGE_ENTRY_ONLY;
	s->fns[9].calls = 123456789;
	synth__calls(&s->fns[10], 95000, 777);
	synth__calls(&s->fns[11], 33000, 12);
	synth__calls(&s->fns[12], 61000, 99);
	s->fns[13].calls = s->fns[13].in_flight = 1;
}

static inline void synth__rest(struct snapshot *s)
{
	s->lost = calloc(3, sizeof(*s->lost));
	s->lost[s->lost_cnt++] = (struct snapshot_lost){ "orphan_exits", 14 };
	s->lost[s->lost_cnt++] = (struct snapshot_lost){ "depth_exceeded", 0 };
	s->lost[s->lost_cnt++] = (struct snapshot_lost){ "edges_full", 0 };
	s->overhead.shed = calloc(1, sizeof(*s->overhead.shed));
	s->overhead.shed_cnt = 1;
	s->overhead.shed_fns = 1;
	s->overhead.shed[0] =
		(struct snapshot_shed){ synth_names[8], "over budget", 1764471597300000000ull,
					"exact",	"sampled",     70000.5,
					0.125 };
	s->edges = calloc(3, sizeof(*s->edges));
	s->edges[s->edge_cnt++] = (struct snapshot_edge){ 6, 0, 2100, 850000000 };
	s->edges[s->edge_cnt++] = (struct snapshot_edge){ 1, 0, 2221, 420000000 };
	s->edges[s->edge_cnt++] = (struct snapshot_edge){ 0, 2, 60000, 230000000 };
	s->skipped = calloc(4, sizeof(*s->skipped));
	for (; s->skip_cnt < 4; s->skip_cnt++)
		s->skipped[s->skip_cnt] = (struct snapshot_skip){
			"translator_sv2::some::module::function_with_a_long_name",
			"its first instruction cannot be probed (lock prefix)"
		};
	s->reasons = calloc(1, sizeof(*s->reasons));
	s->reasons[s->reason_cnt++] = strdup("1 function was taken off to keep to the budget");
}

static inline struct snapshot *synth__new(void)
{
	struct snapshot *s = snapshot__new();

	s->tool.version = "0.1.0";
	s->tool.kernel = "6.18.0";
	s->tool.exit_mode = "sites";
	s->target.pid = 4242;
	s->target.ns_pid = 7;
	s->target.comm = "translator_sv2";
	s->target.exe = "/usr/local/bin/translator_sv2";
	s->target.build_id = "1a2b3c4d5e6f708192a3b4c5d6e7f80911223344";
	s->target.start_time_ns = 1764471000000000000ull;
	s->window.start_unix_ns = 1764471595000000000ull;
	s->window.end_unix_ns = 1764471605000000000ull;
	s->window.duration_ns = 10000000000ull;
	s->window.settled = true;
	s->overhead.hits = 494632;
	s->overhead.ns_per_hit = 812;
	s->overhead.ns_per_hit_low = 700;
	s->overhead.ns_per_hit_high = 1100;
	s->overhead.probes_ratio = 0.0372;
	s->overhead.threads_ratio = 0.002;
	s->overhead.profile_ratio = 0.0009;
	s->overhead.growth_ratio = 0.0001;
	s->overhead.process_ratio = 0.125;
	s->overhead.tool_cpu_ns = 240000000;
	s->overhead.tool_ratio = 0.024;
	s->overhead.corrected_ns = 194632000;
	s->overhead.floor_ns = 1480;
	s->overhead.cpu_ratio = 0.0402;
	s->overhead.budget_ratio = 0.02;
	s->profile = "stratum";
	synth__functions(s);
	synth__rest(s);
	return s;
}

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* Weighted stacks for the made-up snapshot of synth.h. */
#ifndef TESTS_UNIT_SYNTH_STACKS_H
#define TESTS_UNIT_SYNTH_STACKS_H

#include "base/arena.h"
#include "snapshot/profile.h"
#include "snapshot/snapshot.h"

enum { SYNTH_START, SYNTH_WORKER, SYNTH_POLL, SYNTH_SUBMIT, SYNTH_HASH, SYNTH_READ, SYNTH_ODD };

static const struct snapshot_frame synth_frames[] = {
	[SYNTH_START] = { "__clone3", "libc.so.6", FRAME_LIB, false, NULL, 0 },
	[SYNTH_WORKER] = { "tokio::runtime::scheduler::multi_thread::worker::run", "role",
			   FRAME_DEP, false, "src/runtime/worker.rs", 455 },
	[SYNTH_POLL] = { "core::ops::function::FnOnce::call_once", "role", FRAME_STD, true, NULL,
			 0 },
	[SYNTH_SUBMIT] = { "translator_sv2::sv1::downstream::Downstream::handle_submit", "role",
			   FRAME_OWN, false, "src/lib/sv1/downstream.rs", 321 },
	[SYNTH_HASH] = { "<translator_sv2::utils::ShareId as core::hash::Hash>::hash", "role",
			 FRAME_OWN, true, "src/lib/utils.rs", 0 },
	[SYNTH_READ] = { "[kernel]", "[kernel]", FRAME_KERNEL, false, NULL, 0 },
	[SYNTH_ODD] = { "evil\x1b[31m;</script><b> \"&'\\ 計算\n", NULL, FRAME_UNKNOWN, false, NULL,
			0 },
};

static inline uint32_t synth__refs(struct snapshot *s, const char *digits, uint32_t at[16])
{
	uint32_t depth = 0;

	for (; *digits; digits++)
		at[depth++] = profiles__frame(s->profiles, &synth_frames[*digits - '0']);
	return depth;
}

static inline void synth__stack(struct snapshot *s, enum profile_kind kind, const char *digits,
				struct snapshot_stack figures)
{
	uint32_t at[16], depth = synth__refs(s, digits, at);

	if (profiles__stack(s->profiles, kind, at, depth, &figures))
		abort();
	s->profiles->of[kind]->count += kind == PROFILE_CPU ? figures.value : figures.count;
}

static inline void synth__wake(struct snapshot *s, const char *waiter, const char *waker,
			       struct snapshot_wake figures)
{
	uint32_t a[16], b[16], a_cnt = synth__refs(s, waiter, a), b_cnt = synth__refs(s, waker, b);

	if (profiles__wake(s->profiles, a, a_cnt, b, b_cnt, &figures))
		abort();
}

#define FIGURES(...) ((struct snapshot_stack){ __VA_ARGS__ })

static inline void synth__profiles(struct snapshot *s)
{
	s->profiles = profiles__new();
	for (int i = 0; i < PROFILE_CNT; i++)
		s->profiles->of[i] = profile__new();
	s->profiles->of[PROFILE_CPU]->hz = 49;
	synth__stack(s, PROFILE_CPU, "0123", FIGURES(.value = 60));
	synth__stack(s, PROFILE_CPU, "01234", FIGURES(.value = 25, .thread = "worker-1"));
	synth__stack(s, PROFILE_CPU, "016", FIGURES(.value = 10));
	synth__stack(s, PROFILE_CPU, "34", FIGURES(.value = 5, .truncated = "no_rows"));
	synth__stack(s, PROFILE_OFF_CPU, "015", FIGURES(.value = 7000000000, .count = 70));
	synth__stack(s, PROFILE_OFF_CPU, "01235", FIGURES(.value = 90000000, .count = 3));
	s->profiles->of[PROFILE_OFF_CPU]->min_ns = 1000;
	s->profiles->of[PROFILE_OFF_CPU]->older = 2;
	s->profiles->of[PROFILE_OFF_CPU]->stacks.data[0].older = 2;
	synth__wake(s, "015", "0123", (struct snapshot_wake){ .value = 5000000000, .count = 50 });
	synth__wake(s, "015", "",
		    (struct snapshot_wake){ .by = WAKER_PROCESS,
					    .name = "kworker/0:1 \"x\"",
					    .value = 2000000000,
					    .count = 20 });
	synth__wake(s, "01235", "34",
		    (struct snapshot_wake){
			    .value = 50000000, .count = 1, .waker_truncated = "no_rows" });
	synth__wake(s, "01235", "",
		    (struct snapshot_wake){ .by = WAKER_INTERRUPT, .value = 40000000, .count = 2 });
	s->profiles->of[PROFILE_OFF_CPU]->has_wakes = true;
	s->profiles->of[PROFILE_OFF_CPU]->wakes_lost = 3;
	profiles__count(s->profiles, &s->profiles->of[PROFILE_CPU]->lost, "stacks_full", 0);
}

static inline const char *const *synth__names(struct snapshot *s, const char *a, const char *b,
					      const char *c)
{
	const char **names = arena__alloc(s->arena, 3 * sizeof(*names));

	names[0] = a;
	names[1] = b;
	names[2] = c;
	return names;
}

static inline void synth__paths(struct snapshot *s)
{
	const char *a = s->fns[6].name, *b = s->fns[0].name, *c = s->fns[2].name;

	s->paths = calloc(4, sizeof(*s->paths));
	s->paths[s->path_cnt++] = (struct snapshot_path){ synth__names(s, a, NULL, NULL), 1, 300,
							  2200000000, 1350000000 };
	s->paths[s->path_cnt++] = (struct snapshot_path){ synth__names(s, a, b, NULL), 2, 2100,
							  850000000, 620000000 };
	s->paths[s->path_cnt++] =
		(struct snapshot_path){ synth__names(s, a, b, c), 3, 60000, 230000000, 230000000 };
	s->alloc_stacks = calloc(2, sizeof(*s->alloc_stacks));
	s->alloc_stacks[s->alloc_stack_cnt++] =
		(struct snapshot_alloc_stack){ .frames = synth__names(s, a, b, NULL),
					       .depth = 2,
					       .live_bytes = 4096,
					       .live_count = 2,
					       .alloc_bytes = 65536 };
	s->alloc_stacks[s->alloc_stack_cnt++] = (struct snapshot_alloc_stack){
		.frames = synth__names(s, c, NULL, NULL), .depth = 1, .alloc_bytes = 512
	};
}

/* To a snapshot of synth__new. */
static inline void synth__add_stacks(struct snapshot *s)
{
	s->arena = arena__new();
	synth__profiles(s);
	synth__paths(s);
}

/* Rows that samples alone know, behind the others; a probed one gets samples too. */
static inline void synth__add_unprobed(struct snapshot *s)
{
	static const struct snapshot_fn rows[] = {
		{ .name = "translator_sv2::utils::folded",
		  .symbol = "_ZN14translator_sv25utils6folded17h0123456789abcdefE",
		  .crate = "translator_sv2",
		  .module = "role",
		  .origin = FRAME_OWN,
		  .cpu_samples = 40,
		  .cpu_self_samples = 25,
		  .cpu_inlined_samples = 40 },
		{ .name = "tokio::runtime::task::raw::poll",
		  .symbol = "_ZN5tokio",
		  .crate = "tokio",
		  .module = "role",
		  .origin = FRAME_DEP,
		  .file = "src/raw.rs",
		  .line = 12,
		  .cpu_samples = 90,
		  .cpu_self_samples = 1 },
		{ .name = "[libc.so.6+0x28000]",
		  .crate = "",
		  .module = "libc.so.6",
		  .origin = FRAME_LIB,
		  .cpu_samples = 3,
		  .cpu_self_samples = 3 },
	};
	size_t cnt = sizeof(rows) / sizeof(rows[0]);

	s->fns = realloc(s->fns, (s->fn_cnt + cnt) * sizeof(*s->fns));
	for (size_t i = 0; i < cnt; i++) {
		struct snapshot_fn *fn = &s->fns[s->fn_cnt++];

		*fn = rows[i];
		fn->unprobed = true;
		fn->coverage = COVERAGE_SAMPLED;
	}
	s->fns[0].cpu_samples = 60;
	s->fns[0].cpu_self_samples = 30;
}

static inline void synth__native(struct snapshot_memory *m, const char *digits,
				 struct snapshot_native figures)
{
	figures.first = (uint32_t)m->native_refs.cnt;
	for (; *digits; digits++, figures.depth++)
		*vec__push(&m->native_refs) = (uint32_t)(*digits - '0');
	m->native[m->native_cnt++] = figures;
}

/* Sampled blocks and their native stacks, to one with stacks. */
static inline void synth__add_native(struct snapshot *s)
{
	struct snapshot_memory *m = s->memory = snapshot_memory__new();

	m->mode = MEMORY_STACKS;
	m->reliable = m->sampled = true;
	m->source = "glibc";
	m->basis = "usable";
	m->sample_bytes = 4096;
	m->leak_after_s = 10;
	m->leaks = VERDICT_GROWING;
	m->leaks_why = "40 blocks were not remembered";
	m->native = calloc(3, sizeof(*m->native));
	synth__native(m, "0123",
		      (struct snapshot_native){ .stack = 0,
						.live_bytes = 8192,
						.live_count = 3,
						.live_error_bytes = 7000,
						.alloc_bytes = 70000,
						.alloc_count = 20,
						.alloc_error_bytes = 9000,
						.samples = 2,
						.oldest_ns = 5000000000,
						.old_bytes = 4096,
						.old_count = 1,
						.old_error_bytes = 3000,
						.old_slope = 400.5,
						.old_slope_error = 100.25,
						.verdict = VERDICT_GROWING });
	synth__native(m, "34",
		      (struct snapshot_native){ .truncated = "no_unwind_rows",
						.stack = SNAPSHOT_NO_STACK,
						.alloc_bytes = 300,
						.alloc_count = 7 });
	m->native_lost.alloc_bytes = 60;
	m->native_lost.alloc_count = 1;
	m->native_lost_live_bytes = 30;
	m->native_lost_live_count = 1;
}

/* What grew, by native stack, to one with profiles and memory: exact, and from a sample. */
static inline void synth__add_native_growth(struct snapshot *s, bool sampled)
{
	static const uint32_t stacks[][3] = { { 0, 3, 6 }, { 3, 4 } };
	struct snapshot_memory *m = s->memory;

	m->native_growth = calloc(3, sizeof(*m->native_growth));
	m->native_growth_lost = calloc(1, sizeof(*m->native_growth_lost));
	m->map_sample = (struct snapshot_intervals){ 1, sampled ? 1u << 20 : 1 };
	m->fault_sample = (struct snapshot_intervals){ sampled ? 65536 : 1, sampled ? 131072 : 1 };
	m->native_growth[0] = (struct snapshot_growth_stack){ .depth = 3,
							      .changes = 3,
							      .mapped_bytes = 3 << 20,
							      .mapped_error_bytes = sampled * 4096u,
							      .unmapped_bytes = 8192,
							      .data_bytes = 2 << 20,
							      .samples = 2 };
	m->native_growth[1] = (struct snapshot_growth_stack){ .depth = 2,
							      .truncated = "no_unwind_rows",
							      .page_faults = 320,
							      .page_faults_error = sampled * 90u,
							      .data_bytes = -4096,
							      .data_error_bytes = sampled * 12288u,
							      .samples = 20 };
	for (size_t i = 0; i < 2; i++, m->native_growth_cnt++) {
		m->native_growth[i].first = (uint32_t)m->native_refs.cnt;
		for (size_t at = 0; at < m->native_growth[i].depth; at++)
			*vec__push(&m->native_refs) = stacks[i][at];
	}
	m->native_growth_lost->page_faults = 16;
	m->native_growth_lost->mapped_bytes = 4096;
	m->native_growth_lost->samples = 2;
}

#endif

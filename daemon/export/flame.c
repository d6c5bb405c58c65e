/* SPDX-License-Identifier: BSD-2-Clause */
#include "export/flame.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/plural.h"
#include "base/rust_name.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "snapshot/snapshot.h"

const struct flame_info flame_infos[] = {
	[FLAME_CPU] = { "cpu", "CPU time", "samples", NULL, true, true, "--cpu-profile" },
	[FLAME_CALLS] = { "calls", "time in traced calls", "ns", "calls", false, true,
			  "traced functions" },
	[FLAME_OFF_CPU] = { "off-cpu", "time off CPU", "ns", "waits", true, true, "--off-cpu" },
	[FLAME_WAKERS] = { "wakers", "time off CPU, and who ended it", "ns", "waits", true, true,
			   "--wakers" },
	[FLAME_LIVE] = { "live", "live memory", "bytes", "blocks", true, false, "--memory stacks" },
	[FLAME_ALLOC] = { "alloc", "allocated memory", "bytes", NULL, true, true,
			  "--memory stacks" },
	[FLAME_LIVE_CALLS] = { "live-calls", "live memory by traced calls", "bytes", "blocks", true,
			       false, "--memory stacks, with native stacks" },
	[FLAME_ALLOC_CALLS] = { "alloc-calls", "allocated memory by traced calls", "bytes", NULL,
				true, true, "--memory stacks, with native stacks" },
	[FLAME_MAPPED] = { "mapped", "address space mapped", "bytes", NULL, true, true,
			   "--memory growth" },
	[FLAME_FAULTS] = { "faults", "page faults", "faults", NULL, true, true, "--memory growth" },
};

static const enum profile_kind profile_of[FLAME_CNT] = { [FLAME_CPU] = PROFILE_CPU,
							 [FLAME_OFF_CPU] = PROFILE_OFF_CPU,
							 [FLAME_WAKERS] = PROFILE_OFF_CPU };

bool flame__find_kind(const char *word, size_t len, enum flame_kind *out)
{
	for (int i = 0; i < FLAME_CNT; i++)
		if (strlen(flame_infos[i].word) == len && !memcmp(flame_infos[i].word, word, len)) {
			*out = (enum flame_kind)i;
			return true;
		}
	return false;
}

static bool has_native(const struct snapshot *s)
{
	return s->memory && s->memory->native_cnt && s->profiles;
}

unsigned int flame__kinds(const struct snapshot *s)
{
	unsigned int kinds = 0;

	if (s->profiles && s->profiles->of[PROFILE_CPU])
		kinds |= 1u << FLAME_CPU;
	if (s->profiles && s->profiles->of[PROFILE_OFF_CPU])
		kinds |= 1u << FLAME_OFF_CPU;
	if (s->profiles && s->profiles->of[PROFILE_OFF_CPU] &&
	    s->profiles->of[PROFILE_OFF_CPU]->has_wakes)
		kinds |= 1u << FLAME_WAKERS;
	if (s->path_cnt)
		kinds |= 1u << FLAME_CALLS;
	if (s->alloc_stack_cnt || has_native(s))
		kinds |= 1u << FLAME_LIVE | 1u << FLAME_ALLOC;
	if (s->alloc_stack_cnt && has_native(s))
		kinds |= 1u << FLAME_LIVE_CALLS | 1u << FLAME_ALLOC_CALLS;
	if (s->memory && s->memory->native_growth_cnt && s->profiles)
		kinds |= 1u << FLAME_FAULTS | (s->memory->has_maps ? 1u << FLAME_MAPPED : 0);
	return kinds;
}

/* ---- frames ---- */

static int by_name(const void *a, const void *b)
{
	const struct snapshot_fn *const *x = a, *const *y = b;

	return strcmp((*x)->name, (*y)->name);
}

/* The functions of a snapshot by name, to tell what a frame is of which only the name is known. */
struct fn_index {
	const struct snapshot_fn **fns;
	size_t cnt;
};

static bool fn_index__init(struct fn_index *x, const struct snapshot *s)
{
	x->cnt = s->fn_cnt;
	x->fns = malloc((s->fn_cnt + 1) * sizeof(*x->fns));
	for (size_t i = 0; x->fns && i < s->fn_cnt; i++)
		x->fns[i] = &s->fns[i];
	if (x->fns)
		qsort(x->fns, x->cnt, sizeof(*x->fns), by_name);
	return x->fns != NULL;
}

static uint32_t add_name(struct flames *f, const struct fn_index *x, const char *name)
{
	const struct snapshot_fn key = { .name = name }, *key_at = &key;
	const struct snapshot_fn **fn = bsearch(&key_at, x->fns, x->cnt, sizeof(*x->fns), by_name);
	struct snapshot_frame frame = { .name = name, .kind = FRAME_DEP };
	const char *crate;

	if (fn) {
		frame.file = (*fn)->file;
		frame.line = (*fn)->line;
	}
	if (*name == '[')
		frame.kind = FRAME_UNKNOWN;
	else if (rust_name__is_std(name))
		frame.kind = FRAME_STD;
	else if (fn ? !*(*fn)->crate : !rust_name__crate(name, &crate))
		frame.kind = FRAME_LIB;
	else if (fn)
		frame.kind = FRAME_OWN;
	return profiles__frame(f->pool, &frame);
}

static bool add_ref(struct flame_graph *g, uint32_t frame)
{
	uint32_t *ref = frame == UINT32_MAX ? NULL : vec__push(&g->refs);

	if (ref)
		*ref = frame;
	return ref != NULL;
}

/* The frames from refs[first] on are a stack. */
static bool close_stack(struct flame_graph *g, size_t first, uint64_t value, uint64_t count)
{
	struct flame_stack *stack = vec__push(&g->stacks);

	if (!stack)
		return false;
	*stack = (struct flame_stack){ (uint32_t)first, (uint32_t)(g->refs.cnt - first), value,
				       count };
	if (__builtin_add_overflow(g->total, value, &g->total))
		g->total = UINT64_MAX;
	return true;
}

/* ---- a snapshot's stacks ---- */

static bool add_mark(struct flames *f, struct flame_graph *g, const char *name)
{
	struct snapshot_frame frame = { .name = name, .kind = FRAME_UNKNOWN };

	return add_ref(g, profiles__frame(f->pool, &frame));
}

static bool add_truncated(struct flames *f, struct flame_graph *g, const char *why)
{
	char name[128];

	snprintf(name, sizeof(name), "[truncated: %s]", why);
	return add_mark(f, g, name);
}

/* Where the trail was lost stands in the place of the root, so that it is not taken for one. The
 * thread, where threads are told apart, is the root of all. */
static bool add_root(struct flames *f, struct flame_graph *g, const char *thread,
		     const char *truncated, uint32_t depth)
{
	if (thread && !add_mark(f, g, *thread ? thread : "[no name]"))
		return false;
	return truncated ? add_truncated(f, g, truncated) : depth || add_mark(f, g, "[no frames]");
}

static bool add_frame(struct flames *f, struct flame_graph *g, const struct snapshot_profiles *p,
		      uint32_t ref)
{
	return add_ref(g, profiles__frame(f->pool, &p->frames.data[ref]));
}

static bool add_frames(struct flames *f, struct flame_graph *g, const struct snapshot_profiles *p,
		       const uint32_t *refs, uint32_t depth)
{
	for (uint32_t at = 0; at < depth; at++)
		if (!add_frame(f, g, p, refs[at]))
			return false;
	return true;
}

static bool add_profile(struct flames *f, struct flame_graph *g, const struct snapshot_profiles *p,
			const struct snapshot_profile *profile)
{
	for (size_t i = 0; i < profile->stacks.cnt; i++) {
		const struct snapshot_stack *stack = &profile->stacks.data[i];
		size_t first = g->refs.cnt;

		if (!add_root(f, g, stack->thread, stack->truncated, stack->depth) ||
		    !add_frames(f, g, p, profile->refs.data + stack->first, stack->depth) ||
		    !close_stack(g, first, stack->value, stack->count))
			return false;
	}
	return true;
}

/* One that is no thread of the process, or whose stack is not known, by what it is. */
static bool add_foreign(struct flames *f, struct flame_graph *g, const struct snapshot_wake *w)
{
	char name[96];

	if (w->name)
		snprintf(name, sizeof(name), "[process: %s]", w->name);
	else
		snprintf(name, sizeof(name), "[%s]", thread_waker_names[w->by]);
	return w->waker_depth || add_mark(f, g, name);
}

/*
 * The waker hangs head down over the waiter: what it did lies next to the wait that this ended, its
 * root is at the top.
 */
static bool add_wake(struct flames *f, struct flame_graph *g, const struct snapshot_profiles *p,
		     const struct snapshot_profile *profile, const struct snapshot_wake *w)
{
	size_t first = g->refs.cnt;
	bool ok = add_root(f, g, NULL, w->truncated, w->depth) &&
		  add_frames(f, g, p, profile->refs.data + w->first, w->depth);

	ok = ok && add_mark(f, g, "[woken by]");
	for (uint32_t at = w->waker_depth; at-- && ok;)
		ok = add_frame(f, g, p, profile->refs.data[w->waker_first + at]);
	if (w->waker_truncated)
		ok = ok && add_truncated(f, g, w->waker_truncated);
	return ok && add_foreign(f, g, w) && close_stack(g, first, w->value, w->count);
}

static bool add_wakes(struct flames *f, struct flame_graph *g, const struct snapshot_profiles *p)
{
	const struct snapshot_profile *profile = p->of[PROFILE_OFF_CPU];
	bool ok = true;

	for (size_t i = 0; i < profile->wakes.cnt && ok; i++)
		ok = add_wake(f, g, p, profile, &profile->wakes.data[i]);
	return ok;
}

/* What has no stack is part of the whole. */
static bool add_native(struct flames *f, struct flame_graph *g, const struct snapshot *s, bool live)
{
	const struct snapshot_memory *m = s->memory;
	uint64_t lost = live ? m->native_lost_live_bytes : m->native_lost.alloc_bytes;
	size_t first;

	for (size_t i = 0; i < m->native_cnt; i++) {
		const struct snapshot_native *n = &m->native[i];

		first = g->refs.cnt;
		if (!add_root(f, g, NULL, n->truncated, n->depth) ||
		    !add_frames(f, g, s->profiles, m->native_refs.data + n->first, n->depth) ||
		    !close_stack(g, first, live ? n->live_bytes : n->alloc_bytes,
				 live ? n->live_count : 0))
			return false;
	}
	first = g->refs.cnt;
	return !lost || (add_mark(f, g, "[stack not kept]") &&
			 close_stack(g, first, lost, live ? m->native_lost_live_count : 0));
}

/* A stack often has one of the two only. */
static bool add_growth(struct flames *f, struct flame_graph *g, const struct snapshot *s,
		       bool mapped)
{
	const struct snapshot_memory *m = s->memory;
	const struct snapshot_growth_stack *lost = m->native_growth_lost;
	uint64_t value = lost ? (mapped ? lost->mapped_bytes : lost->page_faults) : 0;
	size_t first = g->refs.cnt;

	if (value && (!add_mark(f, g, "[stack not kept]") || !close_stack(g, first, value, 0)))
		return false;
	for (size_t i = 0; i < m->native_growth_cnt; i++) {
		const struct snapshot_growth_stack *n = &m->native_growth[i];

		value = mapped ? n->mapped_bytes : n->page_faults;
		first = g->refs.cnt;
		if (value &&
		    (!add_root(f, g, NULL, n->truncated, n->depth) ||
		     !add_frames(f, g, s->profiles, m->native_refs.data + n->first, n->depth) ||
		     !close_stack(g, first, value, 0)))
			return false;
	}
	return true;
}

static bool add_names(struct flames *f, struct flame_graph *g, const struct fn_index *x,
		      const char *const *names, uint32_t depth, uint64_t value, uint64_t count)
{
	size_t first = g->refs.cnt;

	for (uint32_t i = 0; i < depth; i++)
		if (!add_ref(g, add_name(f, x, names[i])))
			return false;
	return close_stack(g, first, value, count);
}

static bool add_paths(struct flames *f, struct flame_graph *g, const struct snapshot *s,
		      const struct fn_index *x)
{
	bool ok = true;

	for (size_t i = 0; i < s->path_cnt && ok; i++)
		ok = add_names(f, g, x, s->paths[i].frames, s->paths[i].depth, s->paths[i].self_ns,
			       s->paths[i].calls);
	return ok;
}

static bool add_allocs(struct flames *f, struct flame_graph *g, const struct snapshot *s,
		       const struct fn_index *x, bool live)
{
	bool ok = true;

	for (size_t i = 0; i < s->alloc_stack_cnt && ok; i++) {
		const struct snapshot_alloc_stack *a = &s->alloc_stacks[i];

		ok = add_names(f, g, x, a->frames, a->depth, live ? a->live_bytes : a->alloc_bytes,
			       live ? a->live_count : 0);
	}
	return ok;
}

static bool add_kind(struct flames *f, enum flame_kind kind, const struct snapshot *s,
		     const struct fn_index *x, struct flame_graph *g)
{
	switch (kind) {
	case FLAME_CPU:
	case FLAME_OFF_CPU:
		return add_profile(f, g, s->profiles, s->profiles->of[profile_of[kind]]);
	case FLAME_WAKERS:
		return add_wakes(f, g, s->profiles);
	case FLAME_CALLS:
		return add_paths(f, g, s, x);
	case FLAME_LIVE:
	case FLAME_ALLOC:
		if (f->native)
			return add_native(f, g, s, kind == FLAME_LIVE);
		return add_allocs(f, g, s, x, kind == FLAME_LIVE);
	case FLAME_MAPPED:
	case FLAME_FAULTS:
		return add_growth(f, g, s, kind == FLAME_MAPPED);
	default:
		return add_allocs(f, g, s, x, kind == FLAME_LIVE_CALLS);
	}
}

static bool add_snapshot(struct flames *f, const struct snapshot *s, struct flame_graph *graphs)
{
	struct fn_index x = {};
	bool ok = fn_index__init(&x, s);

	for (int kind = 0; kind < FLAME_CNT && ok; kind++)
		if (f->kinds & 1u << kind)
			ok = add_kind(f, (enum flame_kind)kind, s, &x, &graphs[kind]);
	free(x.fns);
	return ok;
}

static const char *keep(struct flames *f, const struct strbuf *text)
{
	return text->oom ? NULL : arena__strdup(f->pool->arena, text->s);
}

static bool name_frames(struct flames *f)
{
	struct strbuf label = STRBUF_INIT, folded = STRBUF_INIT;
	bool ok;

	f->frames = calloc(f->pool->frames.cnt + 1, sizeof(*f->frames));
	ok = f->frames != NULL;
	for (size_t i = 0; i < f->pool->frames.cnt && ok; i++) {
		const struct snapshot_frame *frame = &f->pool->frames.data[i];

		strbuf__reset(&label);
		strbuf__reset(&folded);
		flame_name__label(frame->name, &label);
		flame_name__fold(label.s, &folded);
		f->frames[i] = (struct flame_frame){ keep(f, &label), keep(f, &folded),
						     frame->kind == FRAME_STD ||
							     rust_name__is_runtime(frame->name) };
		ok = f->frames[i].label && f->frames[i].folded;
	}
	strbuf__free(&label);
	strbuf__free(&folded);
	return ok;
}

struct flames *flames__new(const struct flame_ask *ask)
{
	struct flames *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->ask = *ask;
	f->native = has_native(ask->s) && (!ask->old || has_native(ask->old));
	f->kinds = flame__kinds(ask->s) & (ask->old ? flame__kinds(ask->old) : ~0u);
	if (ask->kind == FLAME_ANY)
		f->ask.kind = f->kinds ? (enum flame_kind)__builtin_ctz(f->kinds) : FLAME_CPU;
	f->pool = profiles__new();
	if (!f->pool || !add_snapshot(f, ask->s, f->now) ||
	    (ask->old && !add_snapshot(f, ask->old, f->old)) || !name_frames(f)) {
		flames__free(f);
		errno = ENOMEM;
		return NULL;
	}
	return f;
}

void flames__free(struct flames *f)
{
	if (!f)
		return;
	for (int i = 0; i < FLAME_CNT; i++) {
		vec__free(&f->now[i].refs);
		vec__free(&f->now[i].stacks);
		vec__free(&f->old[i].refs);
		vec__free(&f->old[i].stacks);
	}
	free(f->frames);
	profiles__free(f->pool);
	free(f);
}

/* ---- what is said beside the graph ---- */

double flames__old_scale(const struct flames *f, enum flame_kind kind)
{
	double now = (double)f->ask.s->window.duration_ns, old;

	if (!f->ask.old || !flame_infos[kind].rate)
		return 1;
	old = (double)f->ask.old->window.duration_ns;
	return now > 0 && old > 0 ? now / old : 1;
}

/* what: one of them; verbs: of one, and of more. */
static void note_counts(const struct snapshot_counts *c, const char *what,
			const char *const verbs[2], struct strbuf *out)
{
	for (size_t i = 0; i < c->cnt; i++) {
		if (!c->data[i].count)
			continue;
		strbuf__addf(out, "%llu %s%s %s: ", (unsigned long long)c->data[i].count, what,
			     plural__s(c->data[i].count), verbs[c->data[i].count != 1]);
		utf8__add_printable(out, c->data[i].name);
		strbuf__addc(out, '\n');
	}
}

static void note_profile(const struct snapshot_profile *p, enum flame_kind kind, struct strbuf *out)
{
	static const char *const short_of[] = { "does not reach its thread's start",
						"do not reach their thread's start" };
	static const char *const without[] = { "without a stack", "without a stack" };
	const char *what = kind == FLAME_CPU ? "sample" : "wait";

	if (kind == FLAME_CPU)
		strbuf__addf(out,
			     "Sampled %llu times per second of running: shares are estimates.\n",
			     (unsigned long long)p->hz);
	else if (p->min_ns)
		strbuf__addf(out, "Waits shorter than %llu ns were not looked at.\n",
			     (unsigned long long)p->min_ns);
	if (kind != FLAME_CPU && p->older)
		strbuf__addf(out,
			     "%llu wait%s had begun before the attach: counted from there on.\n",
			     (unsigned long long)p->older, plural__s(p->older));
	note_counts(&p->truncated, what, short_of, out);
	note_counts(&p->lost, what, without, out);
	if (kind == FLAME_WAKERS && p->wakes_lost)
		strbuf__addf(out, "%llu wait%s found no place for who ended %s.\n",
			     (unsigned long long)p->wakes_lost, plural__s(p->wakes_lost),
			     plural__verb(p->wakes_lost, "it", "them"));
}

static void note_memory(const struct flames *f, enum flame_kind kind, struct strbuf *out)
{
	const struct snapshot_memory *m = f->ask.s->memory;
	bool native = f->native && (kind == FLAME_LIVE || kind == FLAME_ALLOC);

	if (!m)
		return;
	if (native && m->sample_bytes > 1)
		strbuf__addf(out,
			     "Estimated from a sample of the blocks, one of about %llu bytes.\n",
			     (unsigned long long)m->sample_bytes);
	else if (!native && m->sampled && (kind == FLAME_LIVE || kind == FLAME_LIVE_CALLS))
		strbuf__adds(out, "Estimated from a sample of the blocks.\n");
	if (native && (m->native_lost.alloc_bytes || m->native_lost_live_bytes))
		strbuf__adds(out, "Some stacks were not kept: [stack not kept].\n");
}

static void note_growth(const struct snapshot_memory *m, enum flame_kind kind, struct strbuf *out)
{
	const struct snapshot_intervals *i =
		kind == FLAME_MAPPED ? &m->map_sample : &m->fault_sample;
	const struct snapshot_growth_stack *lost = m->native_growth_lost;

	if (i->high_bytes > 1)
		strbuf__addf(out, "Estimated from a sample, one of %llu to %llu bytes.\n",
			     (unsigned long long)i->low_bytes, (unsigned long long)i->high_bytes);
	if (lost && (kind == FLAME_MAPPED ? lost->mapped_bytes : lost->page_faults))
		strbuf__adds(out, "Some stacks were not kept: [stack not kept].\n");
}

static void note_old(const struct flames *f, enum flame_kind kind, struct strbuf *out)
{
	double scale = flames__old_scale(f, kind);

	if (fabs(scale - 1) > 1e-6)
		strbuf__addf(out,
			     "The windows are %.3g s (old) and %.3g s: old figures are multiplied "
			     "by %.4g.\n",
			     (double)f->ask.old->window.duration_ns / 1e9,
			     (double)f->ask.s->window.duration_ns / 1e9, scale);
}

static void note_calls(const struct snapshot *s, struct strbuf *out)
{
	size_t in_part = 0;

	for (size_t i = 0; i < s->fn_cnt; i++)
		in_part += snapshot__in_part(&s->fns[i]);
	strbuf__addf(out,
		     "%s call of the traced functions; what is not traced is part of its caller.\n",
		     in_part ? "Not every" : "Every");
	if (in_part)
		strbuf__addf(
			out,
			"Of %zu function%s only the timed calls are here: not all were, to keep "
			"to the budget.\n",
			in_part, in_part == 1 ? "" : "s");
}

void flames__notes(const struct flames *f, enum flame_kind kind, struct strbuf *out)
{
	const struct snapshot *s = f->ask.s;

	if (!(f->kinds & 1u << kind)) {
		strbuf__adds(out, "There are no stacks to show: none were recorded.\n");
		return;
	}
	if (kind == FLAME_CPU || kind == FLAME_OFF_CPU || kind == FLAME_WAKERS)
		note_profile(s->profiles->of[profile_of[kind]], kind, out);
	if (kind == FLAME_CALLS)
		note_calls(s, out);
	if (kind >= FLAME_LIVE && kind <= FLAME_ALLOC_CALLS)
		note_memory(f, kind, out);
	if (kind == FLAME_MAPPED || kind == FLAME_FAULTS)
		note_growth(s->memory, kind, out);
	if (f->ask.old)
		note_old(f, kind, out);
	for (size_t i = 0; i < s->reason_cnt; i++) {
		strbuf__adds(out, "Degraded: ");
		utf8__add_printable(out, s->reasons[i]);
		strbuf__addc(out, '\n');
	}
}

void flames__title(const struct flames *f, enum flame_kind kind, struct strbuf *out)
{
	utf8__add_printable(out, f->ask.s->target.comm ?: "?");
	strbuf__addf(out, " (pid %d), %s", f->ask.s->target.pid, flame_infos[kind].title);
	if (f->ask.old)
		strbuf__adds(out, ", difference");
}

static void add_scaled(struct strbuf *out, double value, const char *const *units,
		       const double *factors, size_t cnt)
{
	size_t i = 0;

	while (i + 1 < cnt && value < factors[i])
		i++;
	strbuf__addf(out, "%.3g %s", value / factors[i], units[i]);
}

void flame__add_value(struct strbuf *out, enum flame_kind kind, double value)
{
	static const char *const times[] = { "s", "ms", "µs", "ns" };
	static const double time_factors[] = { 1e9, 1e6, 1e3, 1 };
	static const char *const sizes[] = { "GiB", "MiB", "KiB", "B" };
	static const double size_factors[] = { 1 << 30, 1 << 20, 1 << 10, 1 };

	if (!strcmp(flame_infos[kind].unit, "ns"))
		add_scaled(out, value, times, time_factors, 4);
	else if (!strcmp(flame_infos[kind].unit, "bytes"))
		add_scaled(out, value, sizes, size_factors, 4);
	else
		strbuf__addf(out, "%.0f %s", value, flame_infos[kind].unit);
}

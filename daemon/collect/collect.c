/* SPDX-License-Identifier: BSD-2-Clause */
#include "collect/collect.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "attach/governor.h"
#include "attach/growth.h"
#include "attach/memory.h"
#include "attach/stacks.h"
#include "base/clock.h"
#include "collect/memory.h"
#include "collect/namer.h"
#include "collect/overhead.h"
#include "collect/paths.h"
#include "collect/profile.h"
#include "collect/settle.h"
#include "collect/sampled.h"
#include "collect/threadwatch.h"
#include "collect/waiting.h"
#include "functions.skel.h"

struct collector {
	const struct plan *plan;
	const struct target *target;
	struct tracer *tracer;
	struct object *obj;
	struct settler *settler;
	struct overhead overhead;
	struct threadwatch *watch;	       /* NULL: threads are not watched */
	struct namer *namer;		       /* NULL: nothing has native stacks */
	struct profile_reader *profile_reader; /* NULL: no profiles */
	struct waiting *waiting;	       /* NULL: no native stacks of who waits */
	bool light;
	struct memory_collector *memory;
	struct collector_opts opts;
	uint64_t start_unix_ns, start_mono_ns, end_unix_ns, end_mono_ns; /* end 0: running */
	enum snapshot_end end;
	int end_code;
	uint64_t target_end_unix_ns;
};

static int watch_threads(struct collector *c)
{
	struct threadwatch_opts wo = { .stall_ns = c->opts.stall_ns,
				       .no_progress = c->opts.no_progress };

	if (c->opts.standing) {
		c->waiting = waiting__new(c->opts.standing, c->namer, c->plan, c->target,
					  c->opts.debug_file);
		if (!c->waiting)
			return -errno;
	}
	wo.waiting = c->waiting;
	if (!c->opts.threads)
		return 0;
	c->watch = threadwatch__new(c->opts.threads, c->plan, c->target, c->settler, &wo);
	return c->watch ? 0 : -errno;
}

/* Native stacks of whatever kind have one namer. */
static int set_up_names(struct collector *c)
{
	const struct collector_opts *o = &c->opts;

	if (!o->stacks)
		return 0;
	c->namer = namer__new(c->plan, c->target, stacks__code(o->stacks), o->debug_file);
	if (c->namer && o->profiler)
		c->profile_reader = profile_reader__new(o->profiler, o->stacks, c->namer);
	return c->namer && (c->profile_reader || !o->profiler) ? 0 : -ENOMEM;
}

static int set_up_memory(struct collector *c)
{
	struct memory_collector_opts mo = { .leak_after_s = c->opts.leak_after_s,
					    .stacks = c->opts.stacks,
					    .namer = c->namer };

	c->memory = memory_collector__new(c->plan, c->target, c->tracer, &mo);
	return c->memory ? 0 : -ENOMEM;
}

struct collector *collector__new(const struct plan *plan, const struct target *target,
				 struct tracer *tracer, const struct collector_opts *opts)
{
	struct collector *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->plan = plan;
	c->target = target;
	c->tracer = tracer;
	c->obj = tracer__object(tracer);
	c->opts = *opts;
	c->overhead = (struct overhead){ .target = target,
					 .plan = plan,
					 .tracer = tracer,
					 .threads = opts->threads,
					 .profiler = opts->profiler };
	c->settler = settler__new(c->obj, plan, target);
	if (!c->settler || set_up_names(c) || set_up_memory(c) || watch_threads(c)) {
		int err = errno;

		collector__free(c);
		errno = err;
		return NULL;
	}
	return c;
}

void collector__free(struct collector *c)
{
	if (!c)
		return;
	threadwatch__free(c->watch);
	waiting__free(c->waiting);
	settler__free(c->settler);
	profile_reader__free(c->profile_reader);
	memory_collector__free(c->memory);
	namer__free(c->namer);
	free(c);
}

void collector__start(struct collector *c)
{
	c->start_unix_ns = clock__unix_ns();
	c->start_mono_ns = clock__mono_ns();
	memory_collector__start(c->memory);
	overhead__start(&c->overhead);
	tracer__start(c->tracer);
	if (c->watch)
		threadwatch__start(c->watch, c->start_mono_ns);
	if (c->opts.profiler)
		profiler__start(c->opts.profiler, c->start_mono_ns);
}

void collector__tick(struct collector *c, uint64_t now_ns)
{
	if (c->end_mono_ns)
		return;
	overhead__look(&c->overhead);
	memory_collector__tick(c->memory, now_ns);
}

void collector__stop(struct collector *c)
{
	if (c->end_mono_ns)
		return;
	tracer__hold(c->tracer);
	(void)settler__pass(
		c->settler); /* so that the pass behind the gate can prove frames dead */
	overhead__look(&c->overhead);
	c->end_unix_ns = clock__unix_ns();
	c->end_mono_ns = clock__mono_ns();
	if (c->watch)
		threadwatch__stop(c->watch, c->end_mono_ns);
	if (c->opts.profiler)
		profiler__stop(c->opts.profiler);
	tracer__stop(c->tracer);
}

const struct snapshot_stall *collector__stalls(struct collector *c, uint64_t now_ns, size_t *cnt)
{
	*cnt = 0;
	return c->watch && !c->end_mono_ns ? threadwatch__tick(c->watch, now_ns, cnt) : NULL;
}

void collector__target_ended(struct collector *c)
{
	int status = tracer__exit_status(c->tracer);

	c->target_end_unix_ns = clock__unix_ns();
	if (tracer__exec_seen(c->tracer)) {
		c->end = END_EXEC;
	} else if (WIFSIGNALED(status)) {
		c->end = END_SIGNAL;
		c->end_code = WTERMSIG(status);
	} else {
		c->end = END_EXIT;
		c->end_code = WEXITSTATUS(status);
	}
}

/* ---- functions ---- */

static int fill_hist(const struct object *obj, rt_u32 fn, const struct rt_fn_stats *st,
		     struct snapshot_hist *out)
{
	uint64_t places[RT_HIST_BUCKETS];

	out->zero_cnt = st->zero_cnt;
	if (!st->returned)
		return 0;
	object__fn_hist(obj, fn, places);
	return hist__from_places(places, RT_HIST_BUCKETS, out);
}

static void fill_prices(const struct collector *c, const struct plan_fn *pf,
			struct snapshot_fn *out)
{
	volatile struct rt_prices *p = &c->obj->skel->bss->prices;

	if (c->plan->exit == PLAN_EXIT_URETPROBE) {
		out->floor_ns = p->floor_uret_ns[pf->entry_insn];
		out->price_ns = p->entry_ns[pf->entry_insn] + p->uret_ns;
	} else {
		out->floor_ns = p->floor_ns[pf->entry_insn][pf->exit_insn];
		out->price_ns = p->entry_ns[pf->entry_insn] + p->exit_ns[pf->exit_insn];
	}
}

static uint64_t above_zero(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

static int fill_sampled(const struct collector *c, rt_u32 fn, uint64_t now_ns, struct snapshot *s)
{
	struct snapshot_fn *out = &s->fns[fn];
	struct governor_row row;

	governor__row(tracer__governor(c->tracer), fn, now_ns, &row);
	if (row.always_exact)
		return 0;
	s->overhead.shed_fns++;
	return sampled__fill(&row, out);
}

static int fill_fn(const struct collector *c, rt_u32 fn, const struct prices *prices,
		   struct snapshot *s, uint64_t *cost_ns)
{
	const struct plan_fn *pf = &c->plan->fns[fn];
	struct snapshot_fn *out = &s->fns[fn];
	struct rt_fn_stats st;
	rt_u64 given_up = settler__given_up(c->settler, fn);
	uint64_t hits, now_ns;
	int err;

	object__fn_stats(c->obj, fn, &st);
	*out = (struct snapshot_fn){
		.name = pf->name,
		.symbol = pf->symbol,
		.crate = pf->crate,
		.file = pf->file,
		.line = pf->line,
		.aliases = (const char *const *)pf->aliases,
		.alias_cnt = pf->alias_cnt,
		.sites = pf->addresses,
		.is_async = pf->kind == PLAN_ASYNC,
		.coverage = COVERAGE_EXACT,
		.exit = plan__exit_of(c->plan, pf),
		.observed_ns = s->window.duration_ns,
		.calls = st.calls + st.unsampled,
		.returned = st.returned,
		.unwound = st.unwound + settler__dead(c->settler, fn),
		.in_flight = settler__in_flight(c->settler, fn) + c->obj->confs[fn].ended,
		.in_flight_stale = settler__stale(c->settler, fn),
		.untimed = st.untimed + st.unsampled + given_up,
		.tail_exits = st.tail_exits,
		.sum_ns = st.sum_ns,
		.total_ns = above_zero(st.sum_ns, st.nested_ns),
		.self_ns = above_zero(st.sum_ns, st.inner_ns),
		.min_ns = st.returned ? ~st.min_inv_ns : 0,
		.max_ns = st.max_ns,
		.corrected_ns = st.corrected_ns,
		.clamped = st.clamped,
		.hist_lost = c->obj->confs[fn].hist_lost,
	};
	/* the threads went on while they were looked at: what is not known to have ended is in
	 * flight */
	if (!s->window.settled)
		out->in_flight =
			above_zero(out->calls, out->returned + out->unwound + out->untimed);
	fill_prices(c, pf, out);
	out->cost_ns = governor__cost_at(c->obj, c->plan, prices, fn, &hits);
	*cost_ns += out->cost_ns;
	s->overhead.hits += hits;
	s->overhead.corrected_ns += st.corrected_ns;
	s->overhead.clamped += st.clamped;
	err = fill_hist(c->obj, fn, &st, &out->hist);
	now_ns = c->start_mono_ns + s->window.duration_ns;
	return err ?: fill_sampled(c, fn, now_ns, s);
}

static int fill_fns(const struct collector *c, struct snapshot *s)
{
	struct prices prices = overhead__prices(&c->overhead);
	uint64_t cost_ns = 0, floor = UINT64_MAX;

	s->fn_cnt = c->plan->fn_cnt;
	s->fns = calloc(s->fn_cnt + 1, sizeof(*s->fns));
	if (!s->fns)
		return -ENOMEM;
	for (rt_u32 fn = 0; fn < s->fn_cnt; fn++) {
		int err = fill_fn(c, fn, &prices, s, &cost_ns);

		if (err)
			return err;
		if (s->fns[fn].floor_ns < floor)
			floor = s->fns[fn].floor_ns;
	}
	s->overhead.floor_ns = s->fn_cnt ? floor : 0;
	overhead__fill(&c->overhead, &prices, cost_ns, s);
	s->overhead.budget_ratio = c->opts.budget;
	return 0;
}

/* ---- edges ---- */

static int by_ends(const void *a, const void *b)
{
	const struct snapshot_edge *x = a, *y = b;

	if (x->caller != y->caller)
		return x->caller < y->caller ? -1 : 1;
	return x->callee < y->callee ? -1 : x->callee > y->callee;
}

static int by_total(const void *a, const void *b)
{
	const struct snapshot_edge *x = a, *y = b;

	if (x->total_ns != y->total_ns)
		return x->total_ns < y->total_ns ? 1 : -1;
	return by_ends(a, b);
}

static int fill_edges(const struct collector *c, struct snapshot *s)
{
	size_t used = 0, n = 0;

	for (rt_u32 i = 0; i < c->obj->edge_cnt; i++)
		used += c->obj->edges[i].key != 0;
	s->edges = calloc(used + 1, sizeof(*s->edges));
	if (!s->edges)
		return -ENOMEM;
	for (rt_u32 i = 0; i < c->obj->edge_cnt && n < used; i++) {
		const volatile struct rt_edge *e = &c->obj->edges[i];

		if (e->key)
			s->edges[n++] = (struct snapshot_edge){ .caller = RT_EDGE_CALLER(e->key),
								.callee = RT_EDGE_CALLEE(e->key),
								.calls = e->calls,
								.total_ns = e->total_ns };
	}
	qsort(s->edges, n, sizeof(*s->edges), by_ends);
	used = 0;
	for (size_t i = 0; i < n; i++) {
		if (used && !by_ends(&s->edges[used - 1], &s->edges[i])) {
			s->edges[used - 1].calls += s->edges[i].calls;
			s->edges[used - 1].total_ns += s->edges[i].total_ns;
		} else {
			s->edges[used++] = s->edges[i];
		}
	}
	s->edge_cnt = used;
	qsort(s->edges, used, sizeof(*s->edges), by_total);
	return 0;
}

/* ---- what was lost, refused, shed; health ---- */

static const char *const lost_names[] = RT_LOST_NAMES;
static const char *const memory_lost_names[] = RT_MEM_LOST_NAMES;

/* Losses that make figures of a row incomplete; the others are told, and no fault. */
static bool is_fault(enum rt_lost what)
{
	return what != RT_LOST_ORPHAN_EXITS && what != RT_LOST_OTHER_STACK;
}

/* Events for which the kernel did not run a program (it was running on that CPU already). */
static uint64_t recursion_misses(const struct collector *c)
{
	struct functions_bpf *skel = c->obj->skel;
	const struct bpf_program *progs[] = { skel->progs.site, skel->progs.uret_entry,
					      skel->progs.uret_exit };
	uint64_t n = 0;

	for (size_t i = 0; i < sizeof(progs) / sizeof(progs[0]); i++) {
		struct bpf_prog_info info = {};
		__u32 len = sizeof(info);

		if (!bpf_prog_get_info_by_fd(bpf_program__fd(progs[i]), &info, &len))
			n += info.recursion_misses;
	}
	return n + (tracer__growth(c->tracer) ? growth__missed(tracer__growth(c->tracer)) : 0);
}

/* Calls that were counted and, to keep to the budget, not timed. */
static uint64_t not_sampled(const struct collector *c)
{
	uint64_t n = 0;

	for (rt_u32 fn = 0; fn < c->plan->fn_cnt; fn++) {
		struct rt_fn_stats st;

		object__fn_stats(c->obj, fn, &st);
		n += st.unsampled;
	}
	return n;
}

static int fill_lost(const struct collector *c, struct snapshot *s)
{
	const struct memory *memory = tracer__memory(c->tracer);

	s->lost = calloc(RT_LOST_CNT + RT_MEM_LOST_CNT + 3 + THREADWATCH_LOST, sizeof(*s->lost));
	if (!s->lost)
		return -ENOMEM;
	for (int i = 0; i < RT_LOST_CNT; i++)
		s->lost[s->lost_cnt++] = (struct snapshot_lost){
			.name = lost_names[i],
			.count = *(volatile rt_u64 *)&c->obj->skel->bss->lost[i],
		};
	for (rt_u32 fn = 0; fn < c->plan->fn_cnt; fn++)
		s->lost[RT_LOST_SHED_IN_FLIGHT].count += settler__given_up(c->settler, fn);
	for (int i = 0; i < RT_MEM_LOST_CNT && memory; i++)
		s->lost[s->lost_cnt++] = (struct snapshot_lost){
			.name = memory_lost_names[i],
			.count = memory__lost(memory, (enum rt_mem_lost)i),
		};
	s->lost[s->lost_cnt++] =
		(struct snapshot_lost){ "sites_disarmed", tracer__disarmed(c->tracer) };
	s->lost[s->lost_cnt++] = (struct snapshot_lost){ "programs_skipped", recursion_misses(c) };
	s->lost[s->lost_cnt++] = (struct snapshot_lost){ "not_sampled", not_sampled(c) };
	if (c->watch)
		s->lost_cnt += threadwatch__lost(c->watch, &s->lost[s->lost_cnt]);
	return 0;
}

static int fill_skipped(const struct collector *c, struct snapshot *s)
{
	s->skipped = calloc(c->plan->skip_cnt + c->plan->fn_cnt + 1, sizeof(*s->skipped));
	if (!s->skipped)
		return -ENOMEM;
	for (size_t i = 0; i < c->plan->skip_cnt; i++)
		s->skipped[s->skip_cnt++] =
			(struct snapshot_skip){ c->plan->skipped[i].name,
						plan_refusal_text(c->plan->skipped[i].why) };
	for (rt_u32 fn = 0; fn < c->plan->fn_cnt; fn++)
		if (tracer__refused(c->tracer, fn))
			s->skipped[s->skip_cnt++] =
				(struct snapshot_skip){ c->plan->fns[fn].name,
							plan_refusal_text(PLAN_REFUSED_BY_KERNEL) };
	return 0;
}

static int fill_shed(const struct collector *c, struct snapshot *s)
{
	size_t cnt;
	const struct governor_step *steps = governor__steps(tracer__governor(c->tracer), &cnt);

	s->overhead.shed = calloc(cnt + 1, sizeof(*s->overhead.shed));
	if (!s->overhead.shed)
		return -ENOMEM;
	s->overhead.shed_cnt = cnt;
	for (size_t i = 0; i < cnt; i++)
		s->overhead.shed[i] = (struct snapshot_shed){
			.name = s->fns[steps[i].fn].name,
			.reason = steps[i].to > steps[i].from ? "over budget" : "calm again",
			.unix_ns = steps[i].unix_ns,
			.from = governor_mode_names[steps[i].from],
			.to = governor_mode_names[steps[i].to],
			.calls_per_s = steps[i].calls_per_s,
			.cost_ratio = steps[i].cost_ratio,
		};
	return 0;
}

static int add_reason(struct snapshot *s, const char *what, uint64_t count)
{
	char *text;

	if (!count)
		return 0;
	if (asprintf(&text, "%s: %llu", what, (unsigned long long)count) < 0)
		return -ENOMEM;
	s->reasons[s->reason_cnt++] = text;
	return 0;
}

static int add_text(struct snapshot *s, const char *before, const char *words)
{
	char *text;

	if (asprintf(&text, "%s%s", before, words) < 0)
		return -ENOMEM;
	s->reasons[s->reason_cnt++] = text;
	return 0;
}

/* A debugger took breakpoints away with its own: until they were back calls went by unseen. */
static int fill_gaps(const struct collector *c, struct snapshot *s)
{
	const char *first = NULL;
	size_t cnt = 0;
	char *text;

	for (rt_u32 fn = 0; fn < c->plan->fn_cnt; fn++) {
		if (!tracer__has_gap(c->tracer, fn))
			continue;
		s->fns[fn].coverage = COVERAGE_SAMPLED;
		first = first ?: s->fns[fn].name;
		cnt++;
	}
	if (!cnt)
		return 0;
	if (asprintf(&text,
		     "calls missed in %zu function%s, first '%s': breakpoints overwritten "
		     "(a debugger?)",
		     cnt, cnt == 1 ? "" : "s", first) < 0)
		return -ENOMEM;
	s->reasons[s->reason_cnt++] = text;
	return 0;
}

/* Of a library that never came nothing can have been called. */
static int fill_late(const struct collector *c, struct snapshot *s)
{
	for (size_t i = 0; i < c->plan->object_cnt; i++) {
		uint32_t source = c->plan->objects[i].source;
		char *text;

		if (!source || !c->target->objects[source - 1].late)
			continue;
		if (asprintf(&text, "not mapped by the process so far: '%s'",
			     c->target->objects[source - 1].path) < 0)
			return -ENOMEM;
		s->reasons[s->reason_cnt++] = text;
	}
	return 0;
}

/* Without any probe over the budget. */
static bool is_dear(const struct collector *c, const struct snapshot *s)
{
	return s->overhead.threads_ratio + s->overhead.profile_ratio + s->overhead.growth_ratio >
	       c->opts.budget;
}

static int fill_health(const struct collector *c, struct snapshot *s)
{
	size_t refused = 0;
	int err = 0;

	s->reasons = calloc(s->lost_cnt + c->plan->object_cnt + 7, sizeof(*s->reasons));
	if (!s->reasons)
		return -ENOMEM;
	for (size_t i = 0; i < s->lost_cnt && !err; i++)
		if (strcmp(s->lost[i].name, "memory_orphan_exits") &&
		    (i >= RT_LOST_CNT || is_fault((enum rt_lost)i)))
			err = add_reason(s, s->lost[i].name, s->lost[i].count);
	for (rt_u32 fn = 0; fn < c->plan->fn_cnt; fn++)
		refused += tracer__refused(c->tracer, fn);
	err = err ?: add_reason(s, "functions refused by the kernel", refused);
	err = err ?: add_reason(s, "functions shed over budget", s->overhead.shed_fns);
	if (c->opts.profiler && profiler__wakers_dropped(c->opts.profiler) && !err)
		err = add_text(s, "over budget: ", "who ends waits was not noted all the time");
	if (c->opts.budget >= 0 && !err && is_dear(c, s))
		err = add_text(s, "over budget: ",
			       "what is no probe alone takes more (overhead: threads, profile, "
			       "growth)");
	if (s->memory && !err)
		err = add_reason(s, "live blocks without an owner: --max-blocks was reached",
				 s->memory->unowned_count);
	if (s->memory && s->memory->why && !err)
		err = add_text(s, "memory: ", s->memory->why);
	return err;
}

static void fill_head(const struct collector *c, struct snapshot *s)
{
	s->tool.version = c->opts.version;
	s->tool.kernel = c->opts.kernel;
	s->tool.exit_mode = c->opts.exit_mode;
	s->target.pid = c->target->pid;
	s->target.ns_pid = c->target->ns_pid;
	s->target.comm = c->target->comm;
	s->target.exe = c->target->exe;
	s->target.build_id = c->plan->build_id;
	s->target.start_time_ns = c->target->start_unix_ns;
	s->target.end = c->end;
	s->target.end_code = c->end_code;
	s->target.end_unix_ns = c->target_end_unix_ns;
	s->window.start_unix_ns = c->start_unix_ns;
	s->window.end_unix_ns = c->end_mono_ns ? c->end_unix_ns : clock__unix_ns();
	s->window.duration_ns =
		(c->end_mono_ns ? c->end_mono_ns : clock__mono_ns()) - c->start_mono_ns;
	s->window.settled = c->end_mono_ns != 0;
	s->profile = c->plan->profile;
	s->hint = c->plan->hint;
}

/* What is left of a row whose function has no probes: what samples tell. */
static struct snapshot_fn as_unprobed(const struct collector *c, uint32_t fn,
				      const struct snapshot_fn *row)
{
	const struct plan_fn *pf = &c->plan->fns[fn];

	return (struct snapshot_fn){ .name = row->name,
				     .symbol = row->symbol,
				     .crate = row->crate,
				     .file = row->file,
				     .line = row->line,
				     .coverage = COVERAGE_SAMPLED,
				     .unprobed = true,
				     .origin = FRAME_OWN,
				     .module = c->plan->objects[pf->object].name,
				     .cpu_samples = row->cpu_samples,
				     .cpu_self_samples = row->cpu_self_samples,
				     .cpu_inlined_samples = row->cpu_inlined_samples };
}

/*
 * Rows of functions the kernel refused stand in skipped; they are rows only where samples hit them,
 * behind the others. Edges keep their ends.
 */
static int drop_refused(const struct collector *c, struct snapshot *s)
{
	uint32_t *to = calloc(s->fn_cnt + 1, sizeof(*to)), n = 0;
	struct snapshot_fn *unprobed = calloc(s->fn_cnt + 1, sizeof(*unprobed));
	size_t unprobed_cnt = 0;

	if (!to || !unprobed) {
		free(to);
		free(unprobed);
		return -ENOMEM;
	}
	for (uint32_t fn = 0; fn < s->fn_cnt; fn++) {
		to[fn] = n;
		if (!tracer__refused(c->tracer, fn))
			s->fns[n++] = s->fns[fn];
		else if (s->fns[fn].cpu_samples)
			unprobed[unprobed_cnt++] = as_unprobed(c, fn, &s->fns[fn]);
	}
	for (size_t i = 0; i < s->edge_cnt; i++) {
		s->edges[i].caller = to[s->edges[i].caller];
		s->edges[i].callee = to[s->edges[i].callee];
	}
	memcpy(&s->fns[n], unprobed, unprobed_cnt * sizeof(*unprobed));
	s->fn_cnt = n + unprobed_cnt;
	free(to);
	free(unprobed);
	return 0;
}

void collector__set_light(struct collector *c, bool light)
{
	c->light = light;
}

int collector__snapshot(struct collector *c, struct snapshot **out)
{
	struct snapshot *s = calloc(1, sizeof(*s));
	int err;

	if (!s)
		return -ENOMEM;
	fill_head(c, s);
	err = settler__pass(c->settler);
	/* a process that has ended has no threads to look at: what was open is in the counters */
	if (err == -ESRCH || (err && c->end != END_NOT))
		err = 0;
	/* edges first: a call is booked before its edge, so none shows more than its callee */
	err = err ?: fill_edges(c, s);
	err = err ?: fill_fns(c, s);
	if (c->watch)
		err = err ?: threadwatch__fill(c->watch, s, c->light && !c->end_mono_ns);
	if (c->namer && (!c->light || c->end_mono_ns) && !(s->profiles = profiles__new()))
		err = -ENOMEM;
	if (c->profile_reader && s->profiles)
		err = err
			      ?: profile_reader__fill(c->profile_reader, s,
						      c->end_mono_ns ?: clock__mono_ns(),
						      c->end_mono_ns != 0);
	err = err ?: paths__fill(c->obj, s);
	err = err ?: memory_collector__fill(c->memory, s);
	err = err ?: fill_lost(c, s);
	err = err ?: fill_skipped(c, s);
	err = err ?: fill_shed(c, s);
	err = err ?: fill_health(c, s);
	err = err ?: fill_gaps(c, s);
	err = err ?: fill_late(c, s);
	err = err ?: drop_refused(c, s);
	if (c->profile_reader)
		err = err ?: profile_reader__add_rows(c->profile_reader, s);
	if (err) {
		snapshot__free(s);
		return err;
	}
	*out = s;
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "collect/overhead.h"

#include <math.h>
#include <sys/resource.h>
#include <time.h>

#include "attach/governor.h"
#include "attach/growth.h"
#include "attach/memory.h"
#include "base/clock.h"
#include "functions.skel.h"

static uint64_t of_usage(int who)
{
	struct rusage u;

	if (getrusage(who, &u))
		return 0;
	return (uint64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * NS_PER_SEC +
	       (uint64_t)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1000;
}

void overhead__look(struct overhead *o)
{
	struct timespec t;

	/* a command that is traced is a child too, but is waited for when all is written */
	o->tool_ns = of_usage(RUSAGE_SELF) + of_usage(RUSAGE_CHILDREN);
	o->looked_ns = clock__mono_ns();
	if (!o->has_clock || clock_gettime(o->clock, &t))
		return;
	o->cpu_ns = (uint64_t)t.tv_sec * NS_PER_SEC + (uint64_t)t.tv_nsec;
}

void overhead__start(struct overhead *o)
{
	o->has_clock = !clock_getcpuclockid(o->target->pid, &o->clock);
	overhead__look(o);
	o->begin_cpu_ns = o->cpu_ns;
	o->begin_ns = o->looked_ns;
	o->begin_tool_ns = o->tool_ns;
}

/* Probes of no function: where panics are caught, where jumps begin. */
static uint64_t landings_at(const struct overhead *o, const struct prices *p, uint64_t *hits)
{
	const volatile rt_u64 *cnt = tracer__object(o->tracer)->skel->bss->landings;
	uint64_t ns = 0;

	*hits = 0;
	for (size_t class = 0; class < RT_INSN_CLASSES; class ++) {
		*hits += cnt[class];
		ns += cnt[class] * p->entry_ns[class];
	}
	return ns;
}

static uint64_t probes_at(const struct overhead *o, const struct prices *p, uint64_t *hits)
{
	const struct object *obj = tracer__object(o->tracer);
	const struct memory *memory = tracer__memory(o->tracer);
	uint64_t ns = 0, all = 0, some;

	for (rt_u32 fn = 0; fn < o->plan->fn_cnt; fn++) {
		ns += governor__cost_at(obj, o->plan, p, fn, &some);
		all += some;
	}
	ns += landings_at(o, p, &some);
	all += some;
	if (memory) {
		ns += memory__cost_ns(memory, p, &some);
		all += some;
	}
	*hits = all;
	return ns;
}

struct prices overhead__prices(const struct overhead *o)
{
	const struct object *obj = tracer__object(o->tracer);
	uint64_t hits, cost_ns = probes_at(o, &obj->warm, &hits), used_ns;

	used_ns = o->cpu_ns - o->begin_cpu_ns;
	/* what is not known is taken for cold */
	if (!hits || !o->begin_cpu_ns)
		return obj->cold;
	return prices__between(
		&obj->warm, &obj->cold,
		prices__coldness(((double)used_ns - (double)cost_ns) / (double)hits));
}

static double of_window(const struct snapshot *s, uint64_t ns)
{
	return s->window.duration_ns ? (double)ns / (double)s->window.duration_ns : 0;
}

/* Until the last look: what is done for the last document comes after the window. */
static void fill_tool(const struct overhead *o, struct snapshot *s)
{
	uint64_t took_ns = o->looked_ns - o->begin_ns;

	s->overhead.tool_cpu_ns = o->tool_ns - o->begin_tool_ns;
	s->overhead.tool_ratio = took_ns ? (double)s->overhead.tool_cpu_ns / (double)took_ns : NAN;
}

void overhead__fill(const struct overhead *o, const struct prices *p, uint64_t functions_ns,
		    struct snapshot *s)
{
	const struct object *obj = tracer__object(o->tracer);
	const struct memory *memory = tracer__memory(o->tracer);
	const struct growth *growth = tracer__growth(o->tracer);
	uint64_t hits, ns = functions_ns, used_ns = o->cpu_ns - o->begin_cpu_ns;

	fill_tool(o, s);
	ns += landings_at(o, p, &hits);
	s->overhead.hits += hits;
	if (memory) {
		ns += memory__cost_ns(memory, p, &hits);
		s->overhead.hits += hits;
	}
	s->overhead.probes_ratio = of_window(s, ns);
	if (s->overhead.hits)
		s->overhead.ns_per_hit = ns / s->overhead.hits;
	ns = probes_at(o, &obj->warm, &hits);
	s->overhead.ns_per_hit_low = hits ? ns / hits : 0;
	ns = probes_at(o, &obj->cold, &hits);
	s->overhead.ns_per_hit_high = hits ? ns / hits : 0;
	if (o->threads)
		s->overhead.threads_ratio = of_window(s, threads__spent_ns(o->threads, NULL));
	if (o->profiler)
		s->overhead.profile_ratio = of_window(s, profiler__spent_ns(o->profiler, NULL));
	if (growth)
		s->overhead.growth_ratio = of_window(s, growth__spent_ns(growth, NULL));
	s->overhead.cpu_ratio = s->overhead.probes_ratio + s->overhead.threads_ratio +
				s->overhead.profile_ratio + s->overhead.growth_ratio;
	s->overhead.process_ratio =
		used_ns ? s->overhead.cpu_ratio * (double)s->window.duration_ns / (double)used_ns
			: NAN;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "collect/collect.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "attach/growth.h"
#include "attach/memory.h"
#include "attach/stacks.h"
#include "base/clock.h"
#include "collect/collector.h"
#include "collect/memory.h"
#include "collect/namer.h"
#include "collect/paths.h"
#include "collect/profile.h"
#include "collect/settle.h"
#include "collect/threadwatch.h"
#include "collect/waiting.h"
#include "collect/witness.h"

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

uint64_t collector__next_ns(const struct collector *c)
{
	return memory_collector__next_ns(c->memory);
}

/* Whether shadow stacks and memory may not tell all: making tables takes its time. */
static bool needs_witness(const struct collector *c)
{
	size_t cnt;

	(void)settler__frames(c->settler, &cnt);
	return c->waiting && cnt && (c->plan->unswept || settler__doubts(c->settler));
}

void collector__stop(struct collector *c)
{
	bool witness;

	if (c->end_mono_ns)
		return;
	tracer__hold(c->tracer);
	/* so that the pass behind the gate can prove frames dead */
	witness = !settler__pass(c->settler) && needs_witness(c);
	if (witness)
		witness__look_patiently(c->settler, c->waiting);
	overhead__look(&c->overhead);
	c->end_unix_ns = clock__unix_ns();
	c->end_mono_ns = clock__mono_ns();
	if (c->watch)
		threadwatch__stop(c->watch, c->end_mono_ns);
	if (c->opts.profiler)
		profiler__stop(c->opts.profiler);
	tracer__stop(c->tracer);
	if (witness)
		(void)witness__name(c->settler, c->waiting, c->plan);
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

/* ---- a snapshot ---- */

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
	err = err ?: functions__edges(c, s);
	err = err ?: functions__fill(c, s);
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
	err = err ?: health__fill(c, s);
	err = err ?: functions__drop_refused(c, s);
	err = err ?: snapshot__find_futures(s);
	if (c->profile_reader)
		err = err ?: profile_reader__add_rows(c->profile_reader, s);
	if (err) {
		snapshot__free(s);
		return err;
	}
	*out = s;
	return 0;
}

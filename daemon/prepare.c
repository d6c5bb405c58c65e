/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attach/memory.h"
#include "attach/profiler.h"
#include "attach/stacks.h"
#include "attach/standing.h"
#include "attach/threads.h"
#include "attach/tracer.h"
#include "attach/upkeep.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/version.h"
#include "codes.h"
#include "collect/collect.h"
#include "latecomers.h"
#include "machine.h"
#include "options.h"
#include "outputs.h"
#include "plan/plan.h"
#include "planning.h"
#include "run_parts.h"
#include "target/process.h"
#include "ui/live.h"
#include "ui/report.h"

#define DEFAULT_STALL_NS (3 * NS_PER_SEC)

static void say_notes(const struct plan *plan, const struct target *t)
{
	for (size_t i = 0; i < plan->object_cnt; i++) {
		uint32_t source = plan->objects[i].source;

		if (source && t->objects[source - 1].late)
			log_info("'%s' is not mapped yet: its functions are probed from the moment "
				 "it is",
				 t->objects[source - 1].path);
	}
	for (size_t i = 0; i < plan->note_cnt; i++)
		log_info("%s", plan->notes[i]);
	if (plan->hint)
		log_info("%s", plan->hint);
}

static bool takes_block_stacks(const struct options *o)
{
	return o->memory == OPTION_MEMORY_STACKS && o->sample_bytes;
}

static bool takes_growth_stacks(const struct options *o)
{
	return o->growth_given && o->sample_bytes;
}

/* What can be known of the end before it. */
static void say_too_short(const struct options *o)
{
	if (o->memory == OPTION_MEMORY_STACKS && o->duration_s > 0 &&
	    o->duration_s < 2 * o->leak_after_s)
		log_warn("too short a look to tell leaks: -d %g is less than twice --leak-after, "
			 "%g s",
			 o->duration_s, o->leak_after_s);
}

/* The target is not ours to risk: where it may unwind or switch stacks only on demand. */
static int judge_return_probes(const struct options *o, const struct plan *plan)
{
	if (plan->exit != PLAN_EXIT_URETPROBE || !plan->fn_cnt || !plan->uret_why)
		return CODE_OK;
	if (o->may_kill) {
		log_warn("--exit uretprobe may kill the target: %s", plan->uret_why);
		return CODE_OK;
	}
	log_error("--exit uretprobe is refused, for it may kill the target: %s; without it "
		  "roletrace is safe here (--may-kill-target takes the risk)",
		  plan->uret_why);
	return CODE_NOT_ALLOWED;
}

/* Functions can be traced without. */
static void load_threads(void *arg)
{
	struct run *r = arg;
	char *reason = NULL;
	int err;

	if (r->opts->no_threads || r->threads_tried)
		return;
	r->threads_tried = true;
	err = threads__new(&r->target, &r->threads, &reason);
	if (err)
		log_warn("%s", reason ? reason : strerror(-err));
	free(reason);
}

static int make_plan(struct run *r)
{
	struct jail_meanwhile meanwhile = { load_threads, r };

	if (!r->opts->no_functions || r->opts->memory >= OPTION_MEMORY_LIVE)
		return planning__target(r->opts, &r->machine->mode, &r->target, false, &meanwhile,
					&r->plan);
	r->plan = calloc(1, sizeof(*r->plan));
	if (!r->plan)
		return code__say(CODE_FAILED, NULL, "out of memory");
	r->plan->exit = PLAN_EXIT_SITES;
	return CODE_OK;
}

/* What a copy-up hides: the files below, and a plan of them. */
static bool go_below(struct run *r, const bool *unreached)
{
	bool all = true;

	for (size_t i = 0; i < r->plan->object_cnt && all; i++)
		if (unreached[i])
			all = !target__go_below(&r->target, r->plan->objects[i].source);
	if (!all)
		return false;
	plan__free(r->plan);
	r->plan = NULL;
	return !make_plan(r);
}

/* The second try is on the files below. */
static int attach_tracer(struct run *r, char **reason)
{
	struct tracer_opts to = {
		.mode = r->machine->mode,
		.raw = r->opts->raw,
		.empty = r->opts->empty_programs,
		.rearm_always = r->opts->rearm_always,
		.growth = r->opts->memory >= OPTION_MEMORY_GROWTH,
		.max_blocks = r->opts->max_blocks,
		.sample_bytes = r->opts->sample_bytes,
		.sample_table = r->opts->sample_given,
		.stacks = takes_block_stacks(r->opts) ? r->stacks : NULL,
		.growth_stacks = takes_growth_stacks(r->opts) ? r->stacks : NULL,
		.budget = r->opts->budget,
		.assume_seccomp_kills = r->opts->assume_seccomp_kills,
	};
	int err = -ENXIO;

	for (int try = 0; try < 2 && err == -ENXIO; try++) {
		free(*reason);
		*reason = NULL;
		to.unreached = calloc(r->plan->object_cnt + 1, sizeof(*to.unreached));
		if (!to.unreached)
			return -ENOMEM;
		err = tracer__new(r->plan, &r->target, &to, &r->tracer, reason);
		if (err == -ENXIO && !try && !go_below(r, to.unreached))
			try++;
		free(to.unreached);
	}
	return err;
}

/* What the kernel refused may be a thing that has a name: then that is said. */
static int code_of_attach(const struct run *r, int err, char *reason)
{
	struct machine closer;

	if (err != -ESRCH && !machine__probe(r->opts, true, &closer) && machine__check(&closer)) {
		free(reason);
		return CODE_NOT_ALLOWED;
	}
	return code__say(code__of(err), reason, strerror(-err));
}

static void watch_threads(struct run *r)
{
	char *reason = NULL;
	int err;

	load_threads(r);
	if (!r->threads)
		return;
	err = threads__attach(r->threads, &r->target, tracer__kernel_tgid(r->tracer), &reason);
	if (!err)
		return;
	log_warn("%s", reason ? reason : strerror(-err));
	free(reason);
	threads__free(r->threads);
	r->threads = NULL;
}

static int keep_stacks(struct run *r)
{
	const struct options *o = r->opts;
	struct stacks_opts so = { .places = o->profile_stacks, .by_thread = o->by_thread };
	bool needed = o->cpu_profile_hz || o->off_cpu || takes_block_stacks(o);
	char *reason = NULL;
	int err;

	if (!needed && !takes_growth_stacks(o))
		return CODE_OK;
	err = stacks__new(&r->target, &so, &r->stacks, &reason);
	if (!err || needed)
		return err ? code__say(code__of(err), reason, strerror(-err)) : CODE_OK;
	log_warn("--memory growth has no native stacks: %s", reason ? reason : strerror(-err));
	free(reason);
	return CODE_OK;
}

static int attach_profiler(struct run *r)
{
	const struct options *o = r->opts;
	struct profiler_opts po = {
		.hz = o->cpu_profile_hz,
		.off_cpu = o->off_cpu,
		.wakers = o->wakers,
		.off_cpu_min_ns = o->off_cpu_min_us * 1000,
	};
	char *reason = NULL;
	int err;

	if (r->threads || po.off_cpu || r->plan->fn_cnt)
		r->standing = po.standing =
			standing__new(&r->target, tracer__kernel_tgid(r->tracer), r->stacks);
	if (!po.hz && !po.off_cpu)
		return CODE_OK;
	err = profiler__new(&r->target, tracer__object(r->tracer), r->stacks, &po, &r->profiler,
			    &reason);
	return err ? code__say(code__of(err), reason, strerror(-err)) : CODE_OK;
}

/* Functions and what is mapped already can be traced without. */
static void watch_for_allocators(struct run *r)
{
	const struct memory *memory = tracer__memory(r->tracer);

	if (!memory || memory__why(memory))
		return;
	r->latecomers = latecomers__new(r->opts, &r->machine->mode, &r->target, r->plan, r->tracer);
	if (!r->latecomers)
		log_warn("cannot watch for allocators that are mapped later: %s", strerror(errno));
}

static int attach(struct run *r)
{
	struct collector_opts co = {
		.version = version__number,
		.kernel = r->machine->features.kernel,
		.exit_mode = plan_exit_text(r->plan->exit),
		.leak_after_s = r->opts->leak_after_s,
		.budget = r->opts->budget,
		.stall_ns = r->opts->stall_s > 0 ? (uint64_t)llround(r->opts->stall_s * 1e9)
						 : DEFAULT_STALL_NS,
		.no_progress = r->opts->stall_s > 0,
	};
	char *reason = NULL;
	int err;

	if (r->plan->exit == PLAN_EXIT_URETPROBE && !r->plan->uret_why)
		log_warn("--exit uretprobe: a panic that unwinds through a traced function will "
			 "kill the target");
	err = keep_stacks(r);
	if (err)
		return err;
	err = attach_tracer(r, &reason);
	if (err)
		return code_of_attach(r, err, reason);
	watch_threads(r);
	co.threads = r->threads;
	err = attach_profiler(r);
	if (err)
		return err;
	co.profiler = r->profiler;
	co.stacks = r->stacks;
	co.standing = r->standing;
	co.debug_file = r->opts->debug_file;
	r->collector = collector__new(r->plan, &r->target, r->tracer, &co);
	if (!r->collector)
		return code__say(CODE_FAILED, NULL, strerror(errno));
	r->upkeep = (struct upkeep){ .tracer = r->tracer,
				     .threads = r->threads,
				     .profiler = r->profiler,
				     .budget = r->opts->budget };
	watch_for_allocators(r);
	return CODE_OK;
}

int run__prepare(struct run *r, int pid)
{
	struct report_opts ro = outputs__report_opts(r->opts);
	char *reason = NULL;
	int err = target__open(pid, &r->target, &reason), code;

	if (err)
		return code__say(code__of(err), reason, strerror(-err));
	r->target_open = true;
	r->live = live__new(&ro);
	if (!r->live)
		return code__say(CODE_FAILED, NULL, "out of memory");
	if (isatty(STDERR_FILENO))
		log__set_before(run__clear_screen, r);
	code = outputs__open_run(&r->outputs, r->opts, r->target.comm, pid);
	code = code ?: make_plan(r);
	code = code ?: judge_return_probes(r->opts, r->plan);
	if (code)
		return code;
	say_notes(r->plan, &r->target);
	say_too_short(r->opts);
	return attach(r);
}

void run__let_go(struct run *r)
{
	latecomers__free(r->latecomers);
	collector__free(r->collector);
	threads__free(r->threads);
	profiler__free(r->profiler);
	standing__free(r->standing);
	tracer__free(r->tracer);
	stacks__free(r->stacks);
	r->latecomers = NULL;
	r->collector = NULL;
	r->threads = NULL;
	r->profiler = NULL;
	r->standing = NULL;
	r->tracer = NULL;
	r->stacks = NULL;
}

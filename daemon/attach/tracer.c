/* SPDX-License-Identifier: BSD-2-Clause */
#include "attach/tracer.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attach/calibrate.h"
#include "attach/filtered.h"
#include "attach/growth.h"
#include "attach/hands.h"
#include "attach/links.h"
#include "attach/memory.h"
#include "attach/verify.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/log.h"
#include "functions.skel.h"

#define VERIFY_INTERVAL_NS (10 * NS_PER_SEC)

struct tracer {
	const struct plan *plan;
	const struct target *target;
	struct object obj;
	struct links *links;
	struct memory *memory;	 /* NULL: not traced */
	struct growth *growth;	 /* NULL: --memory off */
	double budget, reserved; /* of a CPU; reserved: for what is no probe */
	bool empty;		 /* for the benchmarks: memory programs leave at their gate */
	uint64_t memory_look_ns, memory_cost_ns; /* of the last look */
	unsigned int memory_over;		 /* looks in a row */
	struct bpf_link *life[2];		 /* thread exits, exec */
	struct hands_pile to_close;		 /* probe links to close at the end */
	struct governor *governor;
	const char **paths; /* that open the files, by object of the plan */
	bool *gaps;	    /* by function: a probe was found overwritten */
	size_t disarmed;
	bool rearm_always;
	char exe_by_fd[32];
	bool leader_followed; /* what its exit means has been seen to */
	uint64_t next_verify_ns;
};

static int attach_life(struct tracer *t, char **reason)
{
	const struct bpf_program *progs[] = { t->obj.skel->progs.thread_exit,
					      t->obj.skel->progs.process_exec };

	for (size_t i = 0; i < sizeof(progs) / sizeof(progs[0]); i++) {
		struct bpf_link *link = bpf_program__attach(progs[i]);

		if (!link)
			return fail(reason, -errno, "cannot attach to '%s': %s",
				    bpf_program__name(progs[i]), strerror(errno));
		t->life[i] = link;
	}
	return 0;
}

/* NULL: the executable. */
static const struct target_object *library(const struct tracer *t, rt_u32 object)
{
	uint32_t source = t->plan->objects[object].source;

	return source ? &t->target->objects[source - 1] : NULL;
}

/* One line about the first file whose probes are nowhere in memory. */
static int check_reach(const struct tracer *t, const bool *unreached, char **reason)
{
	for (rt_u32 object = 0; object < t->plan->object_cnt; object++) {
		const struct target_object *lib = library(t, object);

		if (!unreached[object] || (lib && lib->late))
			continue;
		return fail(reason, -ENXIO,
			    "the probes do not reach the memory of process %d: what it runs is not "
			    "the file '%s' that can be opened (an overlay copy-up?), or that is no "
			    "longer mapped",
			    t->target->pid, lib ? lib->path : t->target->exe);
	}
	return 0;
}

/* Sites must be in the very memory the target runs: attaching alone proves nothing. */
static int verify_first(struct tracer *t, bool *unreached, char **reason)
{
	struct verify_result res = { .unreached = unreached, .gaps = t->gaps };
	int err;

	err = verify__sites(t->target, t->plan, t->links, &res);
	if (err && !target__alive(t->target))
		return fail(reason, -ESRCH, "process %d ended while attaching", t->target->pid);
	if (err)
		return fail(reason, err, "cannot read the target's memory to verify the probes: %s",
			    strerror(-err));
	err = check_reach(t, unreached, reason);
	if (err)
		return err;
	if (res.disarmed)
		log_warn("attach: %zu of %zu probes are not in the target's memory, first in '%s'",
			 res.disarmed, res.armed + res.disarmed, t->plan->fns[res.first_fn].name);
	t->disarmed = res.disarmed;
	return 0;
}

static enum links_programs programs_for(bool uret, bool empty)
{
	if (uret)
		return empty ? LINKS_EMPTY_URETPROBE : LINKS_URETPROBE;
	return empty ? LINKS_EMPTY_SITES : LINKS_SITES;
}

/* Where the kernel is to find the files of the plan. */
static int find_paths(struct tracer *t, char **reason)
{
	t->paths = calloc(t->plan->object_cnt + 1, sizeof(*t->paths));
	if (!t->paths)
		return fail(reason, -ENOMEM, "out of memory");
	t->paths[0] = t->target->exe_path;
	for (size_t i = 1; i < t->plan->object_cnt; i++) {
		uint32_t source = t->plan->objects[i].source;

		if (!source || source > t->target->object_cnt)
			return fail(reason, -EINVAL, "the plan names a file that is not mapped");
		t->paths[i] = t->target->objects[source - 1].open_path;
	}
	/* a library is mapped by every process: probes without a pid would stop them all */
	if (t->plan->object_cnt > 1 && t->target->leader_gone)
		return fail(reason, -ENOTSUP,
			    "the main thread of process %d has exited: its libraries cannot be "
			    "probed without probing them in every process",
			    t->target->pid);
	return 0;
}

static int arm(struct tracer *t, const struct links_opts *lo, const struct tracer_opts *opts)
{
	int err = links__new(&t->obj, t->plan, lo, &t->links);

	if (err)
		return err;
	t->governor = governor__new(t->plan, &t->obj, t->links, t->target->pid,
				    opts->empty ? -1 : opts->budget);
	return t->governor ? governor__arm(t->governor) : -ENOMEM;
}

static bool traces_allocators(const struct tracer *t)
{
	return t->plan->memory && !t->plan->memory_why;
}

/* Only Rust's shims do without return probes. */
static bool returns_kill(struct tracer *t, const struct tracer_opts *opts)
{
	char *why = NULL;
	int err = 0;

	for (size_t i = 0; i < t->plan->allocator_cnt && traces_allocators(t) && !err; i++)
		if (t->plan->allocators[i].chosen && !t->plan->allocators[i].rust)
			err = filtered__check(&t->obj, t->target, opts->assume_seccomp_kills,
					      &t->to_close, &why);
	free(why);
	return err != 0;
}

static int set_up_memory(struct tracer *t, const struct tracer_opts *opts, rt_u32 tgid,
			 char **reason)
{
	const struct attach_mode *mode = &t->obj.mode;
	struct memory_opts mo = { .no_kernel = mode->single_probes || mode->any_process ||
					       mode->stacks_by_tid,
				  .no_returns = returns_kill(t, opts),
				  .max_blocks = opts->max_blocks,
				  .sample_bytes = opts->sample_bytes,
				  .sample_table = opts->sample_table,
				  .stacks = opts->stacks,
				  .paths = t->paths,
				  .tgid = tgid };

	if (!t->plan->memory)
		return 0;
	return memory__new(&t->obj, t->plan, t->target, &mo, &t->memory, reason);
}

static int set_up(struct tracer *t, const struct tracer_opts *opts, char **reason)
{
	bool uret = t->plan->exit == PLAN_EXIT_URETPROBE;
	struct links_opts lo = {
		/* with the main thread gone the kernel finds no memory by pid: the programs check
		 */
		.pid = t->target->leader_gone || opts->mode.any_process ? 0 : t->target->pid,
		.programs = programs_for(uret, opts->empty),
	};
	const struct growth_opts go = { opts->growth_stacks, opts->sample_bytes, opts->budget };
	rt_u32 tgid;
	int err;

	err = find_paths(t, reason);
	if (err)
		return err;
	lo.paths = t->paths;
	t->budget = opts->budget;
	t->empty = opts->empty;
	t->gaps = calloc(t->plan->fn_cnt + 1, sizeof(*t->gaps));
	if (!t->gaps)
		return fail(reason, -ENOMEM, "out of memory");
	err = object__load((rt_u32)t->plan->fn_cnt, opts->raw, &opts->mode, &t->obj);
	if (err)
		return fail(reason, err, "cannot load the BPF programs: %s", strerror(-err));
	if (t->plan->fn_cnt || traces_allocators(t)) {
		err = calibrate__run(&t->obj, uret || traces_allocators(t), &t->to_close);
		if (err)
			return fail(reason, err, "cannot measure the price of a probe: %s",
				    strerror(-err));
	}
	err = object__kernel_tgid(&t->obj, t->target->pid, &tgid);
	if (err)
		return fail(reason, err, "cannot find process %d: %s", t->target->pid,
			    strerror(-err));
	t->obj.skel->bss->target_tgid = tgid;
	err = uret ? filtered__check(&t->obj, t->target, opts->assume_seccomp_kills, &t->to_close,
				     reason)
		   : 0;
	err = err ?: attach_life(t, reason);
	if (err)
		return err;
	err = arm(t, &lo, opts);
	if (err == -ESRCH || (err && !target__alive(t->target)))
		return fail(reason, -ESRCH, "process %d ended while attaching", t->target->pid);
	if (err)
		return fail(reason, err, "cannot attach to '%s': %s", t->target->exe,
			    strerror(-err));
	err = verify_first(t, opts->unreached, reason);
	if (!err && opts->growth)
		err = growth__new(&t->obj, t->target, tgid, &go, &t->growth, reason);
	return err ?: set_up_memory(t, opts, tgid, reason);
}

int tracer__new(const struct plan *plan, const struct target *target,
		const struct tracer_opts *opts, struct tracer **out, char **reason)
{
	struct tracer *t = calloc(1, sizeof(*t));
	int err;

	*reason = NULL;
	if (!t)
		return -ENOMEM;
	t->plan = plan;
	t->target = target;
	t->rearm_always = opts->rearm_always;
	err = set_up(t, opts, reason);
	if (err) {
		tracer__free(t);
		return err;
	}
	*out = t;
	return 0;
}

void tracer__start(struct tracer *t)
{
	uint64_t now = clock__mono_ns();

	t->next_verify_ns = now + VERIFY_INTERVAL_NS;
	governor__start(t->governor, now);
	t->obj.skel->bss->gate = 1;
	if (t->memory && !t->empty)
		memory__start(t->memory);
	if (t->growth && !t->empty)
		growth__start(t->growth);
	if (t->obj.mode.single_probes)
		hands__begin_closing(&t->to_close);
}

static void rearm(struct tracer *t)
{
	int err = links__rearm(t->links);

	if (err)
		log_error("attach: failed to arm the probes again: %s", strerror(-err));
}

/* Of the budget: a tenth is left to probes whatever else there is. */
static double left(const struct tracer *t)
{
	double ratio = t->budget - t->reserved;

	return ratio > t->budget / 10 ? ratio : t->budget / 10;
}

/* Half a second of allocations dearer than the whole budget, and the allocator is let go. */
#define MEMORY_LOOKS 5

static void look_at_memory(struct tracer *t, uint64_t now_ns)
{
	uint64_t hits, cost;
	double spent, allowed;

	if (!t->memory || t->budget < 0 || memory__is_shed(t->memory) ||
	    now_ns < t->memory_look_ns + GOVERNOR_INTERVAL_NS)
		return;
	cost = memory__cost_ns(t->memory, &t->obj.cold, &hits);
	spent = (double)(cost - t->memory_cost_ns);
	allowed = left(t) * (double)(now_ns - t->memory_look_ns);
	t->memory_over = t->memory_look_ns && spent > allowed ? t->memory_over + 1 : 0;
	t->memory_look_ns = now_ns;
	t->memory_cost_ns = cost;
	if (t->memory_over < MEMORY_LOOKS)
		return;
	memory__shed(t->memory);
	log_warn("over budget: the allocator is no longer traced (%.1f%% of a CPU; --budget)",
		 spent / allowed * left(t) * 100);
}

static void verify_again(struct tracer *t)
{
	struct verify_result res = { .gaps = t->gaps };
	int err = verify__sites(t->target, t->plan, t->links, &res);

	if (err || !res.disarmed)
		return;
	log_warn("attach: %zu probe%s overwritten in the target (a debugger?), first in '%s': "
		 "armed again, but calls of up to 10 s were missed",
		 res.disarmed, res.disarmed == 1 ? " was" : "s were",
		 t->plan->fns[res.first_fn].name);
	t->disarmed += res.disarmed;
	rearm(t);
}

/*
 * A single probe belongs to the main thread, for it found the process by that: when it exits, the
 * kernel takes the breakpoints away. They come again for any process (the programs look whose it
 * is); a library's do not, for every process has it.
 */
static void follow_leader(struct tracer *t, bool rearm)
{
	int err = 0;

	if (!t->obj.mode.single_probes || t->leader_followed || t->target->leader_gone ||
	    !t->obj.skel->bss->leader_gone)
		return;
	t->leader_followed = true;
	log_warn("attach: the main thread has exited, and its probes went with it");
	t->disarmed += links__site_cnt(t->links);
	if (!rearm || t->plan->object_cnt > 1)
		return;
	/* its own name in /proc is gone as well */
	snprintf(t->exe_by_fd, sizeof(t->exe_by_fd), "/proc/self/fd/%d", t->target->exe_fd);
	t->paths[0] = t->exe_by_fd;
	links__limit(t->links, 0);
	err = links__rearm(t->links);
	if (err)
		log_error("attach: failed to arm the probes again: %s", strerror(-err));
	else
		log_info("probes armed again");
}

void tracer__tick(struct tracer *t, uint64_t now_ns)
{
	if (!t->obj.skel->bss->gate)
		return;
	follow_leader(t, true);
	governor__tick(t->governor, now_ns);
	look_at_memory(t, now_ns);
	if (t->rearm_always && governor__idle(t->governor))
		rearm(t);
	if (now_ns >= t->next_verify_ns && governor__idle(t->governor) &&
	    target__alive(t->target)) {
		verify_again(t);
		t->next_verify_ns = clock__mono_ns() + VERIFY_INTERVAL_NS;
	}
}

/* Allocators are called all the time; without links for many sites the main thread's end must be
 * seen soon. */
bool tracer__dozes(const struct tracer *t)
{
	return !t->memory && !t->rearm_always && !t->obj.mode.single_probes &&
	       governor__idle(t->governor) && governor__dozes(t->governor);
}

void tracer__hold(struct tracer *t)
{
	governor__stop(t->governor);
}

void tracer__stop(struct tracer *t)
{
	t->obj.skel->bss->gate = 0;
	if (t->memory)
		memory__stop(t->memory);
	if (t->growth)
		growth__stop(t->growth);
	object__synchronize();
	follow_leader(t, false);
}

void tracer__free(struct tracer *t)
{
	if (!t)
		return;
	if (t->obj.skel)
		t->obj.skel->bss->gate = 0;
	governor__free(t->governor);
	links__free(t->links, &t->to_close);
	memory__free(t->memory, &t->to_close);
	growth__free(t->growth);
	hands__close(&t->to_close);
	for (size_t i = 0; i < sizeof(t->life) / sizeof(t->life[0]); i++)
		bpf_link__destroy(t->life[i]);
	object__unload(&t->obj);
	free(t->paths);
	free(t->gaps);
	free(t);
}

int tracer__adopt(struct tracer *t, size_t first, const struct target_object *library)
{
	return t->memory ? memory__adopt(t->memory, first, library->open_path) : 0;
}

void tracer__reserve(struct tracer *t, double ratio)
{
	t->reserved = ratio;
	governor__reserve(t->governor, ratio);
}

struct memory *tracer__memory(struct tracer *t)
{
	return t->memory;
}

struct growth *tracer__growth(struct tracer *t)
{
	return t->growth;
}

struct object *tracer__object(struct tracer *t)
{
	return &t->obj;
}

rt_u32 tracer__kernel_tgid(const struct tracer *t)
{
	return t->obj.skel->bss->target_tgid;
}

bool tracer__refused(const struct tracer *t, rt_u32 fn)
{
	return links__refused(t->links, fn);
}

uint32_t tracer__fn_cnt(const struct tracer *t)
{
	uint32_t n = 0;

	for (rt_u32 fn = 0; fn < t->plan->fn_cnt; fn++)
		n += !links__refused(t->links, fn);
	return n;
}

size_t tracer__probe_cnt(const struct tracer *t)
{
	return links__site_cnt(t->links) + (t->memory ? memory__probe_cnt(t->memory) : 0);
}

const struct governor *tracer__governor(const struct tracer *t)
{
	return t->governor;
}

size_t tracer__disarmed(const struct tracer *t)
{
	return t->disarmed;
}

bool tracer__has_gap(const struct tracer *t, rt_u32 fn)
{
	return t->gaps[fn];
}

bool tracer__exec_seen(const struct tracer *t)
{
	return t->obj.skel->bss->exec_seen;
}

int tracer__exit_status(const struct tracer *t)
{
	return t->obj.skel->bss->exit_code;
}

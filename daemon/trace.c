/* SPDX-License-Identifier: BSD-2-Clause */
#include "trace.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
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
#include "base/strbuf.h"
#include "choose.h"
#include "codes.h"
#include "collect/collect.h"
#include "latecomers.h"
#include "machine.h"
#include "options.h"
#include "outputs.h"
#include "plan/plan.h"
#include "planning.h"
#include "session.h"
#include "several.h"
#include "target/process.h"
#include "ui/live.h"
#include "ui/report.h"
#include "ui/stalls.h"

#define DEFAULT_DRAW_NS NS_PER_SEC
#define DEFAULT_WRITE_NS (10 * NS_PER_SEC)
#define DEFAULT_STALL_NS (3 * NS_PER_SEC)
#define LATE_NS NS_PER_SEC
#define PROGRESS_NS (NS_PER_SEC / 5)

/* One process, from its opening to its report. */
struct run {
	struct session *session;
	const struct options *opts;
	const struct machine *machine;
	uint64_t begin_ns;
	struct target target;
	bool target_open;
	struct plan *plan;
	struct tracer *tracer;
	struct threads *threads;       /* NULL: not watched */
	struct stacks *stacks;	       /* NULL: nobody asks for native ones */
	struct profiler *profiler;     /* NULL: no profiles */
	struct standing *standing;     /* NULL: nobody asks for stacks of who waits */
	struct latecomers *latecomers; /* NULL: no allocators are traced */
	struct collector *collector;
	struct upkeep upkeep;
	struct outputs outputs;
	struct live *live;
	uint64_t next_late_ns; /* 0: no library is waited for */
	uint64_t next_draw_ns, next_write_ns, draw_ns, write_ns;
	struct snapshot *last; /* of the last drawing */
};

/* ---- before attaching ---- */

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

static int make_plan(struct run *r)
{
	if (!r->opts->no_functions || r->opts->memory >= OPTION_MEMORY_LIVE)
		return planning__target(r->opts, &r->machine->mode, &r->target, false, &r->plan);
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

static uint64_t seconds_or(double s, uint64_t otherwise_ns)
{
	return s > 0 ? (uint64_t)llround(s * 1e9) : otherwise_ns;
}

/* Functions can be traced without. */
static void watch_threads(struct run *r)
{
	char *reason = NULL;
	int err = threads__new(&r->target, tracer__kernel_tgid(r->tracer), &r->threads, &reason);

	if (err)
		log_warn("%s", reason ? reason : strerror(-err));
	free(reason);
}

static int keep_stacks(struct run *r)
{
	const struct options *o = r->opts;
	struct stacks_opts so = { .places = o->profile_stacks, .by_thread = o->by_thread };
	char *reason = NULL;
	int err;

	if (!o->cpu_profile_hz && !o->off_cpu && !takes_block_stacks(o))
		return CODE_OK;
	err = stacks__new(&r->target, &so, &r->stacks, &reason);
	return err ? code__say(code__of(err), reason, strerror(-err)) : CODE_OK;
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

	if (r->threads || po.off_cpu)
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
		.version = VERSION,
		.kernel = r->machine->features.kernel,
		.exit_mode = plan_exit_text(r->plan->exit),
		.leak_after_s = r->opts->leak_after_s,
		.budget = r->opts->budget,
		.stall_ns = seconds_or(r->opts->stall_s, DEFAULT_STALL_NS),
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
	if (!r->opts->no_threads)
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

static void clear_screen(void *run)
{
	struct run *r = run;

	live__clear(r->live, r->session->stop_ns ? stderr : stdout);
}

static int prepare(struct run *r, int pid)
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
		log__set_before(clear_screen, r);
	code = outputs__open_run(&r->outputs, r->opts, r->target.comm, pid);
	code = code ?: make_plan(r);
	code = code ?: judge_return_probes(r->opts, r->plan);
	if (code)
		return code;
	say_notes(r->plan, &r->target);
	say_too_short(r->opts);
	return attach(r);
}

/* ---- while attached ---- */

static bool draws_live(const struct run *r)
{
	return !r->session->stop_ns && !r->outputs.on_stdout && isatty(STDOUT_FILENO);
}

/* Several at once would draw over each other. */
static bool draws(const struct run *r)
{
	return r->opts->pids.cnt < 2 && (r->session->stop_ns || draws_live(r));
}

static void draw(struct run *r, const struct snapshot *s, uint64_t now)
{
	const struct session *all = r->session;

	if (all->stop_ns)
		live__progress(r->live, stderr, now - all->start_ns, all->stop_ns - all->start_ns,
			       snapshot__calls(s), s->overhead.cpu_ratio);
	else
		live__draw(r->live, s, r->last, stdout);
}

/* While it still hangs. */
static void say_stalls(struct run *r, uint64_t now)
{
	struct strbuf text = STRBUF_INIT;
	size_t cnt;
	const struct snapshot_stall *stalls = collector__stalls(r->collector, now, &cnt);

	for (size_t i = 0; i < cnt; i++)
		stalls__describe(&stalls[i], "", 0, false, &text);
	for (char *line = text.s, *end; (end = strchr(line, '\n')); line = end + 1)
		log_warn("%.*s", (int)(end - line), line);
	/* the file tells it as soon as the terminal does */
	if (cnt)
		r->next_write_ns = now;
	strbuf__free(&text);
}

static void look_for_late(struct run *r, uint64_t now)
{
	if (!r->next_late_ns || now < r->next_late_ns)
		return;
	r->next_late_ns = target__look_for_late(&r->target) ? now + LATE_NS : 0;
}

static void on_tick(struct run *r)
{
	uint64_t now = clock__mono_ns();
	bool draw_now = now >= r->next_draw_ns && draws(r);
	struct snapshot *s;
	bool write_now;
	int err;

	tracer__tick(r->tracer, now);
	upkeep__tick(&r->upkeep, now);
	if (r->stacks)
		stacks__tick(r->stacks, now);
	collector__tick(r->collector, now);
	look_for_late(r, now);
	say_stalls(r, now);
	write_now = now >= r->next_write_ns;
	if (!draw_now && draws(r) && !r->session->stop_ns)
		live__draw_again(r->live, stdout);
	if (!draw_now && !write_now)
		return;
	collector__set_light(r->collector, !write_now);
	err = collector__snapshot(r->collector, &s);
	if (err) {
		log_warn("collect: failed to read the counters: %s", strerror(-err));
		return;
	}
	if (write_now) {
		(void)outputs__write(&r->outputs, s, false);
		r->next_write_ns = now + r->write_ns;
	}
	if (draw_now) {
		draw(r, s, now);
		r->next_draw_ns = now + r->draw_ns;
	}
	snapshot__free(r->last);
	r->last = s;
}

static void start(struct run *r)
{
	uint64_t tick_ns = GOVERNOR_INTERVAL_NS, now;
	struct itimerspec it = {};

	r->draw_ns = seconds_or(r->opts->interval_s, DEFAULT_DRAW_NS);
	r->write_ns = seconds_or(r->opts->interval_s, DEFAULT_WRITE_NS);
	if (r->opts->duration_s > 0 && r->draw_ns > PROGRESS_NS)
		r->draw_ns = PROGRESS_NS;
	if (r->opts->interval_s > 0 && r->write_ns < tick_ns)
		tick_ns = r->write_ns;
	it.it_value.tv_nsec = it.it_interval.tv_nsec = (long)tick_ns;
	timerfd_settime(r->session->timer_fd, 0, &it, NULL);

	collector__start(r->collector);
	now = clock__mono_ns();
	session__start(r->session, now);
	r->next_draw_ns = now + r->draw_ns;
	r->next_write_ns = now + r->write_ns;
	r->next_late_ns = now;
	log_info("attached to %d (%s): %u functions, %zu probes, %llu ms", r->target.pid,
		 r->target.comm, tracer__fn_cnt(r->tracer), tracer__probe_cnt(r->tracer),
		 (unsigned long long)((now - r->begin_ns) / NS_PER_MS));
}

/* How long to sleep; -1: until something happens. */
static int wait_ms(const struct session *s)
{
	uint64_t now = clock__mono_ns();

	if (!s->stop_ns)
		return -1;
	return now < s->stop_ns ? (int)((s->stop_ns - now + NS_PER_MS - 1) / NS_PER_MS) : 0;
}

/* Until a signal, the target's end, or the time is up. */
static enum run_end loop(struct run *r)
{
	struct session *s = r->session;
	struct pollfd fds[] = {
		{ .fd = s->signal_fd, .events = POLLIN },
		{ .fd = r->target.pidfd, .events = POLLIN },
		{ .fd = s->timer_fd, .events = POLLIN },
		{ .fd = r->stacks ? stacks__fd(r->stacks) : -1, .events = POLLIN },
		{ .fd = latecomers__fd(r->latecomers), .events = POLLIN },
	};
	uint64_t ticks;

	while (!session__is_over(s)) {
		if (poll(fds, 5, wait_ms(s)) < 0 && errno != EINTR)
			break;
		if (fds[0].revents)
			session__take_signal(s);
		if (s->stopped)
			break;
		if (fds[1].revents || tracer__exec_seen(r->tracer)) {
			collector__stop(r->collector);
			collector__target_ended(r->collector);
			return fds[1].revents ? RUN_EXITED : RUN_EXECED;
		}
		if (fds[3].revents)
			stacks__tick(r->stacks, clock__mono_ns());
		if (fds[4].revents)
			latecomers__look(r->latecomers);
		if (fds[2].revents && read(s->timer_fd, &ticks, sizeof(ticks)) == sizeof(ticks))
			on_tick(r);
	}
	return RUN_LEFT;
}

/* Shut, settle, and let go of the target before the slow work of writing. */
static int finish(struct run *r)
{
	struct report_opts ro = outputs__report_opts(r->opts);
	FILE *report = r->outputs.on_stdout ? stderr : stdout;
	struct snapshot *s;
	int err, code;

	if (r->next_late_ns)
		target__look_for_late(&r->target);
	collector__stop(r->collector);
	err = collector__snapshot(r->collector, &s);
	if (err)
		return code__say(CODE_FAILED, NULL, strerror(-err));
	collector__free(r->collector);
	threads__free(r->threads);
	profiler__free(r->profiler);
	standing__free(r->standing);
	tracer__free(r->tracer);
	stacks__free(r->stacks);
	r->collector = NULL;
	r->threads = NULL;
	r->profiler = NULL;
	r->standing = NULL;
	r->tracer = NULL;
	r->stacks = NULL;
	clear_screen(r);
	code = outputs__write(&r->outputs, s, true);
	if (r->outputs.on_stdout)
		ro.colour = false;
	ro.hint_said = true;
	err = report__print(s, &ro, report);
	if ((err || fflush(report)) && errno != EPIPE) {
		log_error("cannot print the report: %s", strerror(err ? -err : errno));
		code = CODE_FAILED;
	}
	if (!code)
		outputs__say_written(&r->outputs);
	snapshot__free(s);
	return code;
}

static void clean_up(struct run *r)
{
	log__set_before(NULL, NULL);
	latecomers__free(r->latecomers);
	collector__free(r->collector);
	threads__free(r->threads);
	profiler__free(r->profiler);
	standing__free(r->standing);
	tracer__free(r->tracer);
	stacks__free(r->stacks);
	live__free(r->live);
	snapshot__free(r->last);
	plan__free(r->plan);
	if (r->target_open)
		target__close(&r->target);
	outputs__free(&r->outputs);
}

/* ---- the walk ---- */

static int run_one(struct session *s, const struct machine *machine, struct last_run *run)
{
	struct run r = {
		.session = s,
		.opts = s->opts,
		.machine = machine,
		.begin_ns = clock__mono_ns(),
	};
	int code = prepare(&r, run->pid), err;

	run->end = RUN_FAILED;
	if (!code) {
		start(&r);
		err = session__release_child(s);
		if (err)
			log_error("cannot let process %d run: %s", s->child, strerror(-err));
		run->end = loop(&r);
		code = finish(&r);
	}
	clean_up(&r);
	return code;
}

/* Whether a next process is to be looked for, after one that ended like this. */
static bool goes_on(const struct session *s, const struct last_run *last, int code)
{
	const struct options *o = s->opts;

	if (!o->follow || session__is_over(s))
		return false;
	/* the first one tells whether it makes sense at all; one that is gone again is none */
	if (last->end == RUN_FAILED && code != CODE_NO_PROCESS && !s->start_ns)
		return false;
	return o->name || o->exe || last->end == RUN_EXECED;
}

/* The worst code of all; of those processes that had ended before they were traced, none. */
static int run_all(struct session *s, const struct machine *machine)
{
	struct last_run last = { .end = RUN_NONE };
	int code, worst = CODE_OK, pid;
	bool again;

	do {
		code = choose__process(s, &last, &pid);
		if (code || !pid)
			break;
		last.pid = pid;
		code = run_one(s, machine, &last);
		again = goes_on(s, &last, code);
		if (again && code == CODE_NO_PROCESS)
			code = CODE_OK;
		if (code > worst)
			worst = code;
		code = CODE_OK;
	} while (again);
	if (s->child && !s->held)
		worst = session__wait_child(s) ?: worst;
	return code ?: worst;
}

static int trace_one(const struct options *opts)
{
	struct machine machine;
	struct session session;
	int code = session__open(&session, opts);

	/* wrong input is said before anything is looked at */
	code = code ?: outputs__check(opts, &session.stdout_taken);
	code = code ?: machine__probe(opts, false, &machine);
	code = code ?: machine__check(&machine);
	if (!code)
		machine__say_mode(&machine);
	code = code ?: run_all(&session, &machine);
	session__close(&session);
	return code;
}

int trace__run(const struct options *opts)
{
	bool on_stdout;
	int code;

	if (opts->pids.cnt < 2)
		return trace_one(opts);
	code = outputs__check(opts, &on_stdout);
	return code ?: several__run(opts, trace_one);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "trace.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/breaker.h"
#include "attach/features.h"
#include "attach/tracer.h"
#include "base/clock.h"
#include "base/log.h"
#include "collect/collect.h"
#include "options.h"
#include "outputs.h"
#include "plan/isolate.h"
#include "plan/list.h"
#include "plan/plan.h"
#include "plan/sources.h"
#include "target/find.h"
#include "target/process.h"
#include "target/spawn.h"
#include "ui/live.h"
#include "ui/report.h"

#define DEFAULT_DRAW_NS NS_PER_SEC
#define DEFAULT_WRITE_NS (10 * NS_PER_SEC)
#define PROGRESS_NS (NS_PER_SEC / 5)

struct run {
	const struct options *opts;
	uint64_t begin_ns;
	struct features features;
	struct target target;
	bool target_open;
	struct plan *plan;
	struct tracer *tracer;
	struct collector *collector;
	struct outputs outputs;
	char *default_output;
	struct live *live;
	pid_t child; /* started by us; 0: none */
	bool held;   /* it has not been let run yet */
	sigset_t old_mask;
	int signal_fd, timer_fd;
	uint64_t start_ns, stop_ns; /* stop 0: no limit */
	uint64_t next_draw_ns, next_write_ns, draw_ns, write_ns;
	struct snapshot *last; /* of the last drawing */
};

/* Says it and frees the words. */
static int say(int code, char *reason, const char *fallback)
{
	log_error("%s", reason ? reason : fallback);
	free(reason);
	return code;
}

/* ---- before attaching ---- */

static int code_of(int err)
{
	switch (err) {
	case -ESRCH:
		return CODE_NO_PROCESS;
	case -EPERM:
	case -EACCES:
		return CODE_NOT_ALLOWED;
	default:
		return CODE_FAILED;
	}
}

static enum plan_exit exit_of(const struct options *o)
{
	switch (o->exit) {
	case OPTION_EXIT_SITES:
		return PLAN_EXIT_SITES;
	case OPTION_EXIT_URETPROBE:
		return PLAN_EXIT_URETPROBE;
	default:
		return PLAN_EXIT_AUTO;
	}
}

static enum plan_memory memory_of(const struct options *o)
{
	switch (o->memory) {
	case OPTION_MEMORY_LIVE:
		return PLAN_MEMORY_LIVE;
	case OPTION_MEMORY_STACKS:
		return PLAN_MEMORY_STACKS;
	default:
		return PLAN_MEMORY_NONE;
	}
}

static bool names_library(const struct options *o)
{
	for (size_t i = 0; i < o->functions.cnt; i++)
		if (sources__lib_len(o->functions.data[i]))
			return true;
	return false;
}

static int make_plan(const struct options *o, const struct plan_input *in, bool list,
		     struct plan **out);

/* Of a process: its executable, and when they are asked for, its libraries. */
static int plan_target(const struct options *o, struct target *t, bool list, struct plan **out)
{
	struct plan_input in = { .debug_file = o->debug_file };
	struct plan_source *sources;
	char root[64];
	int code, err;

	err = names_library(o) || memory_of(o) || list ? target__open_objects(t) : 0;
	if (err)
		return say(code_of(err), NULL, strerror(-err));
	sources = calloc(t->object_cnt + 1, sizeof(*sources));
	if (!sources)
		return say(CODE_FAILED, NULL, "out of memory");
	sources[0] = (struct plan_source){ t->exe_fd, t->exe };
	for (size_t i = 0; i < t->object_cnt; i++)
		sources[i + 1] = (struct plan_source){ t->objects[i].fd, t->objects[i].path };
	snprintf(root, sizeof(root), "/proc/%d/task/%d/root", t->pid, t->proc_tid);
	in.sources = sources;
	in.source_cnt = t->object_cnt + 1;
	in.root = root;
	code = make_plan(o, &in, list, out);
	free(sources);
	return code;
}

static void say_notes(const struct plan *plan)
{
	for (size_t i = 0; i < plan->note_cnt; i++)
		log_info("%s", plan->notes[i]);
}

static int make_plan(const struct options *o, const struct plan_input *in, bool list,
		     struct plan **out)
{
	struct plan_request req = {
		.crates = o->crates.data,
		.crate_cnt = o->crates.cnt,
		.functions = o->functions.data,
		.function_cnt = o->functions.cnt,
		.excludes = o->excludes.data,
		.exclude_cnt = o->excludes.cnt,
		.profile = o->profile,
		.exe_name = in->sources[0].path,
		.exit = exit_of(o),
		/* list tells what there is, whatever will be asked for */
		.memory = list && !memory_of(o) ? PLAN_MEMORY_LIVE : memory_of(o),
		.layer = (enum plan_layer)o->allocator,
		.no_default = o->no_functions,
		.want_inlined = list,
	};
	char *reason = NULL;
	int err = plan__new_isolated(in, &req, out, &reason);

	if (err)
		return say(err == -ENOENT || err == -EINVAL ? CODE_USAGE : CODE_FAILED, reason,
			   strerror(-err));
	return CODE_OK;
}

static int open_default_output(struct run *r)
{
	char comm[sizeof(r->target.comm)];

	strcpy(comm, r->target.comm);
	for (char *p = comm; *p; p++)
		if (*p == '/' || (unsigned char)*p < ' ')
			*p = '_';
	if (asprintf(&r->default_output, "json:./roletrace-%s-%d.json", comm, r->target.pid) < 0)
		return say(CODE_FAILED, NULL, "out of memory");
	return outputs__add(&r->outputs, r->default_output);
}

static int attach(struct run *r)
{
	const struct options *o = r->opts;
	struct tracer_opts to = { .raw = o->raw,
				  .empty = o->empty_programs,
				  .growth = o->memory >= OPTION_MEMORY_GROWTH,
				  .max_blocks = o->max_blocks,
				  .budget = o->budget };
	struct collector_opts co = {
		.version = VERSION,
		.kernel = r->features.kernel,
		.exit_mode = r->plan->exit == PLAN_EXIT_URETPROBE ? "uretprobe" : "sites",
		.leak_after_s = o->leak_after_s,
		.budget = o->budget,
	};
	char *reason = NULL;
	int err;

	if (r->plan->exit == PLAN_EXIT_URETPROBE)
		log_warn("--exit uretprobe: a panic that unwinds through a traced function will "
			 "kill the "
			 "target");
	err = tracer__new(r->plan, &r->target, &to, &r->tracer, &reason);
	if (err)
		return say(code_of(err), reason, strerror(-err));
	r->collector = collector__new(r->plan, &r->target, r->tracer, &co);
	if (!r->collector)
		return say(CODE_FAILED, NULL, strerror(errno));
	return CODE_OK;
}

/* ---- which process ---- */

#define FIND_INTERVAL_MS 50

/* Until a process fits; CODE_NO_PROCESS when a signal ends the waiting. */
static int wait_for_process(struct run *r, int *pid)
{
	struct find_request req = { .comm = r->opts->name, .exe = r->opts->exe };
	struct pollfd p = { .fd = r->signal_fd, .events = POLLIN };
	bool said = false;

	for (;;) {
		int found = find__process(&req);

		if (found < 0)
			return say(CODE_FAILED, NULL, strerror(-found));
		if (found) {
			*pid = found;
			return CODE_OK;
		}
		if (!said)
			log_info("waiting for a process of %s '%s'",
				 req.comm ? "name" : "executable", req.comm ?: req.exe);
		said = true;
		if (poll(&p, 1, FIND_INTERVAL_MS) > 0)
			return say(CODE_NO_PROCESS, NULL, "no such process came");
	}
}

static int choose_process(struct run *r, int *pid)
{
	char *reason = NULL;
	int err;

	*pid = r->opts->pid;
	if (*pid)
		return CODE_OK;
	if (!r->opts->argv)
		return wait_for_process(r, pid);
	err = spawn__held(r->opts->argv, &r->old_mask, &r->child, &reason);
	if (err)
		return say(CODE_FAILED, reason, strerror(-err));
	r->held = true;
	*pid = r->child;
	return CODE_OK;
}

/* The terminal's Ctrl-C reaches the child by itself; what was sent to us alone is passed on. */
static void pass_signal_on(struct run *r)
{
	struct signalfd_siginfo info;

	if (read(r->signal_fd, &info, sizeof(info)) == sizeof(info) && info.ssi_code != SI_KERNEL)
		kill(r->child, (int)info.ssi_signo);
}

/* The child goes on without us until it ends; its exit code is ours. */
static int wait_for_child(struct run *r)
{
	struct pollfd fds[] = {
		{ .fd = r->signal_fd, .events = POLLIN },
		{ .fd = r->target.pidfd, .events = POLLIN },
	};
	int status;

	while (poll(fds, 2, -1) < 0 || !fds[1].revents)
		if (fds[0].revents)
			pass_signal_on(r);
	while (waitpid(r->child, &status, 0) < 0)
		if (errno != EINTR)
			return CODE_FAILED;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static int prepare(struct run *r)
{
	const struct options *o = r->opts;
	const struct feature *missing;
	char *reason = NULL;
	int err, code, pid;

	/* wrong input is said before anything is looked at */
	code = outputs__open(&r->outputs, o);
	if (code)
		return code;
	features__probe(&r->features);
	missing = features__missing(&r->features);
	if (missing) {
		log_error("this machine or these rights do not allow tracing: %s: %s",
			  missing->name, missing->detail);
		return CODE_NOT_ALLOWED;
	}
	code = choose_process(r, &pid);
	if (code)
		return code;
	r->begin_ns = clock__mono_ns();
	err = target__open(pid, &r->target, &reason);
	if (err)
		return say(code_of(err), reason, strerror(-err));
	r->target_open = true;
	code = r->outputs.cnt ? CODE_OK : open_default_output(r);
	if (code)
		return code;
	if (o->no_functions && !memory_of(o)) {
		r->plan = calloc(1, sizeof(*r->plan));
		if (!r->plan)
			return say(CODE_FAILED, NULL, "out of memory");
		r->plan->exit = PLAN_EXIT_SITES;
	} else {
		code = plan_target(o, &r->target, false, &r->plan);
		if (code)
			return code;
	}
	say_notes(r->plan);
	if (r->plan->hint)
		log_info("%s", r->plan->hint);
	return attach(r);
}

/* ---- while attached ---- */

static bool draws_live(const struct run *r)
{
	return !r->stop_ns && !r->outputs.on_stdout && isatty(STDOUT_FILENO);
}

static void draw(struct run *r, const struct snapshot *s, uint64_t now)
{
	if (r->stop_ns)
		live__progress(r->live, stderr, now - r->start_ns, r->stop_ns - r->start_ns,
			       snapshot__calls(s), s->overhead.cpu_ratio);
	else
		live__draw(r->live, s, r->last, stdout);
}

static void on_tick(struct run *r)
{
	uint64_t now = clock__mono_ns();
	bool draw_now = now >= r->next_draw_ns && (r->stop_ns || draws_live(r));
	bool write_now = now >= r->next_write_ns;
	struct snapshot *s;
	int err;

	tracer__tick(r->tracer, now);
	collector__tick(r->collector, now);
	if (!draw_now && !write_now)
		return;
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

static int open_events(struct run *r)
{
	sigset_t set;

	r->signal_fd = r->timer_fd = -1;
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, &r->old_mask);
	signal(SIGPIPE, SIG_IGN);
	r->signal_fd = signalfd(-1, &set, SFD_CLOEXEC);
	r->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	return r->signal_fd < 0 || r->timer_fd < 0 ? say(CODE_FAILED, NULL, strerror(errno))
						   : CODE_OK;
}

static uint64_t seconds_or(double s, uint64_t otherwise_ns)
{
	return s > 0 ? (uint64_t)llround(s * 1e9) : otherwise_ns;
}

static void start(struct run *r)
{
	uint64_t tick_ns = BREAKER_INTERVAL_NS;
	struct itimerspec it = {};

	r->draw_ns = seconds_or(r->opts->interval_s, DEFAULT_DRAW_NS);
	r->write_ns = seconds_or(r->opts->interval_s, DEFAULT_WRITE_NS);
	if (r->opts->duration_s > 0 && r->draw_ns > PROGRESS_NS)
		r->draw_ns = PROGRESS_NS;
	if (r->opts->interval_s > 0 && r->write_ns < tick_ns)
		tick_ns = r->write_ns;
	it.it_value.tv_nsec = it.it_interval.tv_nsec = (long)tick_ns;
	timerfd_settime(r->timer_fd, 0, &it, NULL);

	collector__start(r->collector);
	r->start_ns = clock__mono_ns();
	r->next_draw_ns = r->start_ns + r->draw_ns;
	r->next_write_ns = r->start_ns + r->write_ns;
	if (r->opts->duration_s > 0)
		r->stop_ns = r->start_ns + seconds_or(r->opts->duration_s, 0);
	log_info("attached to %d (%s): %u functions, %zu probes, %llu ms", r->target.pid,
		 r->target.comm, tracer__fn_cnt(r->tracer), tracer__probe_cnt(r->tracer),
		 (unsigned long long)((r->start_ns - r->begin_ns) / NS_PER_MS));
}

/* Until a signal, the target's end, or the time is up. */
static void loop(struct run *r)
{
	struct pollfd fds[] = {
		{ .fd = r->signal_fd, .events = POLLIN },
		{ .fd = r->target.pidfd, .events = POLLIN },
		{ .fd = r->timer_fd, .events = POLLIN },
	};
	uint64_t ticks;

	for (;;) {
		uint64_t now = clock__mono_ns();
		int wait_ms = -1;

		if (r->stop_ns) {
			if (now >= r->stop_ns)
				return;
			wait_ms = (int)((r->stop_ns - now + NS_PER_MS - 1) / NS_PER_MS);
		}
		if (poll(fds, 3, wait_ms) < 0 && errno != EINTR)
			return;
		if (fds[0].revents && !r->child)
			return;
		if (fds[0].revents)
			pass_signal_on(r);
		if (fds[1].revents || tracer__exec_seen(r->tracer)) {
			collector__stop(r->collector);
			collector__target_ended(r->collector);
			return;
		}
		if (fds[2].revents && read(r->timer_fd, &ticks, sizeof(ticks)) == sizeof(ticks))
			on_tick(r);
	}
}

/* Shut, settle, and let go of the target before the slow work of writing. */
static int finish(struct run *r)
{
	struct report_opts ro = outputs__report_opts(r->opts);
	FILE *report = r->outputs.on_stdout ? stderr : stdout;
	struct snapshot *s;
	int err, code;

	collector__stop(r->collector);
	err = collector__snapshot(r->collector, &s);
	if (err)
		return say(CODE_FAILED, NULL, strerror(-err));
	collector__free(r->collector);
	tracer__free(r->tracer);
	r->collector = NULL;
	r->tracer = NULL;
	live__clear(r->live, r->stop_ns ? stderr : stdout);
	code = outputs__write(&r->outputs, s, true);
	if (r->outputs.on_stdout)
		ro.colour = false;
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

int trace__run(const struct options *opts)
{
	struct run r = {
		.opts = opts, .begin_ns = clock__mono_ns(), .signal_fd = -1, .timer_fd = -1
	};
	struct report_opts ro = outputs__report_opts(opts);
	int code = open_events(&r);

	code = code ?: prepare(&r);
	if (!code && !(r.live = live__new(&ro)))
		code = say(CODE_FAILED, NULL, "out of memory");
	if (!code) {
		start(&r);
		if (r.held && spawn__release(r.child))
			log_error("cannot let process %d run: %s", r.child, strerror(errno));
		r.held = false;
		loop(&r);
		code = finish(&r);
		if (r.child)
			code = wait_for_child(&r) ?: code;
	}
	if (r.held)
		spawn__kill(r.child);
	collector__free(r.collector);
	tracer__free(r.tracer);
	live__free(r.live);
	snapshot__free(r.last);
	plan__free(r.plan);
	if (r.target_open)
		target__close(&r.target);
	outputs__free(&r.outputs);
	free(r.default_output);
	if (r.signal_fd >= 0)
		close(r.signal_fd);
	if (r.timer_fd >= 0)
		close(r.timer_fd);
	return code;
}

/* ---- the other commands ---- */

static int plan_file(const struct options *o, struct plan **out)
{
	char *path = realpath(o->exe, NULL); /* debug files lie beside the file, not a link to it */
	struct plan_source exe = { .path = path ? path : o->exe };
	struct plan_input in = { .sources = &exe, .source_cnt = 1, .debug_file = o->debug_file };
	int code = CODE_FAILED;
	struct stat st;

	/* a FIFO must not make us wait for a writer */
	exe.fd = open(exe.path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (exe.fd < 0)
		log_error("cannot open '%s': %s", o->exe, strerror(errno));
	else if (fstat(exe.fd, &st) || !S_ISREG(st.st_mode))
		log_error("'%s' is no regular file", o->exe);
	else
		code = make_plan(o, &in, true, out);
	if (exe.fd >= 0)
		close(exe.fd);
	free(path);
	return code;
}

int trace__list(const struct options *opts)
{
	struct target target = { .pidfd = -1, .exe_fd = -1 };
	struct plan *plan = NULL;
	char *reason = NULL;
	int code, err;

	if (opts->pid) {
		err = target__open(opts->pid, &target, &reason);
		if (err)
			return say(code_of(err), reason, strerror(-err));
		code = plan_target(opts, &target, true, &plan);
		target__close(&target);
	} else {
		code = plan_file(opts, &plan);
	}
	if (!code)
		plan__print(plan, stdout);
	plan__free(plan);
	return code;
}

int trace__check(void)
{
	struct features f;
	const struct feature *missing;

	features__probe(&f);
	features__print(&f, stdout);
	missing = features__missing(&f);
	if (!missing) {
		printf("roletrace can trace here\n");
		return CODE_OK;
	}
	printf("roletrace cannot trace here: %s\n", missing->name);
	return CODE_NOT_ALLOWED;
}

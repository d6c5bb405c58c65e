/* SPDX-License-Identifier: BSD-2-Clause */
#include "run.h"

#include <errno.h>
#include <malloc.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attach/doorbell.h"
#include "attach/stacks.h"
#include "attach/tracer.h"
#include "attach/upkeep.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "choose.h"
#include "codes.h"
#include "collect/collect.h"
#include "latecomers.h"
#include "options.h"
#include "outputs.h"
#include "plan/plan.h"
#include "run_parts.h"
#include "session.h"
#include "target/process.h"
#include "ui/live.h"
#include "ui/report.h"
#include "ui/stalls.h"

#define DEFAULT_DRAW_NS NS_PER_SEC
#define DEFAULT_WRITE_NS (10 * NS_PER_SEC)
#define LATE_NS NS_PER_SEC
#define PROGRESS_NS (NS_PER_SEC / 5)
#define PROGRESS_STEPS 16 /* of a duration, where no terminal shows each second of it */
#define LEAST_TICK_NS (10 * NS_PER_MS)
#define DOZE_NS (NS_PER_SEC / 2) /* what is looked at by the clock alone can wait so long */

void run__clear_screen(void *run)
{
	struct run *r = run;

	live__clear(r->live, r->session->stop_ns ? stderr : stdout);
}

static uint64_t seconds_or(double s, uint64_t otherwise_ns)
{
	return s > 0 ? (uint64_t)llround(s * 1e9) : otherwise_ns;
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

static uint64_t sooner(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* When there is something to do again. Each wake-up finds cold caches: better few of them. */
static uint64_t next_tick(const struct run *r, uint64_t now)
{
	bool dozes = tracer__dozes(r->tracer) && !r->stacks && !r->next_late_ns;
	uint64_t next = now + (dozes ? DOZE_NS : GOVERNOR_INTERVAL_NS);

	next = sooner(next, r->next_write_ns);
	next = sooner(next, collector__next_ns(r->collector));
	if (r->draws)
		next = sooner(next, r->next_draw_ns);
	/* what failed is due still */
	return next > now + LEAST_TICK_NS ? next : now + LEAST_TICK_NS;
}

static void on_tick(struct run *r, uint64_t now)
{
	bool draw_now = now >= r->next_draw_ns && r->draws;
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
	if (!draw_now && r->draws && !r->session->stop_ns)
		live__draw_again(r->live, stdout);
	if (!draw_now && !write_now)
		return;
	collector__set_light(r->collector, !write_now);
	err = collector__snapshot(r->collector, &s);
	if (err) {
		log_warn("collect: failed to read the counters: %s", strerror(-err));
		r->next_write_ns = r->next_draw_ns = now + NS_PER_SEC;
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

static void tick(struct run *r)
{
	uint64_t now = clock__mono_ns();

	on_tick(r, now);
	r->next_tick_ns = next_tick(r, now);
}

/* Several at once would draw over each other. */
static void choose_drawing(struct run *r)
{
	bool timed = r->opts->duration_s > 0;
	uint64_t duration_ns = (uint64_t)llround(r->opts->duration_s * 1e9);

	r->draws = timed || (!r->outputs.on_stdout && isatty(STDOUT_FILENO));
	if (r->opts->pids.cnt > 1)
		r->draws = false;
	if (timed)
		r->draw_ns = sooner(r->draw_ns, PROGRESS_NS);
	/* there, each quarter is a line */
	if (timed && !isatty(STDERR_FILENO) && r->draw_ns < duration_ns / PROGRESS_STEPS)
		r->draw_ns = duration_ns / PROGRESS_STEPS;
}

static void start(struct run *r)
{
	uint64_t now;

	r->draw_ns = seconds_or(r->opts->interval_s, DEFAULT_DRAW_NS);
	r->write_ns = seconds_or(r->opts->interval_s, DEFAULT_WRITE_NS);
	choose_drawing(r);
	/* loading took several times what is needed from now on, above all the kernel's types */
	malloc_trim(0);
	collector__start(r->collector);
	now = clock__mono_ns();
	session__start(r->session, now);
	r->next_draw_ns = now + r->draw_ns;
	r->next_write_ns = now + r->write_ns;
	r->next_late_ns = now;
	r->next_tick_ns = now + sooner(GOVERNOR_INTERVAL_NS, r->write_ns);
	log_info("attached to %d (%s): %u functions, %zu probes, %llu ms", r->target.pid,
		 r->target.comm, tracer__fn_cnt(r->tracer), tracer__probe_cnt(r->tracer),
		 (unsigned long long)((now - r->begin_ns) / NS_PER_MS));
}

/* Until something happens, the next tick, or the end. */
static int sleep_until_next(const struct run *r, struct pollfd *fds, nfds_t cnt)
{
	const struct session *s = r->session;
	uint64_t now = clock__mono_ns();
	uint64_t next = s->stop_ns ? sooner(r->next_tick_ns, s->stop_ns) : r->next_tick_ns;
	uint64_t ns = now < next ? next - now : 0;
	struct timespec t = { (time_t)(ns / NS_PER_SEC), (long)(ns % NS_PER_SEC) };

	return ppoll(fds, cnt, &t, NULL);
}

/* Until a signal, the target's end, or the time is up. */
static enum run_end loop(struct run *r)
{
	struct session *s = r->session;
	struct doorbell *bell = tracer__object(r->tracer)->doorbell;
	struct pollfd fds[] = {
		{ .fd = s->signal_fd, .events = POLLIN },
		{ .fd = r->target.pidfd, .events = POLLIN },
		{ .fd = doorbell__fd(bell), .events = POLLIN },
		{ .fd = r->stacks ? stacks__fd(r->stacks) : -1, .events = POLLIN },
		{ .fd = latecomers__fd(r->latecomers), .events = POLLIN },
	};

	while (!session__is_over(s)) {
		if (sleep_until_next(r, fds, 5) < 0 && errno != EINTR)
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
		if (fds[2].revents)
			doorbell__answer(bell);
		if (fds[2].revents || clock__mono_ns() >= r->next_tick_ns)
			tick(r);
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
	run__let_go(r);
	run__clear_screen(r);
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
	run__let_go(r);
	live__free(r->live);
	snapshot__free(r->last);
	plan__free(r->plan);
	if (r->target_open)
		target__close(&r->target);
	outputs__free(&r->outputs);
}

int run__one(struct session *s, const struct machine *machine, struct last_run *run)
{
	struct run r = {
		.session = s,
		.opts = s->opts,
		.machine = machine,
		.begin_ns = clock__mono_ns(),
	};
	int code = run__prepare(&r, run->pid), err;

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

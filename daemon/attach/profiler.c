/* SPDX-License-Identifier: BSD-2-Clause */
#include "attach/profiler.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "attach/iter.h"
#include "attach/spent.h"
#include "attach/stacks.h"
#include "attach/standing.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "profile.skel.h"
#include "roletrace/spent.h"
#include "target/process.h"

#define WAKING 2	      /* of tracing */
#define MAX_WAKES 16384u      /* pairs of a waiter's and a waker's stack; 2 MB */
#define MAX_FUTEX_WAITS 8192u /* pairs of a futex and a stack; 0.8 MB */

struct profiler {
	const struct target *target;
	struct profiler_opts opts;
	struct stacks *stacks;
	struct profile_bpf *skel;
	struct bpf_link **events; /* one per CPU */
	int event_cnt;
	struct bpf_link *tracing[WAKING + 1];
	bool notes_older, wakers_dropped;
};

/* ---- loading ---- */

static int load(struct profiler *p)
{
	int err;

	p->skel = profile_bpf__open();
	if (!p->skel)
		return -errno;
	bpf_program__set_autoload(p->skel->progs.cpu_sample, p->opts.hz);
	bpf_program__set_autoload(p->skel->progs.off_cpu, p->opts.off_cpu);
	bpf_program__set_autoload(p->skel->progs.blocked_now, p->opts.off_cpu);
	bpf_program__set_autoload(p->skel->progs.waking, p->opts.wakers);
	p->skel->rodata->wakers = p->opts.wakers;
	p->skel->rodata->off_cpu_min_ns = p->opts.off_cpu_min_ns;
	err = stacks__share(p->stacks, p->skel->obj);
	err = err ?: bpf_map__set_max_entries(p->skel->maps.wakes, p->opts.wakers ? MAX_WAKES : 1);
	err = err
		      ?: bpf_map__set_max_entries(p->skel->maps.futex_waits,
						  p->opts.off_cpu ? MAX_FUTEX_WAITS : 1);
	return err ?: profile_bpf__load(p->skel);
}

/* ---- events ---- */

/* A clock of a CPU, whoever runs there: threads that come later need nothing. */
static int open_clock(int cpu, uint32_t hz)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_period = NS_PER_SEC / hz,
	};
	long fd = syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : (int)fd;
}

static int attach_clocks(struct profiler *p, char **reason)
{
	int cpus = libbpf_num_possible_cpus();

	p->events = calloc((size_t)(cpus > 0 ? cpus : 1), sizeof(*p->events));
	if (!p->events)
		return fail(reason, -ENOMEM, "out of memory");
	for (int cpu = 0; cpu < cpus; cpu++) {
		int fd = open_clock(cpu, p->opts.hz);

		if (fd == -ENODEV || fd == -ENXIO) /* offline */
			continue;
		if (fd < 0)
			return fail(reason, fd, "cannot sample CPU %d: %s", cpu, strerror(-fd));
		p->events[p->event_cnt] =
			bpf_program__attach_perf_event(p->skel->progs.cpu_sample, fd);
		if (!p->events[p->event_cnt]) {
			int err = -errno;

			close(fd);
			return fail(reason, err, "cannot sample CPU %d: %s", cpu, strerror(-err));
		}
		p->event_cnt++;
	}
	return p->event_cnt ? 0 : fail(reason, -ENODEV, "cannot sample any CPU");
}

static int attach_tracing(struct profiler *p, char **reason)
{
	const struct bpf_program *progs[] = { p->skel->progs.profile_exec, p->skel->progs.off_cpu,
					      p->skel->progs.waking };

	for (size_t i = 0; i < (p->opts.wakers ? 3 : p->opts.off_cpu ? 2 : 1); i++) {
		p->tracing[i] = bpf_program__attach(progs[i]);
		if (!p->tracing[i])
			return fail(reason, -errno, "cannot attach to '%s': %s",
				    bpf_program__name(progs[i]), strerror(errno));
	}
	return 0;
}

/* Without, the profile has all waits that begin. */
static void prepare_older(struct profiler *p)
{
	char *reason = NULL;
	int err;

	if (!p->opts.off_cpu || !p->opts.standing)
		return;
	err = standing__prepare(p->opts.standing, p->skel->maps.blocked, &reason);
	if (err)
		log_warn("%s", reason ? reason : strerror(-err));
	free(reason);
	p->notes_older = !err;
}

int profiler__new(const struct target *target, const struct object *obj, struct stacks *stacks,
		  const struct profiler_opts *opts, struct profiler **out, char **reason)
{
	struct profiler *p = calloc(1, sizeof(*p));
	rt_u32 tgid = 0;
	int err;

	*reason = NULL;
	if (!p)
		return -ENOMEM;
	p->target = target;
	p->stacks = stacks;
	p->opts = *opts;
	err = object__kernel_tgid(obj, target->pid, &tgid);
	if (!err && (err = load(p)))
		fail(reason, err, "cannot load the profile's BPF programs: %s", strerror(-err));
	if (!err) {
		p->skel->bss->target_tgid = tgid;
		prepare_older(p);
		err = attach_tracing(p, reason);
	}
	if (!err && p->opts.hz)
		err = attach_clocks(p, reason);
	if (err) {
		profiler__free(p);
		return err;
	}
	*out = p;
	return 0;
}

void profiler__start(struct profiler *p, uint64_t now_ns)
{
	p->skel->bss->start_ns = now_ns;
	p->skel->bss->running = 1;
	/* what blocks from here on notes itself */
	if (p->notes_older && standing__note_older(p->opts.standing, now_ns))
		log_warn("attach: waits that go on already are not in the off-CPU profile");
}

void profiler__stop(struct profiler *p)
{
	p->skel->bss->running = 0;
	object__synchronize();
}

void profiler__free(struct profiler *p)
{
	if (!p)
		return;
	for (int i = 0; i < p->event_cnt; i++)
		bpf_link__destroy(p->events[i]);
	free(p->events);
	for (size_t i = 0; i < sizeof(p->tracing) / sizeof(p->tracing[0]); i++)
		bpf_link__destroy(p->tracing[i]);
	profile_bpf__destroy(p->skel);
	free(p);
}

bool profiler__drop_wakers(struct profiler *p)
{
	if (!p->tracing[WAKING])
		return false;
	bpf_link__destroy(p->tracing[WAKING]);
	p->tracing[WAKING] = NULL;
	p->wakers_dropped = true;
	return true;
}

bool profiler__wakers_dropped(const struct profiler *p)
{
	return p->wakers_dropped;
}

/* ---- reading ---- */

const struct profiler_opts *profiler__opts(const struct profiler *p)
{
	return &p->opts;
}

int profiler__waits(const struct profiler *p,
		    void (*each)(void *arg, uint32_t place, uint64_t since_ns), void *arg)
{
	struct strbuf all = STRBUF_INIT;
	int err = iter__run(p->skel->progs.blocked_now, p->target->pid, &all);
	const struct rt_blocked *b = (const struct rt_blocked *)all.s;

	for (size_t i = 0; !err && i < all.len / sizeof(*b); i++)
		each(arg, b[i].place, b[i].since_ns);
	strbuf__free(&all);
	return err;
}

/* key: space for one, of whatever type the map has; its values are struct rt_waits. */
static int read_ended(const struct bpf_map *map, void *key, profiler_ended_fn each, void *arg)
{
	int fd = bpf_map__fd(map), err = 0;
	struct rt_waits waits;
	void *at = NULL;

	while (!err && !(err = bpf_map_get_next_key(fd, at, key))) {
		at = key;
		if (!bpf_map_lookup_elem(fd, key, &waits) && waits.cnt)
			each(arg, key, &waits);
	}
	return err == -ENOENT ? 0 : err;
}

int profiler__wakes(const struct profiler *p, profiler_ended_fn each, void *arg)
{
	struct rt_wake key;

	return read_ended(p->skel->maps.wakes, &key, each, arg);
}

int profiler__futex_waits(const struct profiler *p, profiler_ended_fn each, void *arg)
{
	struct rt_lock_wait key;

	return read_ended(p->skel->maps.futex_waits, &key, each, arg);
}

void profiler__counts(const struct profiler *p, struct profiler_counts *out)
{
	const struct profile_bpf__bss *b = p->skel->bss;

	*out = (struct profiler_counts){
		.samples = b->cpu_samples,
		.waits = b->off_cpu_waits,
		.waits_ns = b->off_cpu_ns,
		.short_waits = b->off_cpu_short,
		.short_ns = b->off_cpu_short_ns,
		.samples_lost = b->cpu_lost,
		.waits_lost = b->off_cpu_lost,
		.older_waits = p->notes_older ? standing__older(p->opts.standing) : 0,
		.no_storage = b->no_storage,
		.wakes_lost = b->wakes_lost,
		.futex_waits_lost = b->futex_waits_lost,
	};
}

uint64_t profiler__spent_ns(const struct profiler *p, uint64_t *runs)
{
	return spent__ns(p->skel->maps.spent, RT_SPENT_WAKER + 1, runs);
}

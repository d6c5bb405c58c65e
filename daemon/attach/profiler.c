/* SPDX-License-Identifier: BSD-2-Clause */
#include "attach/profiler.h"
#include "attach/mapped.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "attach/unwinder.h"
#include "base/clock.h"
#include "profile.skel.h"
#include "target/process.h"

#define DEFAULT_STACKS 16384u
#define FRAMES_PER_STACK 32u
#define MIN_FRAMES 4096u
#define USES 2u /* of the scratch, as in profile.bpf.c */

struct profiler {
	const struct target *target;
	struct profiler_opts opts;
	struct unwinder *unwinder;
	struct profile_bpf *skel;
	struct bpf_link **events; /* one per CPU */
	int event_cnt;
	struct bpf_link *tracing[2];
	const struct rt_kept_stack *stacks;
	const uint64_t *frames;
	uint32_t stack_cnt, frame_cnt;
};

static int fail(char **reason, int err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(reason, fmt, ap) < 0)
		*reason = NULL;
	va_end(ap);
	return err;
}

/* ---- loading ---- */

static uint32_t power_of_two_up_to(uint32_t n)
{
	uint32_t p = 1;

	while (p * 2 <= n)
		p *= 2;
	return p;
}

static void set_knobs(struct profiler *p)
{
	struct profile_bpf *skel = p->skel;
	uint64_t seed = 0;

	p->stack_cnt = power_of_two_up_to(p->opts.stack_cnt ?: DEFAULT_STACKS);
	p->frame_cnt = p->stack_cnt * FRAMES_PER_STACK;
	if (p->frame_cnt < MIN_FRAMES)
		p->frame_cnt = MIN_FRAMES;
	/* nobody can choose stacks that fall on one place */
	if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != sizeof(seed))
		seed = clock__mono_ns();
	skel->rodata->kept_mask = p->stack_cnt - 1;
	skel->rodata->kept_frame_cnt = p->frame_cnt;
	skel->rodata->kept_seed = seed | 1;
	skel->rodata->off_cpu_min_ns = p->opts.off_cpu_min_ns;
	skel->rodata->by_thread = p->opts.by_thread;
}

static int size_maps(struct profiler *p)
{
	struct profile_bpf *skel = p->skel;
	const struct unwinder_maps maps = {
		.maps = skel->maps.unwind_maps,
		.dir = skel->maps.unwind_dir,
		.objects = skel->maps.unwind_objects,
		.pages = skel->maps.unwind_pages,
		.rows = skel->maps.unwind_rows,
		.rules = skel->maps.unwind_rules,
	};
	int cpus = libbpf_num_possible_cpus(), err;

	if (cpus < 0)
		return cpus;
	err = unwinder__size(p->unwinder, &maps);
	err = err ?: bpf_map__set_max_entries(skel->maps.unwind_scratch, (uint32_t)cpus * USES);
	err = err ?: bpf_map__set_max_entries(skel->maps.kept_stacks, p->stack_cnt);
	return err ?: bpf_map__set_max_entries(skel->maps.kept_frames, p->frame_cnt);
}

static int load(struct profiler *p)
{
	int err;

	p->skel = profile_bpf__open();
	if (!p->skel)
		return -errno;
	bpf_program__set_autoload(p->skel->progs.cpu_sample, p->opts.hz);
	bpf_program__set_autoload(p->skel->progs.off_cpu, p->opts.off_cpu);
	bpf_program__set_autoload(p->skel->progs.blocked_now, p->opts.off_cpu);
	set_knobs(p);
	err = size_maps(p);
	err = err ?: profile_bpf__load(p->skel);
	err = err ?: unwinder__fill(p->unwinder);
	err = err ?: mapped__new_readonly(p->skel->maps.kept_stacks, &p->stacks);
	return err ?: mapped__new_readonly(p->skel->maps.kept_frames, &p->frames);
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
	const struct bpf_program *progs[] = { p->skel->progs.profile_exec, p->skel->progs.off_cpu };

	for (size_t i = 0; i < (p->opts.off_cpu ? 2 : 1); i++) {
		p->tracing[i] = bpf_program__attach(progs[i]);
		if (!p->tracing[i])
			return fail(reason, -errno, "cannot attach to '%s': %s",
				    bpf_program__name(progs[i]), strerror(errno));
	}
	return 0;
}

int profiler__new(const struct target *target, const struct object *obj,
		  const struct profiler_opts *opts, struct profiler **out, char **reason)
{
	struct profiler *p = calloc(1, sizeof(*p));
	rt_u32 tgid = 0;
	int err;

	*reason = NULL;
	if (!p)
		return -ENOMEM;
	p->target = target;
	p->opts = *opts;
	err = object__kernel_tgid(obj, target->pid, &tgid);
	if (!err)
		err = unwinder__new(target, &p->unwinder, reason);
	if (!err) {
		err = load(p);
		if (err)
			fail(reason, err, "cannot load the profile's BPF programs: %s",
			     strerror(-err));
	}
	if (!err) {
		p->skel->bss->target_tgid = tgid;
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

void profiler__start(struct profiler *p)
{
	p->skel->bss->running = 1;
}

void profiler__tick(struct profiler *p, uint64_t now_ns)
{
	if (p->skel->bss->running)
		unwinder__look(p->unwinder, now_ns, p->skel->bss->unknown_pcs);
}

int profiler__fd(const struct profiler *p)
{
	return unwinder__fd(p->unwinder);
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
	if (p->skel) {
		mapped__free(p->skel->maps.kept_stacks, p->stacks);
		mapped__free(p->skel->maps.kept_frames, p->frames);
	}
	unwinder__free(p->unwinder);
	profile_bpf__destroy(p->skel);
	free(p);
}

/* ---- reading ---- */

const struct profiler_opts *profiler__opts(const struct profiler *p)
{
	return &p->opts;
}

const struct code *profiler__code(const struct profiler *p)
{
	return unwinder__code(p->unwinder);
}

uint32_t profiler__place_cnt(const struct profiler *p)
{
	return p->stack_cnt;
}

/* The name that keep_name put in front. False: there is none. */
static bool take_name(struct profiler_stack *s)
{
	uint64_t f[RT_NAME_FRAMES];
	size_t at = 0;

	for (uint32_t i = 0; i < RT_NAME_FRAMES; i++) {
		if (i >= s->depth || RT_FRAME_OBJECT(s->frames[i]) != RT_OBJECT_NAME)
			return false;
		f[i] = RT_FRAME_VADDR(s->frames[i]);
	}
	for (size_t i = 0; i + 1 < sizeof(s->thread); i++, at++)
		s->thread[i] = (char)(f[at / RT_NAME_FRAME_BYTES] >> at % RT_NAME_FRAME_BYTES * 8);
	s->frames += RT_NAME_FRAMES;
	s->depth -= RT_NAME_FRAMES;
	return true;
}

bool profiler__stack(const struct profiler *p, uint32_t place, struct profiler_stack *out)
{
	const struct rt_kept_stack *s = &p->stacks[place];

	if (place >= p->stack_cnt || __atomic_load_n(&s->ready, __ATOMIC_ACQUIRE) != RT_STACK_READY)
		return false;
	*out = (struct profiler_stack){
		.kind = s->kind,
		.end = s->end,
		.cnt = *(volatile const rt_u64 *)&s->cnt,
		.total_ns = *(volatile const rt_u64 *)&s->total,
		.frames = p->frames + s->first,
		.depth = s->depth,
	};
	return s->first + s->depth <= p->frame_cnt && (!p->opts.by_thread || take_name(out));
}

int profiler__waits(const struct profiler *p,
		    void (*each)(void *arg, uint32_t place, uint64_t since_ns), void *arg)
{
	union bpf_iter_link_info info = { .task.pid = (rt_u32)p->target->pid };
	LIBBPF_OPTS(bpf_iter_attach_opts, opts, .link_info = &info, .link_info_len = sizeof(info));
	struct bpf_link *link;
	struct rt_blocked b[64];
	ssize_t n;
	int fd, err = 0;

	link = bpf_program__attach_iter(p->skel->progs.blocked_now, &opts);
	if (!link)
		return -errno;
	fd = bpf_iter_create(bpf_link__fd(link));
	if (fd < 0)
		err = fd;
	while (!err && (n = read(fd, b, sizeof(b))) > 0)
		for (size_t i = 0; i < (size_t)n / sizeof(b[0]); i++)
			each(arg, b[i].place, b[i].since_ns);
	if (fd >= 0)
		close(fd);
	bpf_link__destroy(link);
	return err;
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
		.no_storage = b->no_storage,
		.bare_files = unwinder__bare(p->unwinder),
	};
}

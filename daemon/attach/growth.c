/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which tracepoints: those of the memory map's lock, whose arguments changed when they became cheap
 * (the older ones look up the name of a cgroup at each use of the lock by any process). Not those
 * of system calls: they cost each call of each process.
 */
#include "attach/growth.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attach/growthsample.h"
#include "attach/mapped.h"
#include "attach/spent.h"
#include "attach/stacks.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "functions.skel.h"
#include "roletrace/spent.h"
#include "growth.skel.h"

#define PROGRAM_CNT 4
#define LOCK_ARGUMENTS 3u	  /* of the tracepoint: its data, the map, whether to write */
#define STACKS_SHARE 0.25	  /* of the budget, for native stacks */
#define LOOK_NS (NS_PER_SEC / 5.) /* about */

struct growth {
	struct growth_bpf *skel;
	const struct target *target;
	const char *why;
	rt_u32 shards;
	size_t page;
	struct bpf_link *links[PROGRAM_CNT];
	struct rt_growth *rows;		  /* mapped */
	const struct stacks *stacks;	  /* NULL: no native stacks */
	struct rt_growth_stack *by_stack; /* mapped */
	struct growthsample sample[RT_GROWTH_EVENTS];
	uint64_t taken_ns[RT_GROWTH_EVENTS]; /* of the last look */
	uint64_t quota_ns;		     /* for stacks of each event, a look; 0: no limit */
};

static void programs(const struct growth *g, struct bpf_program *out[PROGRAM_CNT])
{
	bool native = g->stacks != NULL;

	out[0] = g->skel->progs.growth_exec;
	out[1] = native ? g->skel->progs.fault_user_native : g->skel->progs.fault_user;
	out[2] = native ? g->skel->progs.fault_kernel_native : g->skel->progs.fault_kernel;
	out[3] = native ? g->skel->progs.map_changed_native : g->skel->progs.map_changed;
}

/* How many arguments a tracepoint of this kernel has; 0: there is none of that name. */
static unsigned int arguments(const struct btf *btf, const char *tracepoint)
{
	const struct btf_type *t;
	char name[64];
	int id;

	snprintf(name, sizeof(name), "btf_trace_%s", tracepoint);
	id = btf__find_by_name_kind(btf, name, BTF_KIND_TYPEDEF);
	t = id > 0 ? btf__type_by_id(btf, (__u32)id) : NULL;
	while (t && (btf_is_typedef(t) || btf_is_ptr(t)))
		t = btf__type_by_id(btf, t->type);
	return t && btf_is_func_proto(t) ? btf_vlen(t) : 0;
}

bool growth__has_map_events(const struct btf *btf)
{
	return btf && arguments(btf, "mmap_lock_released") == LOCK_ARGUMENTS;
}

/* Of the programs that there are twice, those that are wanted; what the kernel has. */
static void choose(struct growth *g, const struct attach_mode *mode)
{
	struct btf *btf = btf__load_vmlinux_btf();
	bool locks = !mode->no_map_events && growth__has_map_events(btf);
	struct bpf_program *prog, *progs[PROGRAM_CNT];

	bpf_object__for_each_program(prog, g->skel->obj) bpf_program__set_autoload(prog, false);
	programs(g, progs);
	bpf_program__set_autoload(progs[0], true);
	bpf_program__set_autoload(progs[1], btf && arguments(btf, "page_fault_user"));
	bpf_program__set_autoload(progs[2], btf && arguments(btf, "page_fault_kernel"));
	bpf_program__set_autoload(progs[3], locks);
	if (!locks)
		g->why = "this kernel does not tell cheaply when a memory map changes (Linux 6.13)";
	btf__free(btf);
}

static int set_up_stacks(struct growth *g)
{
	struct growth_bpf *skel = g->skel;
	int err = stacks__share(g->stacks, skel->obj);

	if (err)
		return err;
	if (!g->stacks)
		return bpf_map__set_autocreate(skel->maps.grown_stacks, false);
	skel->rodata->lost_place = stacks__place_cnt(g->stacks);
	skel->bss->quota_ns = g->quota_ns;
	for (int i = 0; i < RT_GROWTH_EVENTS; i++) {
		skel->bss->sample_shift[i] = g->sample[i].base;
		skel->bss->limit_ns[i] = g->quota_ns ?: UINT64_MAX;
	}
	return bpf_map__set_max_entries(skel->maps.grown_stacks, stacks__place_cnt(g->stacks) + 1);
}

static int load(struct growth *g, const struct object *functions, rt_u32 tgid)
{
	struct growth_bpf *skel = growth_bpf__open();
	bool paths = !functions->mode.stacks_by_tid;
	int err;

	if (!skel)
		return -errno;
	g->skel = skel;
	choose(g, &functions->mode);
	skel->rodata->shard_mask = g->shards - 1;
	skel->rodata->with_paths = paths;
	skel->bss->target_tgid = tgid;
	if (paths)
		err = bpf_map__reuse_fd(skel->maps.stacks,
					bpf_map__fd(functions->skel->maps.stacks));
	else
		err = bpf_map__set_autocreate(skel->maps.stacks, false);
	err = err
		      ?: bpf_map__set_max_entries(skel->maps.grown,
						  (functions->path_cnt + RT_PATH_FIRST) *
							  g->shards);
	err = err ?: set_up_stacks(g);
	err = err ?: growth_bpf__load(skel);
	err = err ?: mapped__new_readonly(skel->maps.grown, &g->rows);
	return err || !g->stacks ? err
				 : mapped__new_readonly(skel->maps.grown_stacks, &g->by_stack);
}

static void unload(struct growth *g)
{
	if (!g->skel)
		return;
	mapped__free(g->skel->maps.grown, g->rows);
	mapped__free(g->skel->maps.grown_stacks, g->by_stack);
	growth_bpf__destroy(g->skel);
	g->skel = NULL;
	g->rows = NULL;
	g->by_stack = NULL;
}

/* Native stacks are more than every kernel takes: all else works without. */
static int load_with_stacks(struct growth *g, const struct object *functions, rt_u32 tgid)
{
	int err = load(g, functions, tgid);

	if (!err || !g->stacks)
		return err;
	log_warn("--memory growth has no native stacks: the kernel refuses to take them: %s",
		 strerror(-err));
	unload(g);
	g->stacks = NULL;
	return load(g, functions, tgid);
}

static int attach(struct growth *g)
{
	struct bpf_program *progs[PROGRAM_CNT];

	programs(g, progs);
	for (size_t i = 0; i < PROGRAM_CNT; i++) {
		if (!bpf_program__autoload(progs[i]))
			continue;
		g->links[i] = bpf_program__attach(progs[i]);
		if (!g->links[i])
			return -errno;
	}
	return 0;
}

int growth__new(const struct object *functions, const struct target *target, rt_u32 tgid,
		const struct growth_opts *opts, struct growth **out, char **reason)
{
	struct growth *g = calloc(1, sizeof(*g));
	int err;

	if (!g)
		return -ENOMEM;
	g->target = target;
	g->shards = functions->shards;
	g->page = (size_t)sysconf(_SC_PAGESIZE);
	g->stacks = opts->stacks;
	if (opts->budget >= 0)
		g->quota_ns =
			(uint64_t)(opts->budget * STACKS_SHARE / RT_GROWTH_EVENTS * LOOK_NS) + 1;
	growthsample__init(&g->sample[RT_GROWTH_MAP], 1);
	growthsample__init(&g->sample[RT_GROWTH_FAULT], opts->sample_bytes);
	err = load_with_stacks(g, functions, tgid);
	if (err)
		err = fail(reason, err, "cannot load the growth programs: %s", strerror(-err));
	else if ((err = attach(g)))
		err = fail(reason, err, "cannot attach to the kernel's memory events: %s",
			   strerror(-err));
	if (err) {
		growth__free(g);
		return err;
	}
	*out = g;
	return 0;
}

void growth__free(struct growth *g)
{
	if (!g)
		return;
	for (size_t i = 0; i < PROGRAM_CNT; i++)
		bpf_link__destroy(g->links[i]);
	unload(g);
	free(g);
}

/* ---- from when on ---- */

static rt_u64 pages_of(const struct growth *g, const char *status, const char *key)
{
	const char *at = strstr(status, key);

	return at ? strtoull(at + strlen(key), NULL, 10) * 1024 / g->page : 0;
}

/* The first value, unless the programs have seen a newer one. */
static void put(rt_u64 *last, rt_u64 pages)
{
	rt_u64 unknown = 0;

	__atomic_compare_exchange_n(last, &unknown, pages + 1, false, __ATOMIC_SEQ_CST,
				    __ATOMIC_SEQ_CST);
}

void growth__start(struct growth *g)
{
	struct strbuf sb = STRBUF_INIT;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/status", g->target->pid,
		 g->target->proc_tid);
	if (!fs__read(path, &sb) && strstr(sb.s, "\nVmSize:")) {
		put(&g->skel->bss->last.total_pages, pages_of(g, sb.s, "\nVmSize:"));
		put(&g->skel->bss->last.data_pages, pages_of(g, sb.s, "\nVmData:"));
	}
	strbuf__free(&sb);
	g->skel->bss->gate = 1;
}

void growth__stop(struct growth *g)
{
	g->skel->bss->gate = 0;
}

/* The programs raise it meanwhile: then that holds. */
static void set_shift(struct growth *g, int event, rt_u32 was, rt_u32 shift)
{
	volatile rt_u32 *at = &g->skel->bss->sample_shift[event];

	__atomic_compare_exchange_n(at, &was, shift, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

void growth__tick(struct growth *g, uint64_t took_ns)
{
	struct growth_bpf__bss *bss = g->skel->bss;

	for (int i = 0; g->stacks && bss->quota_ns && i < RT_GROWTH_EVENTS; i++) {
		uint64_t ns = *(volatile rt_u64 *)&bss->taken[i].ns;
		double quota = (double)bss->quota_ns * (double)took_ns / LOOK_NS;
		rt_u32 shift = bss->sample_shift[i];

		set_shift(g, i, shift,
			  growthsample__look(&g->sample[i], shift,
					     (double)(ns - g->taken_ns[i]) / quota));
		g->taken_ns[i] = ns;
		*(volatile rt_u64 *)&bss->limit_ns[i] = ns + bss->quota_ns;
	}
}

const char *growth__why(const struct growth *g)
{
	return g->why;
}

/* ---- reading ---- */

void growth__path(const struct growth *g, rt_u32 path, struct rt_growth *out)
{
	memset(out, 0, sizeof(*out));
	for (rt_u32 i = 0; i < g->shards; i++) {
		const volatile struct rt_growth *r = &g->rows[path * g->shards + i];

		out->mapped_pages += r->mapped_pages;
		out->unmapped_pages += r->unmapped_pages;
		out->data_pages += r->data_pages;
		out->faults += r->faults;
	}
}

void growth__threads(const struct growth *g,
		     void (*each)(void *arg, const char comm[RT_COMM_BYTES],
				  const struct rt_growth *row),
		     void *arg)
{
	int fd = bpf_map__fd(g->skel->maps.by_thread);
	char key[RT_COMM_BYTES], *at = NULL;
	struct rt_growth row;

	/* rows never go, so none is met twice */
	while (!bpf_map_get_next_key(fd, at, key)) {
		at = key;
		if (!bpf_map_lookup_elem(fd, key, &row))
			each(arg, key, &row);
	}
}

const struct stacks *growth__stacks(const struct growth *g)
{
	return g->stacks;
}

void growth__stack(const struct growth *g, rt_u32 place, struct rt_growth_stack *out)
{
	const volatile struct rt_growth_stack *s = &g->by_stack[place];

	*out = (struct rt_growth_stack){ .changes = s->changes,
					 .mapped = s->mapped,
					 .unmapped = s->unmapped,
					 .data_up = s->data_up,
					 .data_down = s->data_down,
					 .faults = s->faults,
					 .map_squares = s->map_squares,
					 .fault_squares = s->fault_squares };
}

void growth__sampled(const struct growth *g, enum rt_growth_event event, uint64_t *low,
		     uint64_t *high)
{
	struct growthsample sample = g->sample[event];

	growthsample__note(&sample, g->skel->bss->sample_shift[event]);
	*low = growthsample__bytes(sample.low);
	*high = growthsample__bytes(sample.high);
}

void growth__taken(const struct growth *g, struct rt_growth_taken *out)
{
	*out = (struct rt_growth_taken){};
	for (int i = 0; g->stacks && i < RT_GROWTH_EVENTS; i++) {
		out->cnt += *(volatile rt_u64 *)&g->skel->bss->taken[i].cnt;
		out->ns += *(volatile rt_u64 *)&g->skel->bss->taken[i].ns;
		out->lost += *(volatile rt_u64 *)&g->skel->bss->taken[i].lost;
	}
}

/* A program is missed in its own midst only: of faults those of the kernel that it does not wait
 * for (our own reading of a stack), and these touch nothing. */
rt_u64 growth__missed(const struct growth *g)
{
	struct bpf_program *progs[PROGRAM_CNT];
	rt_u64 n = 0;

	programs(g, progs);
	for (size_t i = 0; i < PROGRAM_CNT; i++) {
		bool faults = i == 1 || i == 2;
		struct bpf_prog_info info = {};
		__u32 len = sizeof(info);

		if (!faults && g->links[i] &&
		    !bpf_prog_get_info_by_fd(bpf_program__fd(progs[i]), &info, &len))
			n += info.recursion_misses;
	}
	return n;
}

uint64_t growth__spent_ns(const struct growth *g, uint64_t *runs)
{
	return spent__ns(g->skel->maps.spent, RT_SPENT_MAP + 1, runs);
}

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

#include "attach/mapped.h"
#include "attach/spent.h"
#include "base/fail.h"
#include "base/fs.h"
#include "base/strbuf.h"
#include "functions.skel.h"
#include "roletrace/spent.h"
#include "growth.skel.h"

#define PROGRAM_CNT 4
#define LOCK_ARGUMENTS 3u /* of the tracepoint: its data, the map, whether to write */

struct growth {
	struct growth_bpf *skel;
	const struct target *target;
	const char *why;
	rt_u32 shards;
	size_t page;
	struct bpf_link *links[PROGRAM_CNT];
	struct rt_growth *rows; /* mapped */
};

static void programs(const struct growth *g, struct bpf_program *out[PROGRAM_CNT])
{
	out[0] = g->skel->progs.growth_exec;
	out[1] = g->skel->progs.fault_user;
	out[2] = g->skel->progs.fault_kernel;
	out[3] = g->skel->progs.map_changed;
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

static void choose(struct growth *g, const struct attach_mode *mode)
{
	struct btf *btf = btf__load_vmlinux_btf();
	bool locks = !mode->no_map_events && growth__has_map_events(btf);

	bpf_program__set_autoload(g->skel->progs.fault_user,
				  btf && arguments(btf, "page_fault_user"));
	bpf_program__set_autoload(g->skel->progs.fault_kernel,
				  btf && arguments(btf, "page_fault_kernel"));
	bpf_program__set_autoload(g->skel->progs.map_changed, locks);
	if (!locks)
		g->why = "this kernel does not tell cheaply when a memory map changes (Linux 6.13)";
	btf__free(btf);
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
	err = err ?: growth_bpf__load(skel);
	return err ?: mapped__new_readonly(skel->maps.grown, &g->rows);
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
		struct growth **out, char **reason)
{
	struct growth *g = calloc(1, sizeof(*g));
	int err;

	if (!g)
		return -ENOMEM;
	g->target = target;
	g->shards = functions->shards;
	g->page = (size_t)sysconf(_SC_PAGESIZE);
	err = load(g, functions, tgid);
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
	if (g->skel) {
		mapped__free(g->skel->maps.grown, g->rows);
		growth_bpf__destroy(g->skel);
	}
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

rt_u64 growth__missed(const struct growth *g)
{
	struct bpf_program *progs[PROGRAM_CNT];
	rt_u64 n = 0;

	programs(g, progs);
	for (size_t i = 0; i < PROGRAM_CNT; i++) {
		struct bpf_prog_info info = {};
		__u32 len = sizeof(info);

		if (g->links[i] && !bpf_prog_get_info_by_fd(bpf_program__fd(progs[i]), &info, &len))
			n += info.recursion_misses;
	}
	return n;
}

uint64_t growth__spent_ns(const struct growth *g, uint64_t *runs)
{
	return spent__ns(g->skel->maps.spent, RT_SPENT_MAP + 1, runs);
}

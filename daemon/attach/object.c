/* SPDX-License-Identifier: BSD-2-Clause */
#include "attach/object.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/membarrier.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "attach/doorbell.h"
#include "attach/iter.h"
#include "attach/mapped.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "functions.skel.h"

#define POOL_MAX_BYTES (16u << 20)
#define CHUNKS_PER_FN 8u /* a function's times spread over some 6 octaves */
#define MIN_CHUNKS 1024u
#define EDGES_PER_FN 8u
#define MIN_EDGES 1024u
#define MAX_EDGES (1u << 18)
#define PATHS_PER_FN 16u
#define MIN_PATHS 1024u

static int to_debug_log(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	char line[900];
	int n = vsnprintf(line, sizeof(line), fmt, ap);

	if (n > 0 && n < (int)sizeof(line) && line[n - 1] == '\n')
		line[n - 1] = '\0';
	if (level != LIBBPF_DEBUG)
		log_debug("attach: %s", line);
	return 0;
}

void object__log(void)
{
	libbpf_set_print(to_debug_log);
}

static rt_u32 power_of_two_at_least(rt_u32 n)
{
	rt_u32 p = 1;

	while (p < n)
		p *= 2;
	return p;
}

static rt_u32 pick_shards(void)
{
	int cpus = libbpf_num_possible_cpus();
	rt_u32 n = cpus < 1 ? 1 : power_of_two_at_least((rt_u32)cpus);

	return n < RT_MAX_SHARDS ? n : RT_MAX_SHARDS;
}

static rt_u32 clamp(rt_u32 v, rt_u32 lo, rt_u32 hi)
{
	return v < lo ? lo : v > hi ? hi : v;
}

static int size_maps(struct object *obj, rt_u32 rows, bool raw)
{
	struct functions_bpf *skel = obj->skel;
	rt_u32 shards = obj->shards,
	       pool_max = POOL_MAX_BYTES / (rt_u32)sizeof(struct rt_hist_chunk);
	int err;

	obj->chunk_cnt = clamp(rows * CHUNKS_PER_FN, MIN_CHUNKS, pool_max / shards);
	obj->edge_cnt = power_of_two_at_least(
		clamp(rows * EDGES_PER_FN, MIN_EDGES, MAX_EDGES / shards) * shards);
	skel->rodata->shard_mask = shards - 1;
	skel->rodata->hist_chunks = obj->chunk_cnt;
	skel->rodata->edge_mask = obj->edge_cnt - 1;
	obj->path_cnt = power_of_two_at_least(clamp(rows * PATHS_PER_FN, MIN_PATHS, RT_MAX_PATHS));
	skel->rodata->path_mask = obj->path_cnt - 1;
	skel->rodata->raw = raw;

	err = bpf_map__set_max_entries(skel->maps.fn_stats, rows * shards);
	err = err ?: bpf_map__set_max_entries(skel->maps.fn_confs, rows);
	err = err ?: bpf_map__set_max_entries(skel->maps.hist_dirs, rows);
	err = err ?: bpf_map__set_max_entries(skel->maps.hist_pool, obj->chunk_cnt * shards);
	err = err ?: bpf_map__set_max_entries(skel->maps.edges, obj->edge_cnt);
	err = err ?: bpf_map__set_max_entries(skel->maps.paths, obj->path_cnt);
	err = err
		      ?: bpf_map__set_max_entries(skel->maps.path_stats,
						  (obj->path_cnt + RT_PATH_FIRST) * shards);
	return err;
}

/* The programs and maps that the mode takes. */
static int apply_mode(struct functions_bpf *skel, const struct attach_mode *mode)
{
	struct bpf_program *probes[] = { skel->progs.site, skel->progs.uret_entry,
					 skel->progs.uret_exit, skel->progs.empty,
					 skel->progs.empty_ret };
	int err = 0;

	/* the kind of link decides about the kind of program */
	for (size_t i = 0; i < sizeof(probes) / sizeof(probes[0]) && mode->single_probes; i++)
		err = err ?: bpf_program__set_expected_attach_type(probes[i], 0);
	skel->rodata->stacks_by_tid = mode->stacks_by_tid;
	err = err ?: bpf_map__set_autocreate(skel->maps.stacks, !mode->stacks_by_tid);
	err = err ?: bpf_map__set_autocreate(skel->maps.tid_stacks, mode->stacks_by_tid);
	return err ?: bpf_map__set_autocreate(skel->maps.blank_stack, mode->stacks_by_tid);
}

int object__load(rt_u32 fn_cnt, bool raw, const struct attach_mode *mode, struct object *out)
{
	struct object obj = { .mode = *mode, .fn_cnt = fn_cnt, .shards = pick_shards() };
	int err;

	object__log();
	obj.skel = functions_bpf__open();
	if (!obj.skel)
		return -errno;
	err = size_maps(&obj, fn_cnt + OBJECT_CALIBRATION_FNS, raw);
	err = err ?: apply_mode(obj.skel, mode);
	err = err ?: functions_bpf__load(obj.skel);
	err = err ?: mapped__new(obj.skel->maps.fn_stats, &obj.stats);
	err = err ?: mapped__new(obj.skel->maps.fn_confs, &obj.confs);
	err = err ?: mapped__new(obj.skel->maps.hist_dirs, &obj.hist_dirs);
	err = err ?: mapped__new(obj.skel->maps.hist_pool, &obj.hist_pool);
	err = err ?: mapped__new(obj.skel->maps.edges, &obj.edges);
	err = err ?: mapped__new(obj.skel->maps.paths, &obj.paths);
	err = err ?: mapped__new(obj.skel->maps.path_stats, &obj.path_stats);
	if (!err && !(obj.doorbell = doorbell__new(obj.skel->maps.doorbell)))
		err = -errno;
	if (err) {
		object__unload(&obj);
		return err;
	}
	*out = obj;
	return 0;
}

void object__unload(struct object *obj)
{
	doorbell__free(obj->doorbell);
	if (obj->skel) {
		mapped__free(obj->skel->maps.fn_stats, obj->stats);
		mapped__free(obj->skel->maps.fn_confs, obj->confs);
		mapped__free(obj->skel->maps.hist_dirs, obj->hist_dirs);
		mapped__free(obj->skel->maps.hist_pool, obj->hist_pool);
		mapped__free(obj->skel->maps.edges, obj->edges);
		mapped__free(obj->skel->maps.paths, obj->paths);
		mapped__free(obj->skel->maps.path_stats, obj->path_stats);
		functions_bpf__destroy(obj->skel);
	}
	memset(obj, 0, sizeof(*obj));
}

/* Threads that ended while nobody looked must not lend their stack to another of that id. */
static void forget_stacks(const struct object *obj)
{
	int fd = bpf_map__fd(obj->skel->maps.tid_stacks);
	rt_u32 tid;

	while (obj->mode.stacks_by_tid && !bpf_map_get_next_key(fd, NULL, &tid))
		if (bpf_map_delete_elem(fd, &tid))
			break;
}

void object__reset(struct object *obj)
{
	rt_u32 rows = obj->fn_cnt + OBJECT_CALIBRATION_FNS;
	size_t chunks;

	/* touches only what was used: untouched rows of a huge plan stay out of our memory */
	for (rt_u32 i = obj->fn_cnt; i < rows; i++) {
		memset(&obj->stats[i * obj->shards], 0, obj->shards * sizeof(*obj->stats));
		memset(&obj->hist_dirs[i], 0, sizeof(*obj->hist_dirs));
	}
	chunks = obj->skel->bss->chunks_taken + 1;
	if (chunks > obj->chunk_cnt)
		chunks = obj->chunk_cnt;
	memset(obj->hist_pool, 0, chunks * obj->shards * sizeof(*obj->hist_pool));
	for (rt_u32 i = 0; i < obj->path_cnt; i++) {
		if (!obj->paths[i])
			continue;
		memset(&obj->path_stats[(i + RT_PATH_FIRST) * obj->shards], 0,
		       obj->shards * sizeof(*obj->path_stats));
		obj->paths[i] = 0;
	}
	memset(obj->skel->bss->lost, 0, sizeof(obj->skel->bss->lost));
	forget_stacks(obj);
	obj->skel->bss->chunks_taken = 0;
	obj->skel->bss->exit_code = 0;
}

void object__fn_stats(const struct object *obj, rt_u32 fn, struct rt_fn_stats *out)
{
	memset(out, 0, sizeof(*out));
	for (rt_u32 i = 0; i < obj->shards; i++) {
		const volatile struct rt_fn_stats *s = &obj->stats[fn * obj->shards + i];
		rt_u64 min_inv_ns = s->min_inv_ns, max_ns = s->max_ns;

		/* calls last: an event that falls between is a call in flight, never a return too
		 * many */
		out->returned += s->returned;
		out->unwound += s->unwound;
		out->untimed += s->untimed;
		out->stepped += s->stepped;
		out->tail_exits += s->tail_exits;
		out->sum_ns += s->sum_ns;
		out->nested_ns += s->nested_ns;
		out->inner_ns += s->inner_ns;
		out->corrected_ns += s->corrected_ns;
		out->clamped += s->clamped;
		out->zero_cnt += s->zero_cnt;
		out->misses += s->misses;
		out->min_inv_ns = min_inv_ns > out->min_inv_ns ? min_inv_ns : out->min_inv_ns;
		out->max_ns = max_ns > out->max_ns ? max_ns : out->max_ns;
	}
	for (rt_u32 i = 0; i < obj->shards; i++) {
		const volatile struct rt_fn_stats *s = &obj->stats[fn * obj->shards + i];

		out->calls += s->calls;
		out->unsampled += s->unsampled;
	}
}

void object__reset_fn(struct object *obj, rt_u32 fn)
{
	struct rt_fn_stats *s = &obj->stats[fn * obj->shards];

	for (rt_u32 i = 0; i < obj->shards; i++)
		if (s[i].calls || s[i].unsampled)
			memset(&s[i], 0, sizeof(s[i]));
}

void object__fn_hits(const struct object *obj, rt_u32 fn, rt_u64 *entries, rt_u64 *exits,
		     rt_u64 *stepped)
{
	*entries = *exits = *stepped = 0;
	for (rt_u32 i = 0; i < obj->shards; i++) {
		const volatile struct rt_fn_stats *s = &obj->stats[fn * obj->shards + i];

		*entries += s->calls + s->unsampled;
		*exits += s->returned + s->misses;
		*stepped += s->stepped;
	}
}

void object__fn_hist(const struct object *obj, rt_u32 fn, rt_u64 places[RT_HIST_BUCKETS])
{
	memset(places, 0, RT_HIST_BUCKETS * sizeof(*places));
	for (rt_u32 c = 0; c < RT_HIST_CHUNKS; c++) {
		rt_u32 chunk = *(volatile rt_u32 *)&obj->hist_dirs[fn].chunk[c];

		if (!chunk || chunk >= obj->chunk_cnt)
			continue;
		for (rt_u32 i = 0; i < obj->shards; i++)
			for (rt_u32 b = 0; b < RT_HIST_CHUNK; b++)
				places[c * RT_HIST_CHUNK + b] +=
					obj->hist_pool[chunk * obj->shards + i].count[b];
	}
}

int object__kernel_tgid(const struct object *obj, int pid, rt_u32 *out)
{
	struct strbuf none = STRBUF_INIT;
	int err;

	obj->skel->bss->found_tgid = 0;
	err = iter__run(obj->skel->progs.identify, pid, &none);
	strbuf__free(&none);
	if (err)
		return err;
	*out = obj->skel->bss->found_tgid;
	return *out ? 0 : -ESRCH;
}

void object__synchronize(void)
{
	/* a grace period of RCU on machines with more than one CPU; on one, a sleep lets others run
	 */
	syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0);
	usleep(1000);
}

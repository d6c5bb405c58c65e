/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The loaded BPF object: maps sized for a plan, mapped into memory. Polling is reading memory.
 * Owns the skeleton; knows nothing of links or of what the numbers mean.
 */
#ifndef ATTACH_OBJECT_H
#define ATTACH_OBJECT_H

#include <stdbool.h>
#include <stddef.h>

#include "attach/mode.h"
#include "attach/prices.h"
#include "roletrace/abi.h"
#include "roletrace/hist.h"

struct doorbell;
struct functions_bpf;

/* Rows behind the planned functions that calibration uses. */
#define OBJECT_CALIBRATION_FNS 4u

struct object {
	struct functions_bpf *skel;
	struct attach_mode mode;
	rt_u32 fn_cnt; /* planned functions, without those of calibration */
	rt_u32 shards;
	rt_u32 chunk_cnt;
	rt_u32 edge_cnt;
	rt_u32 path_cnt; /* places in the table; ids are below path_cnt + RT_PATH_FIRST */
	struct doorbell *doorbell;
	struct prices warm, cold; /* once calibrated; the programs have the warm ones */
	/* mapped maps */
	struct rt_fn_stats *stats; /* [fn * shards + shard] */
	struct rt_fn_conf *confs;
	struct rt_hist_dir *hist_dirs;
	struct rt_hist_chunk *hist_pool; /* [chunk * shards + shard] */
	struct rt_edge *edges;
	rt_u64 *paths;			  /* [path id - RT_PATH_FIRST]: RT_PATH_KEY */
	struct rt_path_stats *path_stats; /* [path id * shards + shard] */
};

/* From now on libbpf's own words of a failure go to the debug log. */
void object__log(void);

/* Opens, sizes and loads. 0 or -errno. */
int object__load(rt_u32 fn_cnt, bool raw, const struct attach_mode *mode, struct object *out);
void object__unload(struct object *obj);

/* Puts every counter back to zero, forgets all threads. Only while the gate is shut and no probe
 * can be running. */
void object__reset(struct object *obj);

/* Sum of a function's counters over the shards (minimum and maximum are merged as such). */
void object__fn_stats(const struct object *obj, rt_u32 fn, struct rt_fn_stats *out);

/*
 * Only how often its probes fired: entries, and exits with all that was no event; of those the
 * single-stepped ones.
 */
void object__fn_hits(const struct object *obj, rt_u32 fn, rt_u64 *entries, rt_u64 *exits,
		     rt_u64 *stepped);
/* Puts a function's plain counters back to zero. As above. */
void object__reset_fn(struct object *obj, rt_u32 fn);

/* The function's buckets, all RT_HIST_BUCKETS places, added over the shards. */
void object__fn_hist(const struct object *obj, rt_u32 fn, rt_u64 places[RT_HIST_BUCKETS]);

/*
 * The id that the kernel's own, outermost pid namespace has for a process: what the programs
 * compare with. 0 or -errno.
 */
int object__kernel_tgid(const struct object *obj, int pid, rt_u32 *out);

/* Waits until no program that read the gate before this call is still running. */
void object__synchronize(void);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#include "attach/threads.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "attach/iter.h"
#include "attach/mapped.h"
#include "attach/object.h"
#include "attach/spent.h"
#include "base/strbuf.h"
#include "roletrace/spent.h"
#include "threads.skel.h"

#define MIN_ROWS 1024u
#define MAX_ROWS 16384u
#define ROOM 4u /* times the threads that there are */
#define FUTEXES 2048u
#define CHUNKS_PER_ROW 4u
#define READ_TRIES 100

struct threads {
	struct threads_bpf *skel;
	struct bpf_link *links[3];
	struct bpf_link *iter;
	rt_u32 row_cnt, chunk_cnt;
	/* mapped maps */
	struct rt_thread *rows;
	struct rt_futex *futexes;
	struct rt_hist_chunk *chunks;
	rt_u64 pass;
};

static int fail(char **reason, int err, const char *what)
{
	if (asprintf(reason, "cannot watch threads: %s: %s", what, strerror(-err)) < 0)
		*reason = NULL;
	return err;
}

static rt_u32 threads_of(const struct target *target)
{
	struct dirent *ent;
	rt_u32 cnt = 0;
	char path[64];
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", target->pid);
	dir = opendir(path);
	while (dir && (ent = readdir(dir)))
		cnt += ent->d_name[0] != '.';
	if (dir)
		closedir(dir);
	return cnt;
}

static rt_u32 pick_rows(const struct target *target)
{
	rt_u32 want = threads_of(target), rows = MIN_ROWS;

	while (rows < want * ROOM && rows < MAX_ROWS)
		rows *= 2;
	return rows;
}

static int size_maps(struct threads *t, const struct target *target)
{
	struct threads_bpf *skel = t->skel;
	int err;

	t->row_cnt = pick_rows(target) + RT_THREAD_NAMES - 1;
	t->chunk_cnt = t->row_cnt * CHUNKS_PER_ROW + 2 * FUTEXES;
	skel->rodata->thread_rows = t->row_cnt;
	skel->rodata->futex_mask = FUTEXES - 1;
	skel->rodata->chunk_cnt = t->chunk_cnt;
	skel->rodata->ns_below = target->ns_below;
	err = bpf_map__set_max_entries(skel->maps.threads, t->row_cnt);
	err = err ?: bpf_map__set_max_entries(skel->maps.row_of, t->row_cnt);
	err = err ?: bpf_map__set_max_entries(skel->maps.free_rows, t->row_cnt);
	err = err ?: bpf_map__set_max_entries(skel->maps.futexes, FUTEXES);
	return err ?: bpf_map__set_max_entries(skel->maps.chunks, t->chunk_cnt);
}

static int load(struct threads *t, const struct target *target)
{
	int err = size_maps(t, target);

	err = err ?: threads_bpf__load(t->skel);
	err = err ?: mapped__new(t->skel->maps.threads, &t->rows);
	err = err ?: mapped__new(t->skel->maps.futexes, &t->futexes);
	return err ?: mapped__new(t->skel->maps.chunks, &t->chunks);
}

static int attach(struct threads *t, const struct target *target)
{
	const struct bpf_program *progs[] = { t->skel->progs.sched_switch,
					      t->skel->progs.sched_waking,
					      t->skel->progs.sched_wakeup_new };

	for (size_t i = 0; i < sizeof(progs) / sizeof(progs[0]); i++) {
		t->links[i] = bpf_program__attach(progs[i]);
		if (!t->links[i])
			return -errno;
	}
	t->iter = iter__attach(t->skel->progs.look_at, target->pid);
	return t->iter ? 0 : -errno;
}

int threads__attach(struct threads *t, const struct target *target, rt_u32 kernel_tgid,
		    char **reason)
{
	int err;

	*reason = NULL;
	t->skel->bss->target_tgid = kernel_tgid;
	err = attach(t, target);
	return err ? fail(reason, err, "cannot attach to the scheduler's events") : 0;
}

int threads__new(const struct target *target, struct threads **out, char **reason)
{
	struct threads *t = calloc(1, sizeof(*t));
	int err;

	*reason = NULL;
	if (!t)
		return fail(reason, -ENOMEM, "out of memory");
	object__log();
	t->skel = threads_bpf__open();
	if (!t->skel) {
		err = fail(reason, -errno, "cannot open the BPF programs");
		goto err;
	}
	err = load(t, target);
	if (err) {
		err = fail(reason, err, "cannot load the BPF programs");
		goto err;
	}
	*out = t;
	return 0;
err:
	threads__free(t);
	return err;
}

void threads__free(struct threads *t)
{
	if (!t)
		return;
	bpf_link__destroy(t->iter);
	for (size_t i = 0; i < sizeof(t->links) / sizeof(t->links[0]); i++)
		bpf_link__destroy(t->links[i]);
	if (t->skel) {
		mapped__free(t->skel->maps.threads, t->rows);
		mapped__free(t->skel->maps.futexes, t->futexes);
		mapped__free(t->skel->maps.chunks, t->chunks);
		threads_bpf__destroy(t->skel);
	}
	free(t);
}

void threads__start(struct threads *t, uint64_t now_ns)
{
	rt_u64 pass;

	t->skel->bss->start_ns = now_ns;
	t->skel->bss->gate = 1;
	(void)threads__look(t, &pass);
}

void threads__stop(struct threads *t)
{
	t->skel->bss->gate = 0;
}

int threads__look(struct threads *t, rt_u64 *pass)
{
	struct strbuf none = STRBUF_INIT;
	int err;

	t->skel->bss->look = ++t->pass;
	err = iter__read(t->iter, &none);
	strbuf__free(&none);
	*pass = t->pass;
	return err;
}

bool threads__row(const struct threads *t, rt_u32 row, struct rt_thread *out)
{
	const volatile struct rt_thread *r = &t->rows[row];

	for (int i = 0; i < READ_TRIES; i++) {
		rt_u64 seq = r->seq;

		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		memcpy(out, (const void *)r, sizeof(*out));
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (!(seq & 1) && seq == r->seq)
			return row < RT_THREAD_NAMES || out->state != RT_STATE_NONE;
	}
	return false;
}

void threads__set_lock(struct threads *t, rt_u32 row, rt_u64 since_ns)
{
	struct rt_thread *r = &t->rows[row];
	rt_u32 was = RT_STATE_FUTEX;

	if (*(volatile rt_u64 *)&r->since_ns == since_ns)
		__atomic_compare_exchange_n(&r->state, &was, RT_STATE_LOCK, false, __ATOMIC_SEQ_CST,
					    __ATOMIC_SEQ_CST);
}

rt_u32 threads__row_cnt(const struct threads *t)
{
	rt_u32 cnt = *(volatile rt_u32 *)&t->skel->bss->rows_taken + RT_THREAD_NAMES;

	return cnt < t->row_cnt ? cnt : t->row_cnt;
}

rt_u32 threads__futex_cnt(const struct threads *t)
{
	return FUTEXES;
}

bool threads__futex(const struct threads *t, rt_u32 slot, struct rt_futex *out)
{
	if (!*(volatile rt_u64 *)&t->futexes[slot].addr)
		return false;
	memcpy(out, &t->futexes[slot], sizeof(*out));
	return out->addr != 0;
}

void threads__forget_futex(struct threads *t, rt_u32 slot)
{
	struct rt_futex *f = &t->futexes[slot];

	for (rt_u32 c = 0; c < RT_HIST_CHUNKS; c++) {
		rt_u32 chunk = f->wait.chunk[c];

		if (chunk && chunk < t->chunk_cnt)
			memset(&t->chunks[chunk], 0, sizeof(*t->chunks));
	}
	memset(&f->wait, 0, offsetof(struct rt_times, chunk));
	f->last_end_ns = f->ip = f->op = f->val = f->lock = 0;
	__atomic_store_n(&f->addr, 0, __ATOMIC_RELEASE);
}

void threads__hist(const struct threads *t, const struct rt_times *times,
		   rt_u64 places[RT_HIST_BUCKETS])
{
	for (rt_u32 c = 0; c < RT_HIST_CHUNKS; c++) {
		rt_u32 chunk = times->chunk[c];

		if (!chunk || chunk >= t->chunk_cnt)
			continue;
		for (rt_u32 b = 0; b < RT_HIST_CHUNK; b++)
			places[c * RT_HIST_CHUNK + b] += t->chunks[chunk].count[b];
	}
}

rt_u64 threads__lost(const struct threads *t, enum rt_thread_lost what)
{
	return *(volatile rt_u64 *)&t->skel->bss->lost[what];
}

rt_u64 threads__missed(const struct threads *t)
{
	const struct bpf_program *progs[] = { t->skel->progs.sched_switch,
					      t->skel->progs.sched_waking,
					      t->skel->progs.sched_wakeup_new };
	rt_u64 n = 0;

	for (size_t i = 0; i < sizeof(progs) / sizeof(progs[0]); i++) {
		struct bpf_prog_info info = {};
		__u32 len = sizeof(info);

		if (!bpf_prog_get_info_by_fd(bpf_program__fd(progs[i]), &info, &len))
			n += info.recursion_misses;
	}
	return n;
}

uint64_t threads__spent_ns(const struct threads *t, uint64_t *runs)
{
	return spent__ns(t->skel->maps.spent, RT_SPENT_WAKING + 1, runs);
}

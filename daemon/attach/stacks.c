/* SPDX-License-Identifier: BSD-2-Clause */
#include "attach/stacks.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "attach/mapped.h"
#include "attach/unwinder.h"
#include "base/clock.h"
#include "base/fail.h"
#include "unwind.skel.h"

#define DEFAULT_PLACES 16384u
#define FRAMES_PER_STACK 32u
#define MIN_FRAMES 4096u

struct stacks {
	struct unwinder *unwinder;
	struct unwind_bpf *skel;
	struct rt_kept_head *head;
	const struct rt_kept_stack *kept;
	const uint64_t *frames;
	uint32_t place_cnt, frame_cnt;
};

static uint32_t power_of_two_up_to(uint32_t n)
{
	uint32_t p = 1;

	while (p * 2 <= n)
		p *= 2;
	return p;
}

static int size_maps(struct stacks *s)
{
	struct unwind_bpf *skel = s->skel;
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
	err = unwinder__size(s->unwinder, &maps);
	err = err
		      ?: bpf_map__set_max_entries(skel->maps.unwind_scratch,
						  (uint32_t)cpus * RT_UNWIND_USES);
	err = err ?: bpf_map__set_max_entries(skel->maps.kept_stacks, s->place_cnt);
	return err
		       ?: bpf_map__set_max_entries(skel->maps.kept_frames,
						   s->frame_cnt / RT_FRAMES_GROUP);
}

static void set_head(struct stacks *s, const struct stacks_opts *opts)
{
	uint64_t seed;

	if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != sizeof(seed))
		seed = clock__mono_ns();
	*s->head = (struct rt_kept_head){ .seed = seed,
					  .mask = s->place_cnt - 1,
					  .frame_cnt = s->frame_cnt,
					  .by_thread = opts->by_thread };
}

static int load(struct stacks *s, const struct stacks_opts *opts)
{
	int err;

	s->skel = unwind_bpf__open();
	if (!s->skel)
		return -errno;
	err = size_maps(s);
	err = err ?: unwind_bpf__load(s->skel);
	err = err ?: unwinder__fill(s->unwinder);
	err = err ?: mapped__new(s->skel->maps.kept_head, &s->head);
	err = err ?: mapped__new_readonly(s->skel->maps.kept_stacks, &s->kept);
	err = err ?: mapped__new_readonly(s->skel->maps.kept_frames, &s->frames);
	if (!err)
		set_head(s, opts);
	return err;
}

int stacks__new(const struct target *target, const struct stacks_opts *opts, struct stacks **out,
		char **reason)
{
	struct stacks *s = calloc(1, sizeof(*s));
	int err;

	*reason = NULL;
	if (!s)
		return -ENOMEM;
	s->place_cnt = power_of_two_up_to(opts->places ?: DEFAULT_PLACES);
	s->frame_cnt = s->place_cnt * FRAMES_PER_STACK;
	if (s->frame_cnt < MIN_FRAMES)
		s->frame_cnt = MIN_FRAMES;
	err = unwinder__new(target, &s->unwinder, reason);
	if (!err && (err = load(s, opts)))
		fail(reason, err, "cannot load the unwinder's BPF maps: %s", strerror(-err));
	if (err) {
		stacks__free(s);
		return err;
	}
	*out = s;
	return 0;
}

void stacks__free(struct stacks *s)
{
	if (!s)
		return;
	if (s->skel) {
		mapped__free(s->skel->maps.kept_head, s->head);
		mapped__free(s->skel->maps.kept_stacks, s->kept);
		mapped__free(s->skel->maps.kept_frames, s->frames);
	}
	unwinder__free(s->unwinder);
	unwind_bpf__destroy(s->skel);
	free(s);
}

static int share_none(struct bpf_object *obj)
{
	struct bpf_map *map;
	int err = 0;

	bpf_object__for_each_map(map, obj)
	{
		const char *name = bpf_map__name(map);

		if (!strncmp(name, "unwind_", 7) || !strncmp(name, "kept_", 5))
			err = err ?: bpf_map__set_autocreate(map, false);
	}
	return err;
}

int stacks__share(const struct stacks *s, struct bpf_object *obj)
{
	struct bpf_map *map, *same;
	int err = 0;

	if (!s)
		return share_none(obj);
	bpf_object__for_each_map(map, s->skel->obj)
	{
		if (bpf_map__is_internal(map))
			continue;
		same = bpf_object__find_map_by_name(obj, bpf_map__name(map));
		if (same)
			err = err ?: bpf_map__reuse_fd(same, bpf_map__fd(map));
	}
	return err;
}

void stacks__tick(struct stacks *s, uint64_t now_ns)
{
	unwinder__look(s->unwinder, now_ns, *(volatile rt_u64 *)&s->head->unknown_pcs);
}

int stacks__fd(const struct stacks *s)
{
	return unwinder__fd(s->unwinder);
}

const struct code *stacks__code(const struct stacks *s)
{
	return unwinder__code(s->unwinder);
}

uint32_t stacks__place_cnt(const struct stacks *s)
{
	return s->place_cnt;
}

/* The name that keep_name put in front, if it did. */
static void take_name(struct kept_stack *s)
{
	uint64_t f[RT_NAME_FRAMES];
	size_t at = 0;

	for (uint32_t i = 0; i < RT_NAME_FRAMES; i++) {
		if (i >= s->depth || RT_FRAME_OBJECT(s->frames[i]) != RT_OBJECT_NAME)
			return;
		f[i] = RT_FRAME_VADDR(s->frames[i]);
	}
	for (size_t i = 0; i + 1 < sizeof(s->thread); i++, at++)
		s->thread[i] = (char)(f[at / RT_NAME_FRAME_BYTES] >> at % RT_NAME_FRAME_BYTES * 8);
	s->frames += RT_NAME_FRAMES;
	s->depth -= RT_NAME_FRAMES;
}

bool stacks__get(const struct stacks *s, uint32_t place, struct kept_stack *out)
{
	const struct rt_kept_stack *k = &s->kept[place];

	if (place >= s->place_cnt || __atomic_load_n(&k->ready, __ATOMIC_ACQUIRE) != RT_STACK_READY)
		return false;
	*out = (struct kept_stack){
		.kind = k->kind,
		.end = k->end,
		.cnt = *(volatile const rt_u64 *)&k->cnt,
		.total = *(volatile const rt_u64 *)&k->total,
		.frames = s->frames + k->first,
		.depth = k->depth,
	};
	if (k->first + k->depth > s->frame_cnt)
		return false;
	take_name(out);
	return true;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "collect/waiting.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/vec.h"

struct waiting {
	struct standing *standing;
	struct namer *names, *own_names; /* own: made at the first look */
	const struct plan *plan;
	const struct target *target;
	const char *debug_file;
};

struct waiting *waiting__new(struct standing *standing, struct namer *names,
			     const struct plan *plan, const struct target *target,
			     const char *debug_file)
{
	struct waiting *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->standing = standing;
	w->names = names;
	w->plan = plan;
	w->target = target;
	w->debug_file = debug_file;
	return w;
}

void waiting__free(struct waiting *w)
{
	if (!w)
		return;
	namer__free(w->own_names);
	free(w);
}

bool waiting__is_ready(const struct waiting *w)
{
	return standing__is_ready(w->standing);
}

/* ---- looking ---- */

const struct standing_thread *waiting__thread(const struct waiting *w, rt_u32 pid)
{
	size_t cnt;
	const struct standing_thread *t = standing__threads(w->standing, &cnt);

	for (size_t i = 0; i < cnt; i++)
		if (t[i].pid == pid)
			return &t[i];
	return NULL;
}

int waiting__learn(struct waiting *w, uint64_t *frames, size_t cnt)
{
	return cnt ? namer__learn(w->names, frames, cnt) : 0;
}

const struct named *waiting__named(const struct waiting *w, uint64_t frame)
{
	return namer__get(w->names, frame);
}

static int learn(struct waiting *w, const rt_u32 *pids, size_t cnt)
{
	VEC(uint64_t) frames = {};
	int err = 0;

	for (size_t i = 0; i < cnt && !err; i++) {
		const struct standing_thread *t = waiting__thread(w, pids[i]);

		for (uint32_t f = 0; t && f < t->depth && !err; f++) {
			uint64_t *slot = vec__push(&frames);

			if (slot)
				*slot = t->frames[f];
			else
				err = -ENOMEM;
		}
	}
	err = err ?: waiting__learn(w, frames.data, frames.cnt);
	vec__free(&frames);
	return err;
}

int waiting__look(struct waiting *w, const rt_u32 *pids, size_t cnt)
{
	char *reason;
	int err = standing__look(w->standing, &reason);

	if (reason)
		log_warn("%s", reason);
	free(reason);
	if (err)
		return err;
	if (!w->names)
		w->names = w->own_names =
			namer__new(w->plan, w->target, standing__code(w->standing), w->debug_file);
	return w->names ? learn(w, pids, cnt) : -ENOMEM;
}

/* ---- what was seen ---- */

static uint32_t count_frames(const struct waiting *w, const struct standing_thread *t)
{
	uint32_t cnt = t->depth;

	for (uint32_t i = 0; i < t->depth; i++) {
		const struct named *n = namer__get(w->names, t->frames[i]);

		cnt += n ? n->inlined_cnt : 0;
	}
	return cnt;
}

/* Roots first; what is inlined in a frame follows it. */
static uint32_t put_frames(const struct waiting *w, const struct standing_thread *t,
			   struct snapshot_frame *out)
{
	static const struct snapshot_frame unnamed = { .name = "[unknown code]" };
	uint32_t cnt = 0;

	for (uint32_t i = t->depth; i--;) {
		const struct named *n = namer__get(w->names, t->frames[i]);

		out[cnt++] = n ? n->fn.f : unnamed;
		for (uint32_t k = 0; n && k < n->inlined_cnt; k++)
			out[cnt++] = n->inlined[k].f;
	}
	return cnt;
}

int waiting__stack(const struct waiting *w, rt_u32 pid, struct snapshot_backtrace *out)
{
	const struct standing_thread *t = waiting__thread(w, pid);
	struct snapshot_frame *frames;

	*out = (struct snapshot_backtrace){};
	if (!t)
		return 0;
	if (t->moves) {
		out->truncated = "running";
		return 0;
	}
	frames = calloc(count_frames(w, t) + 1, sizeof(*frames));
	if (!frames)
		return -ENOMEM;
	out->depth = put_frames(w, t, frames);
	out->frames = frames;
	out->truncated = namer__end(t->end);
	return 0;
}

static bool keep(struct arena *arena, const char **text)
{
	if (*text)
		*text = arena__strdup(arena, *text);
	return *text;
}

int backtrace__copy(const struct snapshot_backtrace *from, struct snapshot *s,
		    struct snapshot_backtrace *out)
{
	struct snapshot_frame *frames;

	*out = *from;
	if (!from->frames)
		return 0;
	if (!s->arena && !(s->arena = arena__new()))
		return -ENOMEM;
	out->frames = frames = arena__alloc(s->arena, (from->depth + 1) * sizeof(*frames));
	if (!frames)
		return -ENOMEM;
	for (uint32_t i = 0; i < from->depth; i++) {
		struct snapshot_frame *f = &frames[i];

		*f = from->frames[i];
		if (!keep(s->arena, &f->name) || (f->module && !keep(s->arena, &f->module)) ||
		    (f->file && !keep(s->arena, &f->file)))
			return -ENOMEM;
	}
	return 0;
}

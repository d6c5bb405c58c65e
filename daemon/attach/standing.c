/* SPDX-License-Identifier: BSD-2-Clause */
#include "attach/standing.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "attach/iter.h"
#include "attach/stacks.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/strbuf.h"
#include "base/vec.h"
#include "standing.skel.h"
#include "target/process.h"

#define OWN_PLACES 16u /* of stacks that are counted: none are */

struct standing {
	const struct target *target;
	rt_u32 tgid;
	struct stacks *stacks;
	bool own_stacks, failed;
	struct standing_bpf *skel; /* NULL: not loaded yet */
	struct strbuf raw;	   /* as the iterator wrote it */
	VEC(struct standing_thread) threads;
};

struct standing *standing__new(const struct target *target, rt_u32 kernel_tgid,
			       struct stacks *stacks)
{
	struct standing *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->target = target;
	s->tgid = kernel_tgid;
	s->stacks = stacks;
	s->raw = (struct strbuf)STRBUF_INIT;
	return s;
}

void standing__free(struct standing *s)
{
	if (!s)
		return;
	standing_bpf__destroy(s->skel);
	if (s->own_stacks)
		stacks__free(s->stacks);
	strbuf__free(&s->raw);
	vec__free(&s->threads);
	free(s);
}

/* ---- loading ---- */

/* blocked NULL: nobody counts waits. */
static int load(struct standing *s, const struct bpf_map *blocked)
{
	struct standing_bpf *skel = s->skel = standing_bpf__open();
	int err;

	if (!skel)
		return -errno;
	bpf_program__set_autoload(skel->progs.stood_before, blocked);
	err = blocked ? bpf_map__reuse_fd(skel->maps.blocked, bpf_map__fd(blocked))
		      : bpf_map__set_autocreate(skel->maps.blocked, false);
	err = err ?: stacks__share(s->stacks, skel->obj);
	err = err ?: standing_bpf__load(skel);
	if (err)
		return err;
	skel->bss->target_tgid = s->tgid;
	return 0;
}

static int make_ready(struct standing *s, const struct bpf_map *blocked, char **reason)
{
	const struct stacks_opts own = { .places = OWN_PLACES };
	int err = 0;

	if (s->failed)
		return -EOPNOTSUPP;
	if (!s->stacks) {
		err = stacks__new(s->target, &own, &s->stacks, reason);
		s->own_stacks = !err;
	}
	if (!err && !s->skel && (err = load(s, blocked))) {
		standing_bpf__destroy(s->skel);
		s->skel = NULL;
		fail(reason, err, "cannot load the BPF programs that look at waiting threads: %s",
		     strerror(-err));
	}
	s->failed = err != 0;
	return err;
}

int standing__prepare(struct standing *s, const struct bpf_map *blocked, char **reason)
{
	*reason = NULL;
	return make_ready(s, blocked, reason);
}

bool standing__is_ready(const struct standing *s)
{
	return !s->failed && (s->skel || s->stacks);
}

/* ---- looking ---- */

/* What the iterator writes is in s->raw. */
static int iterate(struct standing *s, const struct bpf_program *prog)
{
	strbuf__reset(&s->raw);
	return iter__run(prog, s->target->pid, &s->raw);
}

static int parse(struct standing *s)
{
	const struct rt_standing *head;

	s->threads.cnt = 0;
	for (size_t at = 0; at + sizeof(*head) <= s->raw.len;) {
		struct standing_thread *t = vec__push(&s->threads);

		if (!t)
			return -ENOMEM;
		head = (const struct rt_standing *)(s->raw.s + at);
		at += sizeof(*head);
		*t = (struct standing_thread){ .pid = head->pid,
					       .moves = head->moves,
					       .end = head->end,
					       .sp = head->sp,
					       .alt_lo = head->alt_lo,
					       .alt_hi = head->alt_hi,
					       .frames = (const uint64_t *)(s->raw.s + at),
					       .depth = head->depth };
		t->steps = t->frames + t->depth;
		at += 2 * head->depth * sizeof(uint64_t);
		if (at > s->raw.len)
			return -EIO;
	}
	return 0;
}

int standing__look(struct standing *s, char **reason)
{
	int err;

	*reason = NULL;
	s->threads.cnt = 0;
	err = make_ready(s, NULL, reason);
	if (err)
		return err;
	if (s->own_stacks)
		stacks__tick(s->stacks, clock__mono_ns());
	err = iterate(s, s->skel->progs.standing);
	return err ?: parse(s);
}

const struct standing_thread *standing__threads(const struct standing *s, size_t *cnt)
{
	*cnt = s->threads.cnt;
	return s->threads.data;
}

const struct code *standing__code(const struct standing *s)
{
	return s->stacks ? stacks__code(s->stacks) : NULL;
}

int standing__note_older(struct standing *s, uint64_t since_ns)
{
	s->skel->bss->since_ns = since_ns;
	return iterate(s, s->skel->progs.stood_before);
}

uint64_t standing__older(const struct standing *s)
{
	return s->skel ? *(volatile rt_u64 *)&s->skel->bss->older_waits : 0;
}

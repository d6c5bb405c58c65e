/* SPDX-License-Identifier: BSD-2-Clause */
#include "attach/links.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "attach/hands.h"
#include "base/log.h"
#include "functions.skel.h"

/*
 * Functions go into this many batches, and one more for each further file they are in; one is kept
 * for the catch sites.
 */
#define FN_SHARE 8u
#define FN_BATCHES (RT_MAX_BATCHES - 1)
#define MIN_BATCH_FNS 128u
#define CATCH_BATCH FN_BATCHES

/* Functions [first, end) of the plan and their sites [site_first, site_end). */
struct batch {
	rt_u32 first, end;
	struct hands_pile links;
	rt_u8 gen;
};

struct links {
	struct object *obj;
	const struct plan *plan;
	const char *const *paths; /* by object */
	int pid;
	enum links_programs programs;
	struct batch batches[FN_BATCHES + 1];
	size_t batch_cnt;
	size_t *site_first; /* [fn], and one past the last */
	bool *shed, *refused;
	/* scratch for one attach call */
	unsigned long *offsets;
	unsigned long long *cookies;
	bool *site_refused;
};

/* ---- one link ---- */

static bool wanted(const struct links *l, rt_u32 fn)
{
	return !l->shed[fn] && !l->refused[fn];
}

/* Sites of the functions [first, end) that are wanted. */
static size_t gather(struct links *l, rt_u32 first, rt_u32 end, rt_u32 batch, rt_u8 gen)
{
	size_t n = 0;

	for (rt_u32 fn = first; fn < end; fn++) {
		if (!wanted(l, fn))
			continue;
		for (size_t i = l->site_first[fn]; i < l->site_first[fn + 1]; i++, n++) {
			const struct plan_site *s = &l->plan->sites[i];

			l->offsets[n] = s->offset;
			l->cookies[n] =
				RT_COOKIE(fn, s->kind, s->cond, s->insn, batch, gen, s->sp_words);
		}
	}
	return n;
}

static int attach_program(struct links *l, const struct bpf_program *prog, rt_u32 object,
			  size_t cnt, bool retprobe, struct hands_pile *out)
{
	struct hands_request req = { .prog_fd = bpf_program__fd(prog),
				     .path = l->paths[object],
				     .pid = l->pid,
				     .offsets = l->offsets,
				     .cookies = l->cookies,
				     .cnt = cnt,
				     .retprobe = retprobe,
				     .single = l->obj->mode.single_probes };
	int fd;

	if (RT_COOKIE_KIND(l->cookies[0]) != RT_SITE_CATCH)
		req.refused = memset(l->site_refused, 0, cnt * sizeof(*l->site_refused));
	fd = hands__attach(&req);
	hands__put(out, fd);
	for (size_t i = 0; i < cnt && fd >= 0 && req.refused; i++)
		if (req.refused[i])
			l->refused[RT_COOKIE_FN(l->cookies[i])] = true;
	return fd < 0 ? fd : 0;
}

static int attach_gathered(struct links *l, rt_u32 object, size_t cnt, struct hands_pile *out)
{
	struct functions_bpf *skel = l->obj->skel;
	int err;

	switch (l->programs) {
	case LINKS_EMPTY_SITES:
		return attach_program(l, skel->progs.empty, object, cnt, false, out);
	case LINKS_SITES:
		return attach_program(l, skel->progs.site, object, cnt, false, out);
	case LINKS_EMPTY_URETPROBE:
		err = attach_program(l, skel->progs.empty, object, cnt, false, out);
		return err ?: attach_program(l, skel->progs.empty_ret, object, cnt, true, out);
	case LINKS_URETPROBE:
		err = attach_program(l, skel->progs.uret_entry, object, cnt, false, out);
		return err ?: attach_program(l, skel->progs.uret_exit, object, cnt, true, out);
	}
	return -EINVAL;
}

/* Errors that say nothing about a site. */
static bool is_hopeless(int err)
{
	return err == -ESRCH || err == -EPERM || err == -EACCES || err == -ENOMEM ||
	       err == -ENOENT || err == -EBADF;
}

/* Attaches the functions [first, end); refused ones are marked and left out. */
static int attach_range(struct links *l, rt_u32 first, rt_u32 end, rt_u32 batch, rt_u8 gen,
			struct hands_pile *out)
{
	size_t cnt = gather(l, first, end, batch, gen), before = out->cnt;
	rt_u32 mid = first + (end - first) / 2;
	struct hands_pile half = {};
	int err;

	if (!cnt)
		return 0;
	err = attach_gathered(l, l->plan->fns[first].object, cnt, out);
	if (!err || is_hopeless(err))
		return err;
	/* of a pair of links the first may stand: take it back before trying halves */
	while (out->cnt > before)
		hands__put(&half, out->data[--out->cnt]);
	hands__close(&half);
	if (end - first == 1) {
		log_debug("attach: kernel refused '%s': %s", l->plan->fns[first].name,
			  strerror(-err));
		l->refused[first] = true;
		return 0;
	}
	err = attach_range(l, first, mid, batch, gen, out);
	return err ?: attach_range(l, mid, end, batch, gen, out);
}

/* The catch sites of one file. */
static int attach_catches_of(struct links *l, rt_u32 object, rt_u8 gen, struct hands_pile *out)
{
	size_t n = 0;
	int err;

	for (size_t i = 0; i < l->plan->catch_cnt; i++) {
		const struct plan_site *s = &l->plan->catches[i];

		if (s->object != object)
			continue;
		l->offsets[n] = s->offset;
		l->cookies[n++] =
			RT_COOKIE(0, RT_SITE_CATCH, 0, s->insn, CATCH_BATCH, gen, s->sp_words);
	}
	if (!n || l->programs != LINKS_SITES)
		return 0;
	err = attach_program(l, l->obj->skel->progs.site, object, n, false, out);
	if (err && !is_hopeless(err)) {
		log_warn("attach: the kernel refused the probe on the panic catch: panicked calls "
			 "may "
			 "show as in flight");
		err = 0;
	}
	return err;
}

static int attach_catches(struct links *l, rt_u8 gen, struct hands_pile *out)
{
	int err = 0;

	for (rt_u32 object = 0; object < l->plan->object_cnt && !err; object++)
		err = attach_catches_of(l, object, gen, out);
	return err;
}

/* New links under a new generation, then the switch, then the old ones go. */
static int renew(struct links *l, rt_u32 number, struct hands_pile *old)
{
	struct batch *b = &l->batches[number];
	rt_u8 gen = b->gen == 255 ? 1 : b->gen + 1;
	struct hands_pile links = {};
	int err;

	err = number == CATCH_BATCH ? attach_catches(l, gen, &links)
				    : attach_range(l, b->first, b->end, number, gen, &links);
	if (err) {
		hands__close(&links);
		return err;
	}
	l->obj->skel->bss->batch_gen[number] = gen;
	b->gen = gen;
	hands__move(old, &b->links);
	b->links = links;
	return 0;
}

static int index_sites(struct links *l)
{
	const struct plan *p = l->plan;
	size_t max = p->site_cnt > p->catch_cnt ? p->site_cnt : p->catch_cnt, i = 0;

	l->site_first = calloc(p->fn_cnt + 1, sizeof(*l->site_first));
	l->shed = calloc(p->fn_cnt + 1, sizeof(*l->shed));
	l->refused = calloc(p->fn_cnt + 1, sizeof(*l->refused));
	l->offsets = calloc(max + 1, sizeof(*l->offsets));
	l->cookies = calloc(max + 1, sizeof(*l->cookies));
	l->site_refused = calloc(max + 1, sizeof(*l->site_refused));
	if (!l->site_first || !l->shed || !l->refused || !l->offsets || !l->cookies ||
	    !l->site_refused)
		return -ENOMEM;
	for (size_t fn = 0; fn < p->fn_cnt; fn++) {
		l->site_first[fn] = i;
		while (i < p->site_cnt && p->sites[i].fn == fn)
			i++;
	}
	l->site_first[p->fn_cnt] = i;
	return i == p->site_cnt ? 0 : -EINVAL;
}

/* A batch never reaches over the end of a file. */
static int divide(struct links *l)
{
	rt_u32 fns = (rt_u32)l->plan->fn_cnt, per = (fns + FN_SHARE - 1) / FN_SHARE;
	rt_u32 end;

	/* single probes are closed one by one: the fewer in a batch, the faster it is changed */
	if (per < MIN_BATCH_FNS && !l->obj->mode.single_probes)
		per = MIN_BATCH_FNS;
	for (rt_u32 first = 0; first < fns; first = end) {
		for (end = first + 1; end < fns && end < first + per; end++)
			if (l->plan->fns[end].object != l->plan->fns[first].object)
				break;
		if (l->batch_cnt == FN_BATCHES)
			return -E2BIG;
		l->batches[l->batch_cnt++] = (struct batch){ .first = first, .end = end };
	}
	return 0;
}

int links__attach(struct object *obj, const struct plan *plan, const struct links_opts *opts,
		  struct links **out)
{
	struct links *l = calloc(1, sizeof(*l));
	struct hands_pile old = {};
	int err;

	if (!l)
		return -ENOMEM;
	l->obj = obj;
	l->plan = plan;
	l->paths = opts->paths;
	l->pid = opts->pid;
	l->programs = opts->programs;
	err = index_sites(l);
	if (!err)
		err = divide(l);
	if (err)
		goto fail;
	err = renew(l, CATCH_BATCH, &old);
	for (rt_u32 i = 0; !err && i < l->batch_cnt; i++)
		err = renew(l, i, &old);
	if (err)
		goto fail;
	*out = l;
	return 0;
fail:
	links__free(l, &old);
	hands__close(&old);
	return err;
}

bool links__refused(const struct links *l, rt_u32 fn)
{
	return l->refused[fn];
}

size_t links__site_cnt(const struct links *l)
{
	size_t n = 0;

	for (rt_u32 fn = 0; fn < l->plan->fn_cnt; fn++)
		if (wanted(l, fn))
			n += l->site_first[fn + 1] - l->site_first[fn];
	return n + l->plan->catch_cnt;
}

int links__shed(struct links *l, const rt_u32 *fns, size_t cnt)
{
	struct hands_pile old = {};
	int err = 0;

	for (size_t i = 0; i < cnt; i++) {
		l->obj->confs[fns[i]].shed = 1;
		l->shed[fns[i]] = true;
	}
	for (rt_u32 b = 0; b < l->batch_cnt && !err; b++) {
		for (size_t i = 0; i < cnt; i++) {
			if (fns[i] < l->batches[b].first || fns[i] >= l->batches[b].end)
				continue;
			err = renew(l, b, &old);
			break;
		}
	}
	hands__close(&old);
	return err;
}

void links__limit(struct links *l, int pid)
{
	l->pid = pid;
}

int links__rearm(struct links *l)
{
	struct hands_pile old = {};
	int err = renew(l, CATCH_BATCH, &old);

	for (rt_u32 b = 0; b < l->batch_cnt && !err; b++)
		err = renew(l, b, &old);
	hands__close(&old);
	return err;
}

void links__free(struct links *l, struct hands_pile *to)
{
	if (!l)
		return;
	for (size_t b = 0; b <= FN_BATCHES; b++)
		hands__move(to, &l->batches[b].links);
	free(l->site_first);
	free(l->shed);
	free(l->refused);
	free(l->offsets);
	free(l->cookies);
	free(l->site_refused);
	free(l);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "attach/links.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/vec.h"
#include "functions.skel.h"

/*
 * Attaching a link keeps a CPU for 16 us a site: with so many functions it is a few ms. Each file
 * begins a new batch.
 */
#define BATCH_FNS 256u
#define MAX_BATCHES 512u

enum side { ENTRIES, EXITS, SIDES };

/* Functions [first, end) of the plan. */
struct batch {
	rt_u32 first, end;
	struct hands_pile links[SIDES];
	rt_u8 gen[SIDES];
	bool replaced[SIDES]; /* the old link is being closed */
	pid_t closer;
};

struct links {
	struct object *obj;
	const struct plan *plan;
	const char *const *paths; /* by object */
	int pid;
	enum links_programs programs;
	struct hands_pile catches;
	struct batch batches[MAX_BATCHES];
	size_t batch_cnt;
	size_t *site_first; /* [fn], and one past the last */
	rt_u8 *mode;	    /* [fn] enum links_mode */
	rt_u8 *epoch;	    /* [fn] */
	bool *gaps, *refused;
	VEC(pid_t) closers; /* of links that were replaced before anything counted */
	/* scratch for one attach call */
	unsigned long *offsets;
	unsigned long long *cookies;
	bool *site_refused;
};

/* ---- one link ---- */

static bool is_uret(const struct links *l)
{
	return l->programs == LINKS_URETPROBE || l->programs == LINKS_EMPTY_URETPROBE;
}

static bool wanted(const struct links *l, rt_u32 fn, enum side side)
{
	return !l->refused[fn] && l->mode[fn] >= (side == EXITS ? LINKS_TIMED : LINKS_COUNTED);
}

/* A return probe is put on the entry. */
static bool is_of(const struct links *l, const struct plan_site *s, enum side side)
{
	return (s->kind == RT_SITE_ENTRY) == (side == ENTRIES || is_uret(l));
}

static size_t add_sites(const struct links *l, rt_u32 fn, enum side side, rt_u8 gen,
			unsigned long *offsets, unsigned long long *cookies)
{
	size_t n = 0;

	for (size_t i = l->site_first[fn]; i < l->site_first[fn + 1]; i++) {
		const struct plan_site *s = &l->plan->sites[i];

		if (!is_of(l, s, side))
			continue;
		offsets[n] = s->offset;
		cookies[n++] = RT_COOKIE(fn, s->kind, s->cond, s->insn, gen, s->sp_words);
	}
	return n;
}

static const struct bpf_program *program_of(const struct links *l, enum side side)
{
	struct functions_bpf *skel = l->obj->skel;

	switch (l->programs) {
	case LINKS_SITES:
		return skel->progs.site;
	case LINKS_URETPROBE:
		return side == ENTRIES ? skel->progs.uret_entry : skel->progs.uret_exit;
	case LINKS_EMPTY_URETPROBE:
		return side == ENTRIES ? skel->progs.empty : skel->progs.empty_ret;
	default:
		return skel->progs.empty;
	}
}

static struct hands_request request(const struct links *l, enum side side, rt_u32 object)
{
	return (struct hands_request){
		.prog_fd = bpf_program__fd(program_of(l, side)),
		.path = l->paths[object],
		.pid = l->pid,
		.retprobe = side == EXITS && is_uret(l),
		.single = l->obj->mode.single_probes,
	};
}

/* Single probes are refused one by one. */
static int attach(struct links *l, struct hands_request *req, struct hands_pile *out)
{
	int fd;

	if (req->single)
		req->refused = memset(l->site_refused, 0, req->cnt * sizeof(*l->site_refused));
	fd = hands__attach(req);
	hands__put(out, fd);
	for (size_t i = 0; i < req->cnt && fd >= 0 && req->refused; i++)
		if (req->refused[i])
			l->refused[RT_COOKIE_FN(req->cookies[i])] = true;
	return fd < 0 ? fd : 0;
}

/* Errors that say nothing about a site. */
static bool is_hopeless(int err)
{
	return err == -ESRCH || err == -EPERM || err == -EACCES || err == -ENOMEM ||
	       err == -ENOENT || err == -EBADF;
}

/* Attaches one side of the functions [first, end); refused ones are marked and left out. */
static int attach_range(struct links *l, rt_u32 first, rt_u32 end, enum side side, rt_u8 gen,
			struct hands_pile *out)
{
	struct hands_request req = request(l, side, l->plan->fns[first].object);
	rt_u32 mid = first + (end - first) / 2;
	int err;

	req.offsets = l->offsets;
	req.cookies = l->cookies;
	for (rt_u32 fn = first; fn < end; fn++)
		if (wanted(l, fn, side))
			req.cnt += add_sites(l, fn, side, gen, l->offsets + req.cnt,
					     l->cookies + req.cnt);
	if (!req.cnt)
		return 0;
	err = attach(l, &req, out);
	if (!err || is_hopeless(err))
		return err;
	if (end - first == 1) {
		log_debug("attach: kernel refused '%s': %s", l->plan->fns[first].name,
			  strerror(-err));
		l->refused[first] = true;
		return 0;
	}
	err = attach_range(l, first, mid, side, gen, out);
	return err ?: attach_range(l, mid, end, side, gen, out);
}

/* ---- the catch sites ---- */

/* Of one file. */
static int attach_catches_of(struct links *l, rt_u32 object, rt_u8 gen, struct hands_pile *out)
{
	struct hands_request req = request(l, ENTRIES, object);
	int fd;

	req.offsets = l->offsets;
	req.cookies = l->cookies;
	for (size_t i = 0; i < l->plan->catch_cnt; i++) {
		const struct plan_site *s = &l->plan->catches[i];

		if (s->object != object)
			continue;
		l->offsets[req.cnt] = s->offset;
		l->cookies[req.cnt++] = RT_COOKIE(0, s->kind, 0, s->insn, gen, s->sp_words);
	}
	if (!req.cnt || l->programs != LINKS_SITES)
		return 0;
	fd = hands__attach(&req);
	hands__put(out, fd);
	if (fd >= 0 || is_hopeless(fd))
		return fd < 0 ? fd : 0;
	log_warn("attach: the kernel refused the probe on what catches panics or jumps: calls left "
		 "by "
		 "them may show as in flight");
	return 0;
}

static int renew_catches(struct links *l)
{
	rt_u8 gen = RT_GEN_NEXT(l->obj->skel->bss->catch_gen);
	struct hands_pile links = {};
	int err = 0;

	for (rt_u32 object = 0; object < l->plan->object_cnt && !err; object++)
		err = attach_catches_of(l, object, gen, &links);
	if (err) {
		hands__close(&links);
		return err;
	}
	l->obj->skel->bss->catch_gen = gen;
	hands__close(&l->catches);
	l->catches = links;
	return 0;
}

/* ---- what the programs are told ---- */

static const struct batch *batch_of(const struct links *l, rt_u32 fn)
{
	size_t lo = 0, hi = l->batch_cnt;

	while (hi - lo > 1) {
		size_t mid = (lo + hi) / 2;

		if (l->batches[mid].first <= fn)
			lo = mid;
		else
			hi = mid;
	}
	return &l->batches[lo];
}

rt_u32 links__state(const struct links *l, rt_u32 fn)
{
	const struct batch *b = batch_of(l, fn);
	bool entries = wanted(l, fn, ENTRIES), exits = wanted(l, fn, EXITS);
	rt_u32 state =
		RT_CONF(entries ? b->gen[ENTRIES] : 0, exits ? b->gen[EXITS] : 0, l->epoch[fn]);

	if (exits)
		state |= RT_CONF_TIMED;
	if (l->gaps[fn])
		state |= RT_CONF_GAPS;
	if (entries && b->replaced[ENTRIES])
		state |= RT_CONF_MARK_ENTRY;
	if (exits && b->replaced[EXITS])
		state |= RT_CONF_MARK_EXIT;
	return state;
}

static void publish(struct links *l, const struct batch *b)
{
	for (rt_u32 fn = b->first; fn < b->end; fn++)
		*(volatile rt_u32 *)&l->obj->confs[fn].state = links__state(l, fn);
}

void links__raise_epoch(struct links *l, rt_u32 fn)
{
	l->epoch[fn]++;
}

/* ---- changing a batch ---- */

static void tidy(struct links *l, struct batch *b, bool wait)
{
	if (!b->closer || !hands__close_done(b->closer, wait))
		return;
	b->closer = 0;
	b->replaced[ENTRIES] = b->replaced[EXITS] = false;
	publish(l, b);
}

void links__tidy(struct links *l, bool wait)
{
	size_t left = 0;

	for (size_t b = 0; b < l->batch_cnt; b++)
		tidy(l, &l->batches[b], wait);
	for (size_t i = 0; i < l->closers.cnt; i++)
		if (!hands__close_done(l->closers.data[i], wait))
			l->closers.data[left++] = l->closers.data[i];
	l->closers.cnt = left;
}

bool links__settled(const struct links *l)
{
	for (size_t b = 0; b < l->batch_cnt; b++)
		if (l->batches[b].closer)
			return false;
	return true;
}

static size_t refused_cnt(const struct links *l, const struct batch *b)
{
	size_t n = 0;

	for (rt_u32 fn = b->first; fn < b->end; fn++)
		n += l->refused[fn];
	return n;
}

/* Nothing is counted: the old links' events are told by their generation, nobody need wait. */
static void leave_closing(struct links *l, struct batch *b)
{
	pid_t *slot = b->closer ? vec__push(&l->closers) : NULL;

	if (!slot)
		return;
	*slot = b->closer;
	b->closer = 0;
}

/* New links on the dirty sides, then the switch, then the old ones go. */
static int renew(struct links *l, struct batch *b, bool dirty[SIDES])
{
	struct hands_pile links[SIDES] = {}, old = {};
	bool counting = l->obj->skel->bss->gate;
	size_t refused = refused_cnt(l, b);
	int err = 0;

	tidy(l, b, true);
	/* exits first: one that is refused there gets no entry probe either */
	for (int side = EXITS; side >= ENTRIES && !err; side--) {
		if (dirty[side])
			err = attach_range(l, b->first, b->end, (enum side)side,
					   RT_GEN_NEXT(b->gen[side]), &links[side]);
		dirty[ENTRIES] |= refused != refused_cnt(l, b);
	}
	if (err) {
		hands__move(&old, &links[ENTRIES]);
		hands__move(&old, &links[EXITS]);
		hands__close(&old);
		return err;
	}
	for (int side = ENTRIES; side < SIDES; side++) {
		if (!dirty[side])
			continue;
		b->gen[side] = RT_GEN_NEXT(b->gen[side]);
		b->replaced[side] = counting && b->links[side].cnt > 0;
		hands__move(&old, &b->links[side]);
		b->links[side] = links[side];
	}
	publish(l, b);
	b->closer = hands__close_begin(&old);
	if (!counting)
		leave_closing(l, b);
	if (!b->closer) {
		b->replaced[ENTRIES] = b->replaced[EXITS] = false;
		publish(l, b);
	}
	return 0;
}

/* Exits that go unseen make the frames of now worthless. */
static void set_mode(struct links *l, rt_u32 fn, enum links_mode mode)
{
	if (l->mode[fn] == LINKS_TIMED)
		l->epoch[fn]++;
	if (l->mode[fn] == LINKS_TIMED || l->obj->skel->bss->gate)
		l->gaps[fn] = true;
	l->mode[fn] = mode;
}

static int change(struct links *l, struct batch *b, rt_u32 first, rt_u32 end, const rt_u8 *modes)
{
	bool dirty[SIDES] = {};
	int err;

	for (rt_u32 fn = first; fn < end; fn++) {
		bool was[SIDES] = { wanted(l, fn, ENTRIES), wanted(l, fn, EXITS) };

		if (modes[fn] == l->mode[fn])
			continue;
		set_mode(l, fn, modes[fn]);
		dirty[ENTRIES] |= was[ENTRIES] != wanted(l, fn, ENTRIES);
		dirty[EXITS] |= was[EXITS] != wanted(l, fn, EXITS);
	}
	if (!dirty[ENTRIES] && !dirty[EXITS])
		return 0;
	/* what is to go is ignored from now on, however long the links take */
	for (rt_u32 fn = first; fn < end; fn++)
		if (l->mode[fn] == LINKS_NONE)
			*(volatile rt_u32 *)&l->obj->confs[fn].state = links__state(l, fn);
	err = renew(l, b, dirty);
	return err;
}

int links__set(struct links *l, rt_u32 first, rt_u32 end, const rt_u8 *modes)
{
	int err = 0;

	for (size_t i = 0; i < l->batch_cnt && !err; i++) {
		struct batch *b = &l->batches[i];
		rt_u32 lo = b->first > first ? b->first : first, hi = b->end < end ? b->end : end;

		if (lo < hi)
			err = change(l, b, lo, hi, modes);
	}
	return err;
}

void links__limit(struct links *l, int pid)
{
	l->pid = pid;
}

int links__rearm(struct links *l)
{
	bool both[SIDES] = { true, true };
	int err = renew_catches(l);

	for (size_t b = 0; b < l->batch_cnt && !err; b++)
		err = renew(l, &l->batches[b], both);
	return err;
}

/* ---- life ---- */

static int index_sites(struct links *l)
{
	const struct plan *p = l->plan;
	size_t max = p->site_cnt > p->catch_cnt ? p->site_cnt : p->catch_cnt, i = 0;

	l->site_first = calloc(p->fn_cnt + 1, sizeof(*l->site_first));
	l->mode = calloc(p->fn_cnt + 1, sizeof(*l->mode));
	l->epoch = calloc(p->fn_cnt + 1, sizeof(*l->epoch));
	l->gaps = calloc(p->fn_cnt + 1, sizeof(*l->gaps));
	l->refused = calloc(p->fn_cnt + 1, sizeof(*l->refused));
	l->offsets = calloc(max + 1, sizeof(*l->offsets));
	l->cookies = calloc(max + 1, sizeof(*l->cookies));
	l->site_refused = calloc(max + 1, sizeof(*l->site_refused));
	if (!l->site_first || !l->mode || !l->epoch || !l->gaps || !l->refused || !l->offsets ||
	    !l->cookies || !l->site_refused)
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
	rt_u32 fns = (rt_u32)l->plan->fn_cnt, per = fns / (MAX_BATCHES / 2);
	rt_u32 end;

	/* single probes are closed one by one: the fewer in a batch, the faster it is changed */
	if (per < BATCH_FNS && !l->obj->mode.single_probes)
		per = BATCH_FNS;
	if (!per)
		per = 1;
	for (rt_u32 first = 0; first < fns; first = end) {
		for (end = first + 1; end < fns && end < first + per; end++)
			if (l->plan->fns[end].object != l->plan->fns[first].object)
				break;
		if (l->batch_cnt == MAX_BATCHES)
			return -E2BIG;
		l->batches[l->batch_cnt++] = (struct batch){ .first = first, .end = end };
	}
	return 0;
}

int links__new(struct object *obj, const struct plan *plan, const struct links_opts *opts,
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
	err = err ?: divide(l);
	err = err ?: renew_catches(l);
	if (err) {
		links__free(l, &old);
		hands__close(&old);
		return err;
	}
	*out = l;
	return 0;
}

void links__free(struct links *l, struct hands_pile *to)
{
	if (!l)
		return;
	links__tidy(l, true);
	vec__free(&l->closers);
	hands__move(to, &l->catches);
	for (size_t b = 0; b < l->batch_cnt; b++) {
		hands__close_done(l->batches[b].closer, true);
		hands__move(to, &l->batches[b].links[ENTRIES]);
		hands__move(to, &l->batches[b].links[EXITS]);
	}
	free(l->site_first);
	free(l->mode);
	free(l->epoch);
	free(l->gaps);
	free(l->refused);
	free(l->offsets);
	free(l->cookies);
	free(l->site_refused);
	free(l);
}

size_t links__batch_cnt(const struct links *l)
{
	return l->batch_cnt;
}

void links__batch(const struct links *l, size_t batch, rt_u32 *first, rt_u32 *end)
{
	*first = l->batches[batch].first;
	*end = l->batches[batch].end;
}

enum links_mode links__mode(const struct links *l, rt_u32 fn)
{
	return l->refused[fn] ? LINKS_NONE : (enum links_mode)l->mode[fn];
}

bool links__refused(const struct links *l, rt_u32 fn)
{
	return l->refused[fn];
}

size_t links__site_cnt(const struct links *l)
{
	size_t n = l->plan->catch_cnt;

	for (size_t i = 0; i < l->plan->site_cnt; i++) {
		const struct plan_site *s = &l->plan->sites[i];

		n += wanted(l, s->fn, s->kind == RT_SITE_ENTRY ? ENTRIES : EXITS);
	}
	return n;
}

/* ---- for windows ---- */

int links__requests(const struct links *l, const rt_u32 *fns, size_t cnt, bool exits,
		    struct links_requests *out)
{
	struct links_requests r = { .reqs = calloc(l->plan->object_cnt + 1, sizeof(*r.reqs)) };
	enum side side = exits ? EXITS : ENTRIES;
	size_t sites = 0, n = 0;

	for (size_t i = 0; i < cnt; i++)
		sites += l->site_first[fns[i] + 1] - l->site_first[fns[i]];
	r.offsets = calloc(sites + 1, sizeof(*r.offsets));
	r.cookies = calloc(sites + 1, sizeof(*r.cookies));
	if (!r.reqs || !r.offsets || !r.cookies) {
		links__free_requests(&r);
		return -ENOMEM;
	}
	for (rt_u32 object = 0; object < l->plan->object_cnt; object++) {
		struct hands_request req = request(l, side, object);

		req.offsets = r.offsets + n;
		req.cookies = r.cookies + n;
		for (size_t i = 0; i < cnt; i++)
			if (l->plan->fns[fns[i]].object == object)
				req.cnt +=
					add_sites(l, fns[i], side, RT_GEN_WINDOW,
						  r.offsets + n + req.cnt, r.cookies + n + req.cnt);
		n += req.cnt;
		if (req.cnt)
			r.reqs[r.cnt++] = req;
	}
	*out = r;
	return 0;
}

void links__free_requests(struct links_requests *r)
{
	free(r->reqs);
	free(r->offsets);
	free(r->cookies);
	memset(r, 0, sizeof(*r));
}

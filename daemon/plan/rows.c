/* SPDX-License-Identifier: BSD-2-Clause */
/* The picked symbols become rows by name, their flow becomes sites, and what cannot be probed is
 * written down with its reason. */
#include "plan/rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "plan/closure.h"
#include "plan/flow.h"
#include "plan/leaps.h"
#include "plan/places.h"
#include "plan/select.h"
#include "symbols/image.h"

static int skip(struct build *b, const char *name, enum plan_refusal why)
{
	struct plan_skip *s = vec__push(&b->skipped);

	if (!s || !(s->name = strdup(name)))
		return -ENOMEM;
	s->why = why;
	return 0;
}

static int add_alias(struct plan_fn *fn, const char *mangled)
{
	char **list;

	if (!strcmp(mangled, fn->symbol))
		return 0;
	for (size_t i = 0; i < fn->alias_cnt; i++)
		if (!strcmp(fn->aliases[i], mangled))
			return 0;
	list = realloc(fn->aliases, (fn->alias_cnt + 1) * sizeof(*list));
	if (!list)
		return -ENOMEM;
	fn->aliases = list;
	list[fn->alias_cnt] = strdup(mangled);
	return list[fn->alias_cnt] ? (int)(fn->alias_cnt++, 0) : -ENOMEM;
}

/* Every symbol of the address, whether it was picked or not. */
static int add_aliases(struct build *b, struct plan_fn *fn, const struct place *p)
{
	size_t cnt, i = image__lower_bound(b->img, p->best->sym->addr);
	const struct symbol *syms = image__symbols(b->img, &cnt);
	int err = 0;

	for (; i < cnt && syms[i].addr == p->best->sym->addr && !err; i++)
		if (syms[i].type >= SYMBOL_FUNC)
			err = add_alias(fn, image__str(b->img, syms[i].name));
	return err;
}

static uint64_t *slot_of(struct build *b, uint64_t offset)
{
	size_t at = address_hash(offset) & (b->taken_cap - 1);

	while (b->taken[at] && b->taken[at] != offset)
		at = (at + 1) & (b->taken_cap - 1);
	return &b->taken[at];
}

static int take(struct build *b, uint64_t offset)
{
	if (b->taken_cnt * 2 >= b->taken_cap) {
		uint64_t *old = b->taken;
		size_t cap = b->taken_cap;

		b->taken_cap = cap ? cap * 2 : 1024;
		b->taken = calloc(b->taken_cap, sizeof(*b->taken));
		if (!b->taken) {
			b->taken = old;
			return -ENOMEM;
		}
		for (size_t i = 0; i < cap; i++)
			if (old[i])
				*slot_of(b, old[i]) = old[i];
		free(old);
	}
	*slot_of(b, offset) = offset;
	b->taken_cnt++;
	return 0;
}

static bool is_taken(struct build *b, uint64_t vaddr)
{
	uint64_t offset;

	return b->taken_cap && image__code_offset(b->img, vaddr, &offset) &&
	       *slot_of(b, offset) == offset;
}

static const struct flow_site *exits_of(const struct build *b, const struct flow *flow, size_t *cnt)
{
	bool edges = b->plan->exit == PLAN_EXIT_AUTO && flow->edge_cnt;

	*cnt = edges ? flow->edge_cnt : flow->exit_cnt;
	return edges ? flow->edges : flow->exits;
}

/*
 * Two functions with a common part, whatever the symbols say of it: at one place two sites would
 * both be called, and neither is right.
 */
static void refuse_shared(struct build *b, struct flow *flow)
{
	bool shared = is_taken(b, flow->entry.vaddr) || is_taken(b, flow->first.vaddr);
	size_t cnt;
	const struct flow_site *exits = exits_of(b, flow, &cnt);

	for (size_t i = 0; i < cnt; i++)
		shared |= is_taken(b, exits[i].vaddr);
	if (shared && !flow->why)
		flow->why = PLAN_ENTERED_MIDWAY;
}

static int add_site(struct build *b, const struct flow_site *from, enum rt_site_kind kind)
{
	struct plan_site *site = vec__push(&b->sites);

	if (!site)
		return -ENOMEM;
	*site = (struct plan_site){
		.vaddr = from->vaddr,
		.fn = (uint32_t)b->fns.cnt - 1,
		.object = (uint32_t)b->objects.cnt - 1,
		.kind = kind,
		.insn = from->insn,
		.cond = from->cond,
		.sp_words = from->sp_words,
	};
	image__code_offset(b->img, from->vaddr, &site->offset);
	return take(b, site->offset);
}

static bool is_entry(const struct plan_site *s)
{
	return s->kind == RT_SITE_ENTRY;
}

static int add_exits(struct build *b, const struct flow *flow, struct plan_fn *fn)
{
	size_t cnt;
	const struct flow_site *exits = exits_of(b, flow, &cnt);
	int err = 0;

	for (size_t i = 0; i < cnt && !err; i++)
		err = add_site(b, &exits[i], exits[i].kind);
	if (exits == flow->edges)
		fn->has_edges = true;
	return err;
}

/* One row's sites in their order: entries, then exits. */
static int add_sites(struct build *b, struct plan_fn *fn, const struct flow *flows, size_t cnt)
{
	bool uret = b->plan->exit == PLAN_EXIT_URETPROBE;
	int err = 0;

	for (size_t i = 0; i < cnt && !err; i++)
		if (!flows[i].why)
			err = add_site(b, uret ? &flows[i].first : &flows[i].entry, RT_SITE_ENTRY);
	for (size_t i = 0; i < cnt && !uret && !err; i++)
		if (!flows[i].why)
			err = add_exits(b, &flows[i], fn);
	for (size_t i = b->sites.cnt; i-- && b->sites.data[i].fn == b->fns.cnt - 1;) {
		const struct plan_site *s = &b->sites.data[i];

		fn->entry_sites += is_entry(s);
		fn->exit_sites += !is_entry(s);
		if (is_entry(s) && s->insn > fn->entry_insn)
			fn->entry_insn = s->insn;
		if (!is_entry(s) && s->insn > fn->exit_insn)
			fn->exit_insn = s->insn;
	}
	fn->addresses = fn->entry_sites;
	fn->never_returns = !uret && !fn->exit_sites;
	return err;
}

/* A return probe needs the first instruction, and does not care where the exits are. */
static void judge_for_return_probe(struct flow *flow)
{
	if (!flow->why && !flow->first_usable)
		flow->why = PLAN_UNPROBEABLE;
	else if (flow->first_usable &&
		 (flow->why == PLAN_THUNK || flow->why == PLAN_UNKNOWN_JUMP ||
		  flow->why == PLAN_UNREACHED || flow->why == PLAN_FALLS_THROUGH))
		flow->why = PLAN_OK;
}

static int add_fn(struct build *b, char *name, const struct place *places, struct flow *flows,
		  size_t cnt, bool async)
{
	struct line_of *start = vec__push(&b->starts);
	struct plan_fn *fn = start ? vec__push(&b->fns) : NULL;
	int err = 0;

	if (!fn) {
		free(name);
		return -ENOMEM;
	}
	*start = (struct line_of){ .vaddr = places->best->sym->addr,
				   .id = (uint32_t)b->fns.cnt - 1 };
	fn->name = name;
	fn->object = (uint32_t)b->objects.cnt - 1;
	fn->kind = async ? PLAN_ASYNC : PLAN_FN;
	fn->symbol = strdup(places->best->mangled);
	fn->crate = strdup(places->best->crate);
	if (!fn->symbol || !fn->crate)
		return -ENOMEM;
	for (size_t i = 0; i < cnt && !err; i++)
		if (!flows[i].why)
			err = add_aliases(b, fn, &places[i]);
	return err ? err : add_sites(b, fn, flows, cnt);
}

/* Why a row whose functions could be probed is left out all the same. */
static enum plan_refusal out_of_reach(const struct build *b, const struct flow *flows, size_t cnt)
{
	bool uret = b->plan->exit == PLAN_EXIT_URETPROBE;
	size_t probes = b->sites.cnt * (uret ? 2 : 1);

	for (size_t i = 0; i < cnt; i++) {
		size_t exits;

		exits_of(b, &flows[i], &exits);
		if (!flows[i].why)
			probes += uret ? 2 : 1 + exits;
	}
	if (b->fns.cnt >= RT_MAX_FUNCTIONS)
		return PLAN_TOO_MANY;
	if (b->req->exe_only && b->objects.cnt > 1)
		return PLAN_EXE_ONLY;
	return b->req->max_probes && probes > b->req->max_probes ? PLAN_TOO_FEW_PROBES : PLAN_OK;
}

/* A row: functions at cnt places that are one by name. Takes the name over. */
static int add_row(struct build *b, char *name, const struct place *places, size_t cnt)
{
	struct flow *flows = calloc(cnt, sizeof(*flows));
	bool closure = closure__is_named(places->best->name), async = false;
	struct closure_state state;
	enum plan_refusal why;
	size_t good = 0;
	int err = name && flows ? 0 : -ENOMEM;

	for (size_t i = 0; i < cnt && !err; i++) {
		err = flow__analyse(b->img, places[i].best->sym, places[i].size, &flows[i]);
		if (b->plan->exit == PLAN_EXIT_URETPROBE)
			judge_for_return_probe(&flows[i]);
		refuse_shared(b, &flows[i]);
		if (err || flows[i].why)
			continue;
		async |= closure && closure__is_coroutine(b->img, &flows[i], &state);
		good++;
	}
	for (size_t i = 0; i < cnt && !err; i++)
		if (flows[i].why)
			err = skip(b, name, flows[i].why);
	why = good ? out_of_reach(b, flows, cnt) : PLAN_OK;
	if (!err && good && why) {
		err = skip(b, name, why);
	} else if (!err && good) {
		err = add_fn(b, name, places, flows, cnt, async);
		name = NULL;
	}
	for (size_t i = 0; i < cnt && flows; i++)
		flow__free(&flows[i]);
	free(flows);
	free(name);
	return err;
}

static int add_rows(struct build *b)
{
	const struct place *p = b->places.data;
	size_t lo = 0, hi, end;
	int err = 0;

	places__sort(b);
	for (; lo < b->places.cnt && !err; lo = hi) {
		hi = lo + 1;
		while (hi < b->places.cnt && !strcmp(p[hi].best->name, p[lo].best->name))
			hi++;
		for (size_t first = lo; first < hi && !err; first = end) {
			end = first + 1;
			while (end < hi && !places__compare(p[first].best, p[end].best))
				end++;
			err = add_row(b, places__name(b, lo, hi, first, end - first), &p[first],
				      end - first);
		}
	}
	return err;
}

/* One place may have several names: longjmp, siglongjmp. */
static bool has_catch(const struct build *b, uint64_t vaddr)
{
	uint32_t object = (uint32_t)b->objects.cnt - 1;

	for (size_t i = b->catches.cnt; i-- && b->catches.data[i].object == object;)
		if (b->catches.data[i].vaddr == vaddr)
			return true;
	return false;
}

/* A jump's argument says where it leads. */
static int add_catch(struct build *b, const struct symbol *sym, const struct flow *flow)
{
	unsigned int leap = leaps__kind(image__str(b->img, sym->name)) ?: LEAP_PANIC;
	const struct flow_site *at = leap == LEAP_JUMP ? flow__with_arguments(flow) : &flow->entry;
	struct plan_site *site;

	if (flow->why && (at != &flow->first || !flow->first_usable))
		return 0;
	b->swept |= leap;
	if (has_catch(b, at->vaddr))
		return 0;
	site = vec__push(&b->catches);
	if (!site)
		return -ENOMEM;
	*site = (struct plan_site){ .vaddr = at->vaddr,
				    .object = (uint32_t)b->objects.cnt - 1,
				    .kind = leap == LEAP_JUMP ? RT_SITE_JUMP : RT_SITE_CATCH,
				    .insn = at->insn,
				    .sp_words = at->sp_words };
	image__code_offset(b->img, site->vaddr, &site->offset);
	return 0;
}

static int add_catches(struct build *b)
{
	int err = 0;

	if (b->req->exe_only && b->objects.cnt > 1)
		return 0;
	for (size_t i = 0; i < b->sel->catch_cnt && !err; i++) {
		const struct symbol *sym = b->sel->catches[i];
		struct flow flow;

		err = flow__analyse(b->img, sym, sym->size, &flow);
		err = err ?: add_catch(b, sym, &flow);
		flow__free(&flow);
	}
	return err;
}

int rows__add(struct build *b)
{
	int err = places__find(b);

	if (!err)
		err = add_rows(b);
	if (!err)
		err = add_catches(b);
	places__free(b);
	free(b->taken);
	b->taken = NULL;
	b->taken_cnt = b->taken_cap = 0;
	return err;
}

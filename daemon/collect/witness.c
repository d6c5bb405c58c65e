/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A frame of the shadow stack is alive when the walk found one that returns through the same slot
 * and is in code of the same function; dead when the walk would have found it. Both were read at
 * different moments, and the thread may have run in between. That does no harm: what is dead once
 * stays so, and a call that ended as it should is no longer there in the settler's next pass.
 */
#include "collect/witness.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/vec.h"
#include "collect/onstack.h"

#define TRIES 20
#define PAUSE_NS (2 * NS_PER_MS) /* a thread that serves requests blocks now and then */

/* ---- what was seen ---- */

static void hear_one(struct settled_frame *f, const struct standing_thread *t)
{
	const struct area home = { f->home_lo, f->home_hi };
	uint32_t at = onstack__find(t, f->sp);

	f->seen = at == ONSTACK_NONE ? 0 : t->frames[at];
	f->verdict = !f->seen && onstack__covers(t, &home, f->sp) ? CALL_DEAD : CALL_UNDECIDED;
}

int witness__recall(struct settler *s, const struct waiting *w)
{
	size_t cnt;
	struct settled_frame *f = settler__frames(s, &cnt);
	int left = 0;

	for (size_t i = 0; i < cnt; i++) {
		const struct standing_thread *t;

		if (f[i].verdict == CALL_DEAD || f[i].seen)
			continue;
		t = waiting__thread(w, f[i].tid);
		if (t && !t->depth)
			left++;
		else if (t)
			hear_one(&f[i], t);
	}
	return left;
}

int witness__look(struct settler *s, struct waiting *w)
{
	int err = waiting__look(w, NULL, 0);

	return err ?: witness__recall(s, w);
}

void witness__look_patiently(struct settler *s, struct waiting *w)
{
	const struct timespec pause = { .tv_nsec = PAUSE_NS };

	struct settled_frame *f;
	size_t cnt;

	for (int try = 0; try < TRIES && witness__look(s, w) > 0; try++)
		nanosleep(&pause, NULL);
	settler__doubt_unseen(s);
	f = settler__frames(s, &cnt);
	for (size_t i = 0; i < cnt; i++)
		f[i].untold = f[i].verdict == CALL_UNDECIDED;
}

/* ---- whose it is ---- */

/* Also the unlikely part that compilers move away. */
static bool is_symbol_of(const struct plan_fn *fn, const char *symbol)
{
	const char *cold = strstr(symbol, ".cold");
	size_t len = cold ? (size_t)(cold - symbol) : strlen(symbol);

	if (strlen(fn->symbol) == len && !strncmp(fn->symbol, symbol, len))
		return true;
	for (size_t i = 0; i < fn->alias_cnt; i++)
		if (strlen(fn->aliases[i]) == len && !strncmp(fn->aliases[i], symbol, len))
			return true;
	return false;
}

/* By its place, whatever it is called; an entry site that was moved does not tell. */
static bool is_entered_at(const struct plan *plan, uint32_t fn, const struct named_fn *found)
{
	for (size_t i = found->start ? 0 : plan->site_cnt; i < plan->site_cnt; i++) {
		const struct plan_site *s = &plan->sites[i];

		if (s->fn == fn && s->kind == RT_SITE_ENTRY && s->object == found->object &&
		    s->vaddr == found->start)
			return true;
	}
	return false;
}

/*
 * Somebody else's frame where a call returned through means that the call was left. Return probes
 * see no end at a jump to another function: there it may as well be the call that goes on.
 */
static enum call_verdict judge(const struct plan *plan, uint32_t fn, const struct named *n)
{
	if (!n)
		return CALL_UNDECIDED;
	if (n->fn.row == fn || is_entered_at(plan, fn, &n->fn) ||
	    (n->fn.symbol && is_symbol_of(&plan->fns[fn], n->fn.symbol)))
		return CALL_ALIVE;
	return n->fn.symbol && plan->exit != PLAN_EXIT_URETPROBE ? CALL_DEAD : CALL_UNDECIDED;
}

int witness__name(struct settler *s, struct waiting *w, const struct plan *plan)
{
	size_t cnt;
	struct settled_frame *f = settler__frames(s, &cnt);
	VEC(uint64_t) seen = {};
	int err = 0;

	for (size_t i = 0; i < cnt && !err; i++) {
		uint64_t *slot = f[i].seen ? vec__push(&seen) : NULL;

		if (slot)
			*slot = f[i].seen;
		else if (f[i].seen)
			err = -ENOMEM;
	}
	err = err ?: waiting__learn(w, seen.data, seen.cnt);
	for (size_t i = 0; i < cnt && !err; i++) {
		if (f[i].seen)
			f[i].verdict = judge(plan, f[i].fn, waiting__named(w, f[i].seen));
		f[i].seen = 0;
	}
	vec__free(&seen);
	return err;
}

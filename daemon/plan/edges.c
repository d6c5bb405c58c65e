// SPDX-License-Identifier: BSD-2-Clause
/*
 * Cheaper exits. A ret is single-stepped, which is dear; the jump that led to it is emulated. If
 * after some jump nothing can happen any more but the way out, the jump itself is the exit.
 *
 * An instruction is *ending* when every path from it leaves the function within a few instructions,
 * without a call or anything else that may take its time. No path leads back out of the ending
 * region and it has no loop, so a call of the function passes each place there at most once.
 *
 * A set *past* of ending instructions is looked for that holds as many exits as possible, such that
 *   - what follows an instruction of past is in past, and
 *   - every step into past from outside can carry a probe: it leaves an emulated instruction and
 *     has it to itself (a jump, a nop), or it is one of the two ways of a conditional jump, told
 *     by the flags.
 * Then each call that leaves by an exit in past takes exactly one step into it, and the probes on
 * those steps are the exits. Exits that are not in past keep their own probe. Both conditions hold
 * for the union of two such sets, so each exit is tried alone: the set grows backwards from it, by
 * what cannot carry a probe and by what then follows, until it is closed or meets what is not
 * ending. That also makes it the smallest: the probes sit as late as they can.
 *
 * A conditional jump outside the ending region costs its trap also when it does not end the call.
 * In a loop it would do so each round: never there. And at most MAX_TRAPS on any one path, for a
 * single-stepped ret costs as much as a few of them.
 *
 * Unwinding enters at landing pads, so a pad in past would be a way in without a probe.
 */
#include "plan/walk.h"

#define MAX_INSNS_LEFT 64
#define MAX_TRAPS 4
#define STEPPED_TRAPS 2 /* taken for a single-stepped exit, at least */
#define NO_NODE UINT32_MAX

enum { BY_RET = 1, BY_TAIL = 2 };

struct node {
	uint32_t succ, pred; /* the first of its steps in graph.steps, in graph.by_to */
	uint32_t pending;    /* successors that are not ending */
	uint32_t order, low; /* of the search for loops */
	uint32_t comp;	     /* what can reach each other has one number */
	uint16_t left;	     /* ending: instructions to the exit at most, itself too */
	uint8_t ways;	     /* ending: BY_RET, BY_TAIL */
	bool ending, exit, past, tried, on_stack, in_loop;
};

struct graph {
	struct walk *w;
	const struct step *steps;
	size_t cnt, step_cnt;
	struct node *nodes;
	uint32_t *by_to; /* numbers of steps, by where they lead */
	uint32_t *todo;
	uint32_t todo_cnt;
	uint32_t entry; /* the entry probe's instruction */
	uint32_t comp_cnt;
	uint32_t *closed; /* nodes by component */
	uint32_t closed_cnt;
};

/* ---- the graph ---- */

/* Steps of one instruction lie together: they were made when it was visited. */
static void index_steps(struct graph *g)
{
	uint32_t at = 0;

	for (size_t s = 0; s < g->step_cnt; s++) {
		g->nodes[g->steps[s].to].pred++;
		g->nodes[g->steps[s].from].pending++;
	}
	for (size_t i = 0; i <= g->cnt; i++) {
		uint32_t n = g->nodes[i].pred;

		g->nodes[i].pred = at;
		at += n;
		g->nodes[i].succ = NO_NODE;
	}
	for (size_t s = g->step_cnt; s--;)
		g->nodes[g->steps[s].from].succ = (uint32_t)s;
	for (size_t s = 0; s < g->step_cnt; s++)
		g->by_to[g->nodes[g->steps[s].to].pred++] = (uint32_t)s;
	for (size_t i = g->cnt; i; i--)
		g->nodes[i].pred = g->nodes[i - 1].pred;
	g->nodes[0].pred = 0;
}

/* Iterates over the steps from a node. */
static bool next_succ(const struct graph *g, uint32_t i, uint32_t *s)
{
	*s = *s == NO_NODE ? g->nodes[i].succ : *s + 1;
	return *s < g->step_cnt && g->steps[*s].from == i;
}

static const struct insn *insn_of(const struct graph *g, uint32_t i)
{
	return &g->w->insns.data[i];
}

static bool may_end(const struct insn *in)
{
	return in->flow != INSN_CALL && in->flow != INSN_CALL_IND && in->flow != INSN_STOP &&
	       !in->unbounded;
}

static void mark_exits(struct graph *g)
{
	for (size_t x = 0; x < g->w->exits.cnt; x++) {
		struct node *n = &g->nodes[g->w->exit_at.data[x]];

		n->exit = true;
		n->ways = g->w->exits.data[x].kind == RT_SITE_RET ? BY_RET : BY_TAIL;
	}
}

static void end_at(struct graph *g, uint32_t i)
{
	struct node *n = &g->nodes[i];
	unsigned left = 0;

	if (!may_end(insn_of(g, i)))
		return;
	for (uint32_t s = NO_NODE; next_succ(g, i, &s);) {
		const struct node *to = &g->nodes[g->steps[s].to];

		left = to->left > left ? to->left : left;
		n->ways |= to->ways;
	}
	if (left == MAX_INSNS_LEFT)
		return;
	n->left = (uint16_t)(left + 1);
	n->ending = true;
	g->todo[g->todo_cnt++] = i;
}

/* From the exits backwards: what has only ending successors is ending. */
static void find_ending(struct graph *g)
{
	for (size_t x = 0; x < g->w->exits.cnt; x++)
		if (!g->nodes[g->w->exit_at.data[x]].pending)
			end_at(g, g->w->exit_at.data[x]);
	while (g->todo_cnt) {
		uint32_t i = g->todo[--g->todo_cnt];

		for (uint32_t p = g->nodes[i].pred; p < g->nodes[i + 1].pred; p++) {
			uint32_t from = g->steps[g->by_to[p]].from;

			if (!--g->nodes[from].pending)
				end_at(g, from);
		}
	}
}

/* ---- loops ---- */

struct frame {
	uint32_t node, step;
};

static void close_component(struct graph *g, uint32_t root, uint32_t *stack, uint32_t *top)
{
	uint32_t i, end = *top;

	do {
		i = stack[--*top];
		g->nodes[i].on_stack = false;
		g->nodes[i].comp = g->comp_cnt;
		g->closed[g->closed_cnt++] = i;
	} while (i != root);
	for (uint32_t k = *top; end - *top > 1 && k < end; k++)
		g->nodes[stack[k]].in_loop = true;
	g->comp_cnt++;
}

/* Tarjan's search, without recursion: components get their numbers successors first. */
static void search(struct graph *g, uint32_t root, struct frame *frames, uint32_t *stack,
		   uint32_t *order)
{
	uint32_t depth = 0, top = 0;

	frames[depth++] = (struct frame){ root, NO_NODE };
	while (depth) {
		struct frame *f = &frames[depth - 1];
		struct node *n = &g->nodes[f->node];

		if (f->step == NO_NODE) {
			n->order = n->low = ++*order;
			n->on_stack = true;
			stack[top++] = f->node;
		}
		if (next_succ(g, f->node, &f->step)) {
			struct node *to = &g->nodes[g->steps[f->step].to];

			if (to == n)
				n->in_loop = true;
			if (!to->order)
				frames[depth++] = (struct frame){ g->steps[f->step].to, NO_NODE };
			else if (to->on_stack && to->order < n->low)
				n->low = to->order;
			continue;
		}
		if (n->low == n->order)
			close_component(g, f->node, stack, &top);
		depth--;
		if (depth && n->low < g->nodes[frames[depth - 1].node].low)
			g->nodes[frames[depth - 1].node].low = n->low;
	}
}

static bool find_loops(struct graph *g)
{
	struct frame *frames = calloc(g->cnt, sizeof(*frames));
	uint32_t *stack = calloc(g->cnt, sizeof(*stack)), order = 0;
	bool ok = frames && stack;

	for (size_t i = 0; ok && i < g->cnt; i++)
		if (g->w->visits.data[i].seen && !g->nodes[i].order)
			search(g, (uint32_t)i, frames, stack, &order);
	free(frames);
	free(stack);
	return ok;
}

/* ---- the set past ---- */

/* The stack pointer at i as counted; the unwind rows must not say otherwise. */
static bool sp_is_known(const struct graph *g, uint32_t i)
{
	int32_t sp = g->w->visits.data[i].sp, rows;

	if (sp == WALK_SP_UNKNOWN || sp > 0 || sp % 8 || sp / -8 > UINT16_MAX)
		return false;
	rows = walk__sp_by_rows(g->w, insn_of(g, i)->vaddr);
	return rows == WALK_SP_UNKNOWN || rows == sp;
}

/* Both ways of a conditional jump, when both end the call, end it in one manner. */
static bool one_manner(const struct graph *g, uint32_t i)
{
	uint8_t ways = 0;

	for (uint32_t s = NO_NODE; next_succ(g, i, &s);)
		ways |= g->nodes[g->steps[s].to].ways;
	return ways == BY_RET || ways == BY_TAIL;
}

static bool carries_probe(const struct graph *g, const struct step *s)
{
	const struct insn *in = insn_of(g, s->from);

	if (!in->emulated || in->refused || g->nodes[s->from].exit || s->from <= g->entry)
		return false;
	if (in->flow == INSN_JCC ? g->nodes[s->from].in_loop
				 : in->flow != INSN_JMP && in->flow != INSN_NEXT)
		return false;
	return sp_is_known(g, s->from) && one_manner(g, s->from);
}

static bool try_node(struct graph *g, uint32_t i, uint32_t *set, uint32_t *set_cnt)
{
	struct node *n = &g->nodes[i];

	if (n->past || n->tried)
		return true;
	if (!n->ending || g->w->visits.data[i].pad || i <= g->entry)
		return false;
	n->tried = true;
	set[(*set_cnt)++] = i;
	return true;
}

/* Adds what node i of the set needs to be in it, too. */
static bool close_over(struct graph *g, uint32_t i, uint32_t *set, uint32_t *set_cnt)
{
	for (uint32_t s = NO_NODE; next_succ(g, i, &s);)
		if (!try_node(g, g->steps[s].to, set, set_cnt))
			return false;
	for (uint32_t p = g->nodes[i].pred; p < g->nodes[i + 1].pred; p++) {
		const struct step *s = &g->steps[g->by_to[p]];

		if (!carries_probe(g, s) && !try_node(g, s->from, set, set_cnt))
			return false;
	}
	return true;
}

/* Puts the exit at instruction i into past with all that it takes, or nothing. */
static void cover(struct graph *g, uint32_t i)
{
	uint32_t *set = g->todo, cnt = 0;
	bool ok = try_node(g, i, set, &cnt);

	for (uint32_t k = 0; ok && k < cnt; k++)
		ok = close_over(g, set[k], set, &cnt);
	for (uint32_t k = 0; k < cnt; k++) {
		g->nodes[set[k]].tried = false;
		g->nodes[set[k]].past = ok;
	}
}

/* ---- the sites ---- */

/* How a step into past shows: its site's kind, the condition perhaps. */
static bool add_edge(struct graph *g, uint32_t i, const struct step *first, bool both)
{
	const struct insn *in = insn_of(g, i);
	bool tail = g->nodes[first->to].ways == BY_TAIL, cond = in->flow == INSN_JCC && !both;
	struct flow_site *site = vec__push(&g->w->edges);

	if (!site)
		return false;
	*site = (struct flow_site){
		.vaddr = in->vaddr,
		.insn = RT_INSN_EMULATED,
		.sp_words = (uint16_t)(g->w->visits.data[i].sp / -8),
		.kind = tail ? (cond ? RT_SITE_JCC : RT_SITE_TAIL)
			     : (cond ? RT_SITE_EDGE_JCC : RT_SITE_EDGE),
		/* the opposite condition is the next one */
		.cond = cond ? (uint8_t)(first->taken ? in->cond : in->cond ^ 1) : 0,
	};
	return true;
}

/* The steps from node i into past. */
static unsigned steps_into(const struct graph *g, uint32_t i, const struct step **first)
{
	unsigned n = 0;

	for (uint32_t s = NO_NODE; next_succ(g, i, &s);)
		if (g->nodes[g->steps[s].to].past && !n++)
			*first = &g->steps[s];
	return n;
}

static bool add_sites(struct graph *g)
{
	for (uint32_t i = 0; i < g->cnt; i++) {
		const struct step *first;
		unsigned n = g->nodes[i].past ? 0 : steps_into(g, i, &first);

		if (n && !add_edge(g, i, first, n > 1))
			return false;
	}
	for (size_t x = 0; x < g->w->exits.cnt; x++) {
		struct flow_site *site;

		if (g->nodes[g->w->exit_at.data[x]].past)
			continue;
		site = vec__push(&g->w->edges);
		if (!site)
			return false;
		*site = g->w->exits.data[x];
	}
	return true;
}

/* What a probe at node i costs each call that comes by, in emulated traps. */
static unsigned traps_at(const struct graph *g, uint32_t i)
{
	const struct step *first;

	if (g->nodes[i].past)
		return 0;
	if (g->nodes[i].exit)
		return insn_of(g, i)->emulated ? 1 : STEPPED_TRAPS;
	return steps_into(g, i, &first) ? 1 : 0;
}

/* The most that any path from the entry pays. */
static bool is_cheap(const struct graph *g)
{
	unsigned *most = calloc(g->comp_cnt + 1, sizeof(*most));
	bool cheap;

	if (!most)
		return false;
	/* nodes were closed with their components, successors first */
	for (uint32_t k = 0; k < g->closed_cnt; k++) {
		uint32_t i = g->closed[k];
		unsigned *m = &most[g->nodes[i].comp], here = 0;

		for (uint32_t s = NO_NODE; next_succ(g, i, &s);)
			if (most[g->nodes[g->steps[s].to].comp] > here)
				here = most[g->nodes[g->steps[s].to].comp];
		here += traps_at(g, i);
		*m = here > *m ? here : *m;
	}
	cheap = most[g->nodes[0].comp] <= MAX_TRAPS;
	free(most);
	return cheap;
}

/* ---- all of it ---- */

static bool set_up(struct graph *g)
{
	size_t steps = g->step_cnt + 1;

	g->nodes = calloc(g->cnt + 1, sizeof(*g->nodes));
	g->by_to = calloc(steps, sizeof(*g->by_to));
	g->todo = calloc(g->cnt + 1, sizeof(*g->todo));
	g->closed = calloc(g->cnt + 1, sizeof(*g->closed));
	if (!g->nodes || !g->by_to || !g->todo || !g->closed)
		return false;
	while (insn_of(g, g->entry)->vaddr != g->w->out->entry.vaddr)
		g->entry++;
	index_steps(g);
	return true;
}

static bool choose(struct graph *g)
{
	size_t covered = 0;

	mark_exits(g);
	find_ending(g);
	if (!find_loops(g))
		return false;
	for (size_t x = 0; x < g->w->exits.cnt; x++) {
		uint32_t i = g->w->exit_at.data[x];

		/* an exit that is emulated is as cheap as an edge */
		if (!insn_of(g, i)->emulated && !g->nodes[i].past)
			cover(g, i);
		covered += g->nodes[i].past;
	}
	return !covered || !is_cheap(g) || add_sites(g);
}

void walk__choose_edges(struct walk *w)
{
	struct graph g = {
		.w = w, .steps = w->steps.data, .cnt = w->insns.cnt, .step_cnt = w->steps.cnt
	};

	if (!set_up(&g) || !choose(&g))
		w->oom = true;
	free(g.nodes);
	free(g.by_to);
	free(g.todo);
	free(g.closed);
}

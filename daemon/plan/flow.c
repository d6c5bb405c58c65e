// SPDX-License-Identifier: BSD-2-Clause
/*
 * Following a function's control flow.
 *
 * Compilers put no data into code, but assembly does, and symbols lie. So the function is decoded
 * twice over: once straight on from its first byte (in compiled code every instruction is on that
 * grid), and once along its paths: from the entry, and from the landing pads that unwinding may
 * enter. A path that leaves the grid, or meets bytes that are no instruction, gives the function
 * up. What no path reaches must hold no way out; else it is data, or a path was missed.
 *
 * Where an indirect jump goes is found out in jumps.c. The stack pointer is known by counting along
 * the paths, and where that is lost from the unwind rows.
 *
 * The unlikely part that GCC moves away ("f.cold") is reached by jumps and belongs to its
 * function: its ways out are the function's, and a jump back is none.
 *
 * Calls that do not return are not known as such. Behind one the walk goes on into whatever
 * follows; that is harmless but for the stack pointer, which is set anew from the unwind rows.
 */
#include "plan/walk.h"

void walk__refuse(struct walk *w, enum plan_refusal why, uint64_t at)
{
	if (w->out->why)
		return;
	w->out->why = why;
	w->out->why_at = at;
}

static void arrive(struct walk *w, uint32_t i, int32_t sp, int32_t frame)
{
	struct visit *v = &w->visits.data[i];
	uint32_t *slot;

	if (v->seen)
		return;
	v->sp = sp;
	v->frame = frame;
	v->seen = true;
	slot = vec__push(&w->todo);
	if (slot)
		*slot = i;
	else
		w->oom = true;
}

static void step(struct walk *w, uint32_t from, uint32_t to, bool taken)
{
	struct step *slot = vec__push(&w->steps);

	if (slot)
		*slot = (struct step){ from, to, taken };
	else
		w->oom = true;
}

void walk__jump_to(struct walk *w, uint32_t from, uint64_t vaddr, int32_t sp, int32_t frame)
{
	uint32_t i;

	if (!walk__index_of(w, vaddr, &i)) {
		walk__refuse(w, PLAN_BAD_BOUNDARY, vaddr);
		return;
	}
	w->visits.data[i].target = true;
	step(w, from, i, true);
	arrive(w, i, sp, frame);
}

/* Padding behind a call that does not return may reach the end of the symbol. */
static bool ends_in_call(struct walk *w, uint32_t i, const struct part *part)
{
	while (i > part->first && w->insns.data[i].padding)
		i--;
	return w->insns.data[i].flow == INSN_CALL || w->insns.data[i].flow == INSN_CALL_IND;
}

static void fall_to(struct walk *w, uint32_t from, uint64_t vaddr, int32_t sp, int32_t frame)
{
	struct part *part = walk__part_of(w, w->insns.data[from].vaddr);
	uint32_t i;

	if (vaddr >= part->end) {
		if (!ends_in_call(w, from, part))
			walk__refuse(w, PLAN_FALLS_THROUGH, vaddr);
	} else if (walk__index_of(w, vaddr, &i)) {
		step(w, from, i, false);
		arrive(w, i, sp, frame);
	} else if (!ends_in_call(w, from, part)) {
		walk__refuse(w, PLAN_UNDECODABLE, vaddr);
	}
}

/* Whether a jump or ret at i leaves with the stack as the caller had it. */
bool walk__frame_is_gone(struct walk *w, uint32_t i)
{
	int32_t sp = w->visits.data[i].sp;

	if (sp == WALK_SP_UNKNOWN)
		sp = walk__sp_by_rows(w, w->insns.data[i].vaddr);
	return !sp || (sp == WALK_SP_UNKNOWN && w->insns.data[i].flow == INSN_RET);
}

void walk__leave(struct walk *w, uint32_t i, enum rt_site_kind kind)
{
	const struct insn *in = &w->insns.data[i];
	struct flow_site *site;
	uint32_t *at;

	if (!walk__frame_is_gone(w, i)) {
		walk__refuse(w, PLAN_UNKNOWN_JUMP, in->vaddr);
		return;
	}
	if (in->refused) {
		walk__refuse(w, PLAN_UNPROBEABLE, in->vaddr);
		return;
	}
	site = vec__push(&w->exits);
	at = vec__push(&w->exit_at);
	if (!site || !at) {
		w->oom = true;
		return;
	}
	*at = i;
	site->vaddr = in->vaddr;
	site->kind = kind;
	site->insn = in->emulated ? RT_INSN_EMULATED : RT_INSN_STEPPED;
	site->cond = in->cond;
}

static void visit(struct walk *w, uint32_t i)
{
	struct insn in = w->insns.data[i]; /* a copy: adopting a part moves the array */
	struct visit v = w->visits.data[i];
	int32_t sp = v.sp, frame = v.frame, rows;

	if (in.sp_bytes == INSN_SP_LOST)
		sp = WALK_SP_UNKNOWN;
	else if (in.sp_from_frame)
		sp = frame == WALK_SP_UNKNOWN ? WALK_SP_UNKNOWN : frame + in.sp_bytes;
	else if (sp != WALK_SP_UNKNOWN)
		sp += in.sp_bytes;
	if (in.frame_from_sp)
		frame = v.sp;
	switch ((enum insn_flow)in.flow) {
	case INSN_CALL:
	case INSN_CALL_IND:
		/* the call may not return, and what follows it be another block with its own stack
		 */
		rows = walk__sp_by_rows(w, in.vaddr + in.len);
		if (rows != WALK_SP_UNKNOWN)
			sp = rows;
		/* fall through */
	case INSN_NEXT:
		fall_to(w, i, in.vaddr + in.len, sp, frame);
		break;
	case INSN_JMP:
		if (walk__is_own(w, in.target, !walk__frame_is_gone(w, i)))
			walk__jump_to(w, i, in.target, sp, frame);
		else
			walk__leave(w, i, RT_SITE_TAIL);
		break;
	case INSN_JCC:
	case INSN_JCXZ:
		if (walk__is_own(w, in.target, !walk__frame_is_gone(w, i)))
			walk__jump_to(w, i, in.target, sp, frame);
		else if (in.flow == INSN_JCC)
			walk__leave(w, i, RT_SITE_JCC);
		else
			walk__refuse(w, PLAN_UNKNOWN_JUMP, in.vaddr);
		fall_to(w, i, in.vaddr + in.len, sp, frame);
		break;
	case INSN_JMP_IND:
		walk__indirect(w, i);
		break;
	case INSN_RET:
		walk__leave(w, i, RT_SITE_RET);
		break;
	case INSN_STOP:
		break;
	}
}

static void landing_pad(void *arg, uint64_t vaddr)
{
	struct walk *w = arg;
	uint32_t i;

	if (!walk__is_own(w, vaddr, true))
		return;
	if (!walk__index_of(w, vaddr, &i)) {
		walk__refuse(w, PLAN_BAD_BOUNDARY, vaddr);
		return;
	}
	w->visits.data[i].target = w->visits.data[i].pad = true;
	arrive(w, i, walk__sp_by_rows(w, vaddr), WALK_SP_UNKNOWN);
}

static void follow(struct walk *w)
{
	unsigned pads_done = 0;

	arrive(w, 0, 0, WALK_SP_UNKNOWN);
	while (!w->out->why && !w->oom) {
		if (w->todo.cnt) {
			visit(w, w->todo.data[--w->todo.cnt]);
		} else if (pads_done < w->part_cnt) {
			struct part *part = &w->parts[pads_done++];

			if (part->has_fde)
				cfi__landing_pads(w->img, &part->fde, landing_pad, w);
		} else {
			break;
		}
	}
}

static bool is_way_out(struct walk *w, const struct insn *in)
{
	if (in->flow == INSN_RET || in->flow == INSN_JMP_IND)
		return true;
	return (in->flow == INSN_JMP || in->flow == INSN_JCC) && !walk__part_of(w, in->target);
}

static void check_unreached(struct walk *w)
{
	for (size_t i = 0; i < w->insns.cnt; i++)
		if (!w->visits.data[i].seen && is_way_out(w, &w->insns.data[i]))
			walk__refuse(w, PLAN_UNREACHED, w->insns.data[i].vaddr);
}

/* Whatever may jump somewhere, reached or not: be careful with the entry. */
static void mark_targets(struct walk *w)
{
	for (size_t i = 0; i < w->insns.cnt; i++) {
		const struct insn *in = &w->insns.data[i];
		uint32_t to;

		if ((in->flow == INSN_JMP || in->flow == INSN_JCC || in->flow == INSN_JCXZ) &&
		    walk__index_of(w, in->target, &to))
			w->visits.data[to].target = true;
	}
}

/* What other symbols say about the bytes of this one. */
static void check_symbols(struct walk *w, uint64_t size, bool labels)
{
	size_t cnt, i = image__lower_bound(w->img, w->sym->addr + 1);
	const struct symbol *syms = image__symbols(w->img, &cnt);
	uint32_t at;

	for (; i < cnt && syms[i].addr < w->sym->addr + size && !w->out->why; i++) {
		if (!labels && syms[i].type >= SYMBOL_FUNC)
			walk__refuse(w, PLAN_ENTERED_MIDWAY, syms[i].addr);
		else if (!labels && syms[i].type == SYMBOL_OBJECT)
			walk__refuse(w, PLAN_DATA_INSIDE, syms[i].addr);
		else if (labels && syms[i].type == SYMBOL_NOTYPE &&
			 (!walk__index_of(w, syms[i].addr, &at) || !w->visits.data[at].seen))
			walk__refuse(w, PLAN_DATA_INSIDE, syms[i].addr);
	}
}

static bool is_exit(struct walk *w, uint64_t vaddr)
{
	for (size_t i = 0; i < w->exits.cnt; i++)
		if (w->exits.data[i].vaddr == vaddr)
			return true;
	return false;
}

/*
 * The entry probe goes to the first instruction of the entry block that the kernel emulates:
 * before it nothing branches, nothing is jumped to, and the stack pointer's way is known. Where
 * there is none, to the first that the kernel takes at all.
 */
static void choose_entry(struct walk *w)
{
	const struct insn *first = &w->insns.data[0];
	struct flow_site *entry = &w->out->entry;
	bool takes = !first->refused && !is_exit(w, first->vaddr);
	int64_t sp = 0;

	if (w->visits.data[0].target)
		walk__refuse(w, PLAN_ENTERED_MIDWAY, first->vaddr);
	w->out->first =
		(struct flow_site){ .vaddr = first->vaddr,
				    .insn = first->emulated ? RT_INSN_EMULATED : RT_INSN_STEPPED };
	*entry = w->out->first;
	for (size_t i = w->parts[0].first; i < w->parts[0].last; i++) {
		const struct insn *in = &w->insns.data[i];

		if (i && w->visits.data[i].target)
			break;
		if ((in->emulated || (!takes && !in->refused)) && !is_exit(w, in->vaddr) &&
		    sp <= 0 && !(sp % 8) && sp / -8 <= UINT16_MAX) {
			entry->vaddr = in->vaddr;
			entry->insn = in->emulated ? RT_INSN_EMULATED : RT_INSN_STEPPED;
			entry->sp_words = (uint16_t)(sp / -8);
			takes = true;
			if (in->emulated)
				return;
		}
		if (in->flow != INSN_NEXT || in->sp_bytes == INSN_SP_LOST || in->sp_from_frame)
			break;
		sp += in->sp_bytes;
	}
	if (takes)
		return;
	if (is_exit(w, first->vaddr))
		walk__refuse(w, PLAN_THUNK, first->vaddr);
	else
		walk__refuse(w, PLAN_UNPROBEABLE, first->vaddr);
}

static void note_first(struct walk *w)
{
	const struct insn *in = &w->insns.data[0];

	w->out->first.vaddr = in->vaddr;
	w->out->first.insn = in->emulated ? RT_INSN_EMULATED : RT_INSN_STEPPED;
	w->out->first_usable = !in->refused;
}

static void analyse(struct walk *w, uint64_t size)
{
	uint64_t offset, last;

	if (w->sym->type == SYMBOL_IFUNC)
		walk__refuse(w, PLAN_IFUNC, w->sym->addr);
	else if (!size)
		walk__refuse(w, PLAN_NO_SIZE, w->sym->addr);
	else if (size > WALK_MAX_BYTES || w->sym->addr + size < w->sym->addr ||
		 !image__code_offset(w->img, w->sym->addr, &offset) ||
		 !image__code_offset(w->img, w->sym->addr + size - 1, &last) ||
		 last - offset != size - 1)
		walk__refuse(w, PLAN_NOT_CODE, w->sym->addr);
	else
		check_symbols(w, size, false);
	if (w->out->why || !walk__add_part(w, w->sym->addr, size))
		return;
	if (!w->insns.cnt || w->insns.data[0].vaddr != w->sym->addr) {
		walk__refuse(w, PLAN_UNDECODABLE, w->sym->addr);
		return;
	}
	note_first(w);
	follow(w);
	mark_targets(w);
	if (w->visits.data[0].target) {
		w->out->why = PLAN_OK; /* the weightier reason */
		w->out->first_usable = false;
		walk__refuse(w, PLAN_ENTERED_MIDWAY, w->sym->addr);
	}
	if (w->out->why || w->oom)
		return;
	check_symbols(w, size, true);
	choose_entry(w);
	check_unreached(w);
	if (!w->out->why && !w->oom)
		walk__choose_edges(w);
}

static int by_vaddr(const void *a, const void *b)
{
	const struct flow_site *x = a, *y = b;

	return x->vaddr < y->vaddr ? -1 : x->vaddr > y->vaddr;
}

int flow__analyse(const struct image *img, const struct symbol *sym, uint64_t size,
		  struct flow *out)
{
	struct walk w = { .img = img, .sym = sym, .out = out };

	memset(out, 0, sizeof(*out));
	analyse(&w, size);
	if (w.exits.cnt)
		qsort(w.exits.data, w.exits.cnt, sizeof(*w.exits.data), by_vaddr);
	if (w.edges.cnt)
		qsort(w.edges.data, w.edges.cnt, sizeof(*w.edges.data), by_vaddr);
	out->exits = w.exits.data;
	out->exit_cnt = w.exits.cnt;
	out->edges = w.edges.data;
	out->edge_cnt = w.edges.cnt;
	out->insns = w.insns.data;
	out->insn_cnt = w.insns.cnt;
	for (unsigned i = 0; i < w.part_cnt; i++) {
		free(w.parts[i].at);
		vec__free(&w.parts[i].rows);
	}
	vec__free(&w.addresses);
	vec__free(&w.exit_at);
	vec__free(&w.steps);
	vec__free(&w.visits);
	vec__free(&w.todo);
	return w.oom ? -ENOMEM : 0;
}

void flow__free(struct flow *flow)
{
	free(flow->exits);
	free(flow->edges);
	free(flow->insns);
	memset(flow, 0, sizeof(*flow));
}

bool flow__callee(const struct image *img, const struct insn *in, uint64_t *vaddr)
{
	if (in->flow == INSN_CALL || in->flow == INSN_JMP) {
		*vaddr = in->target;
		return true;
	}
	return (in->flow == INSN_CALL_IND || in->flow == INSN_JMP_IND) && in->reg == INSN_NONE &&
	       in->mem.base == INSN_RIP && in->mem.index == INSN_NONE &&
	       image__pointer(img, (uint64_t)in->mem.disp, vaddr);
}

#define ARGUMENTS (1u << INSN_RDI | 1u << INSN_RSI | 1u << INSN_RDX | 1u << INSN_RCX)

const struct flow_site *flow__with_arguments(const struct flow *flow)
{
	if (flow->why)
		return &flow->first;
	for (size_t i = 0; i < flow->insn_cnt && flow->insns[i].vaddr < flow->entry.vaddr; i++)
		if (flow->insns[i].wmask & ARGUMENTS)
			return &flow->first;
	return &flow->entry;
}

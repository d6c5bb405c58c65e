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
 * The hard part is the indirect jump. It is one of:
 *   jmp *slot(%rip)          through the GOT: a tail call
 *   jmp *off(%reg), *%reg    a method of a trait object or a callback: a tail call, if the stack
 *                            is back to what it was at the entry
 *   movslq (%t,%i,4),%r; add %t,%r; jmp *%r    a table of offsets, as in all PIC code
 *   jmp *table(,%i,8)        a table of addresses
 * A table is believed entry by entry while it leads onto the function's grid, up to the bound
 * that a comparison before it gives. The stack pointer is known by counting along the paths, and
 * where that is lost from the unwind rows.
 *
 * The unlikely part that GCC moves away ("f.cold") is reached by jumps and belongs to its
 * function: its ways out are the function's, and a jump back is none.
 *
 * Calls that do not return are not known as such. Behind one the walk goes on into whatever
 * follows; that is harmless but for the stack pointer, which is set anew from the unwind rows.
 */
#include "plan/flow.h"

#include "base/vec.h"
#include "symbols/cfi.h"
#include "symbols/image.h"

#define MAX_PARTS 4
#define MAX_FUNCTION_BYTES (8u << 20)
#define MAX_TABLE 8192
#define LOOK_BACK 64 /* instructions */
#define UNKNOWN INSN_SP_LOST

struct part {
	uint64_t start, end;
	const uint8_t *bytes;
	uint32_t *at;	    /* per byte: index of the instruction that starts there, + 1 */
	size_t first, last; /* its instructions */
	struct cfi_fde fde;
	bool has_fde;
	struct rows {
		struct cfi_row *data;
		size_t cnt, cap;
	} rows;
};

/* What is known on arrival at an instruction. */
struct visit {
	int32_t sp;    /* bytes above its value at the entry, or UNKNOWN */
	int32_t frame; /* the same of rbp, when it is a frame pointer */
	bool seen, target;
};

struct walk {
	const struct image *img;
	const struct symbol *sym;
	struct flow *out;
	struct part parts[MAX_PARTS];
	unsigned part_cnt;
	VEC(struct insn) insns;
	VEC(struct visit) visits;
	VEC(uint32_t) todo;
	VEC(struct flow_site) exits;
	VEC(uint64_t) addresses; /* of data that the function takes: where tables may be */
	bool oom;
};

static void refuse(struct walk *w, enum plan_refusal why, uint64_t at)
{
	if (w->out->why)
		return;
	w->out->why = why;
	w->out->why_at = at;
}

static struct part *part_of(struct walk *w, uint64_t vaddr)
{
	for (unsigned i = 0; i < w->part_cnt; i++)
		if (vaddr >= w->parts[i].start && vaddr < w->parts[i].end)
			return &w->parts[i];
	return NULL;
}

static bool index_of(struct walk *w, uint64_t vaddr, uint32_t *i)
{
	struct part *part = part_of(w, vaddr);

	if (!part || !part->at[vaddr - part->start])
		return false;
	*i = part->at[vaddr - part->start] - 1;
	return true;
}

static void keep_row(void *arg, const struct cfi_row *row)
{
	struct cfi_row *slot = vec__push((struct rows *)arg);

	if (slot)
		*slot = *row;
}

static void keep_address(struct walk *w, const struct insn *in)
{
	uint64_t offset, *slot;

	if (in->op != INSN_LEA || in->mem.base != INSN_RIP ||
	    image__code_offset(w->img, (uint64_t)in->mem.disp, &offset))
		return;
	slot = vec__push(&w->addresses);
	if (slot)
		*slot = (uint64_t)in->mem.disp;
	else
		w->oom = true;
}

/* Decodes straight on; a byte that starts no instruction is left out. */
static bool add_part(struct walk *w, uint64_t start, uint64_t bytes)
{
	struct part *part = &w->parts[w->part_cnt];
	size_t avail;

	*part = (struct part){ .start = start, .end = start + bytes, .first = w->insns.cnt };
	part->bytes = image__bytes(w->img, start, &avail);
	if (!part->bytes || bytes > avail)
		return false;
	part->at = calloc(bytes, sizeof(*part->at));
	if (!part->at) {
		w->oom = true;
		return false;
	}
	w->part_cnt++;
	for (uint64_t off = 0; off < bytes;) {
		struct insn in, *slot;

		if (!insn__decode(part->bytes + off, bytes - off, start + off, &in)) {
			off++;
			continue;
		}
		slot = vec__push(&w->insns);
		if (!slot || !vec__push(&w->visits)) {
			w->oom = true;
			return false;
		}
		*slot = in;
		part->at[off] = (uint32_t)w->insns.cnt;
		keep_address(w, &in);
		off += in.len;
	}
	part->last = w->insns.cnt;
	part->has_fde = cfi__find(w->img, start, &part->fde);
	if (part->has_fde)
		cfi__rows(w->img, &part->fde, keep_row, &part->rows);
	return true;
}

/* f.cold belongs to f, f.part.0.cold to f.part.0. */
static bool is_cold_of(const struct image *img, const char *cold, uint64_t owner)
{
	size_t cnt, i = image__lower_bound(img, owner);
	const struct symbol *syms = image__symbols(img, &cnt);

	for (; i < cnt && syms[i].addr == owner; i++) {
		const char *own = image__str(img, syms[i].name);
		size_t len = strlen(own);

		if (syms[i].type >= SYMBOL_FUNC && !strncmp(cold, own, len) &&
		    !strncmp(cold + len, ".cold", 5))
			return true;
	}
	return false;
}

static const struct symbol *function_over(const struct image *img, uint64_t vaddr)
{
	size_t i = image__lower_bound(img, vaddr + 1), cnt;
	const struct symbol *syms = image__symbols(img, &cnt);

	while (i && syms[i - 1].type < SYMBOL_FUNC)
		i--;
	return i && vaddr - syms[i - 1].addr < syms[i - 1].size ? &syms[i - 1] : NULL;
}

/* A stub of the procedure linkage table: endbr64 perhaps, then a jump through the GOT. */
static bool is_plt_stub(const struct image *img, uint64_t vaddr)
{
	size_t avail;
	const uint8_t *p = image__bytes(img, vaddr, &avail);
	struct insn in;

	if (p && avail > 4 && !memcmp(p, "\xf3\x0f\x1e\xfa", 4)) {
		p += 4;
		avail -= 4;
	}
	return p && insn__decode(p, avail, vaddr, &in) && in.flow == INSN_JMP_IND;
}

/* Whether code that no symbol names jumps into the midst of this function. */
static bool jumps_back(struct walk *w, uint64_t start, uint64_t end)
{
	size_t avail;
	const uint8_t *p = image__bytes(w->img, start, &avail);
	struct insn in;

	for (uint64_t off = 0; p && off < end - start && off < avail; off += in.len) {
		if (!insn__decode(p + off, avail - off, start + off, &in))
			return false;
		if ((in.flow == INSN_JMP || in.flow == INSN_JCC) &&
		    in.target != w->parts[0].start && part_of(w, in.target))
			return true;
	}
	return false;
}

/*
 * Whether an address lies in the cold part of this function; then it becomes ours. Where symbols
 * are stripped the unwind entry gives its bounds, and a jump back or a frame still there gives it
 * away.
 */
static bool adopt_cold(struct walk *w, uint64_t vaddr, bool with_frame)
{
	const struct symbol *sym = function_over(w->img, vaddr);
	struct cfi_fde fde;

	if (w->part_cnt == MAX_PARTS)
		return false;
	if (sym)
		return sym->size <= MAX_FUNCTION_BYTES &&
		       is_cold_of(w->img, image__str(w->img, sym->name), w->sym->addr) &&
		       add_part(w, sym->addr, sym->size);
	if (!cfi__find(w->img, vaddr, &fde) || fde.end - fde.start > MAX_FUNCTION_BYTES ||
	    part_of(w, fde.start) || part_of(w, fde.end - 1) || function_over(w->img, fde.start) ||
	    function_over(w->img, fde.end - 1))
		return false;
	return (with_frame || (!is_plt_stub(w->img, vaddr) && jumps_back(w, fde.start, fde.end))) &&
	       add_part(w, fde.start, fde.end - fde.start);
}

static bool is_own(struct walk *w, uint64_t vaddr, bool with_frame)
{
	return part_of(w, vaddr) || adopt_cold(w, vaddr, with_frame);
}

static void arrive(struct walk *w, uint32_t i, int32_t sp, int32_t frame)
{
	struct visit *v = &w->visits.data[i];
	uint32_t *slot;

	if (v->seen)
		return;
	*v = (struct visit){ .sp = sp, .frame = frame, .seen = true, .target = v->target };
	slot = vec__push(&w->todo);
	if (slot)
		*slot = i;
	else
		w->oom = true;
}

static void jump_to(struct walk *w, uint64_t vaddr, int32_t sp, int32_t frame)
{
	uint32_t i;

	if (!index_of(w, vaddr, &i)) {
		refuse(w, PLAN_BAD_BOUNDARY, vaddr);
		return;
	}
	w->visits.data[i].target = true;
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
	struct part *part = part_of(w, w->insns.data[from].vaddr);
	uint32_t i;

	if (vaddr >= part->end) {
		if (!ends_in_call(w, from, part))
			refuse(w, PLAN_FALLS_THROUGH, vaddr);
	} else if (index_of(w, vaddr, &i)) {
		arrive(w, i, sp, frame);
	} else if (!ends_in_call(w, from, part)) {
		refuse(w, PLAN_UNDECODABLE, vaddr);
	}
}

/* How far the stack pointer is from its value at the entry, by the unwind rows. */
static int32_t sp_by_rows(struct walk *w, uint64_t vaddr)
{
	struct part *part = part_of(w, vaddr);
	size_t lo = 0, hi = part ? part->rows.cnt : 0;
	const struct cfi_row *row;

	if (!hi || vaddr < part->fde.start || vaddr >= part->fde.end)
		return UNKNOWN;
	while (hi - lo > 1) {
		size_t mid = lo + (hi - lo) / 2;

		if (part->rows.data[mid].start <= vaddr)
			lo = mid;
		else
			hi = mid;
	}
	row = &part->rows.data[lo];
	if (!row->known || row->reg != CFI_RSP || row->offset > INT32_MAX ||
	    row->offset < INT32_MIN + 9)
		return UNKNOWN;
	return (int32_t)(8 - row->offset);
}

/* Whether a jump or ret at i leaves with the stack as the caller had it. */
static bool frame_is_gone(struct walk *w, uint32_t i)
{
	int32_t sp = w->visits.data[i].sp;

	if (sp == UNKNOWN)
		sp = sp_by_rows(w, w->insns.data[i].vaddr);
	return !sp || (sp == UNKNOWN && w->insns.data[i].flow == INSN_RET);
}

static void leave(struct walk *w, uint32_t i, enum rt_site_kind kind)
{
	const struct insn *in = &w->insns.data[i];
	struct flow_site *site;

	if (!frame_is_gone(w, i)) {
		refuse(w, PLAN_UNKNOWN_JUMP, in->vaddr);
		return;
	}
	if (in->refused) {
		refuse(w, PLAN_UNPROBEABLE, in->vaddr);
		return;
	}
	site = vec__push(&w->exits);
	if (!site) {
		w->oom = true;
		return;
	}
	site->vaddr = in->vaddr;
	site->kind = kind;
	site->insn = in->emulated ? RT_INSN_EMULATED : RT_INSN_STEPPED;
	site->cond = in->cond;
}

/* The last instruction before i that writes reg, within its straight run of code. */
static bool definition(struct walk *w, uint32_t i, uint8_t reg, bool across_jumps, uint32_t *def)
{
	size_t first = part_of(w, w->insns.data[i].vaddr)->first;
	unsigned look = across_jumps ? UINT32_MAX : LOOK_BACK;

	while (i-- > first && look--) {
		const struct insn *in = &w->insns.data[i];

		if (!across_jumps && in->flow >= INSN_JMP && in->flow != INSN_JCC)
			return false;
		if (in->wmask >> reg & 1) {
			*def = i;
			return true;
		}
	}
	return false;
}

/* The address a register holds by a lea that may have been hoisted far up. */
static bool table_base(struct walk *w, uint32_t i, uint8_t reg, uint64_t *vaddr)
{
	uint32_t def;

	for (int hops = 0; hops < 4 && reg < 16 && definition(w, i, reg, true, &def); hops++) {
		const struct insn *in = &w->insns.data[def];

		if (in->op == INSN_LEA && in->mem.base == INSN_RIP && in->mem.index == INSN_NONE) {
			*vaddr = (uint64_t)in->mem.disp;
			return true;
		}
		if (in->op != INSN_MOV)
			return false;
		reg = in->reg2;
		i = def;
	}
	return false;
}

/* How many entries a table can have by the comparison of its index; MAX_TABLE when unknown. */
static size_t table_bound(struct walk *w, uint32_t i, uint8_t index)
{
	size_t first = part_of(w, w->insns.data[i].vaddr)->first;
	uint16_t regs = (uint16_t)(1u << index);

	for (unsigned look = LOOK_BACK / 2; i-- > first && look--;) {
		const struct insn *in = &w->insns.data[i], *next = in + 1;

		if (in->op == INSN_CMP_IMM && in->reg < 16 && regs >> in->reg & 1) {
			bool above = next->flow == INSN_JCC && (next->cond == 7 || next->cond == 6);
			bool from = next->flow == INSN_JCC && (next->cond == 3 || next->cond == 2);

			if ((above || from) && in->imm >= 0 && in->imm < MAX_TABLE)
				return (size_t)in->imm + above;
			return MAX_TABLE;
		}
		if (!(in->wmask & regs))
			continue;
		/* copies keep the value: look for either name */
		if ((in->op == INSN_MOV || in->op == INSN_MOV32 || in->op == INSN_ZEXT8) &&
		    in->reg2 < 16)
			regs |= (uint16_t)(1u << in->reg2);
		else
			return MAX_TABLE;
	}
	return MAX_TABLE;
}

/* A table ends at the latest where the next thing begins that the function takes the address of. */
static size_t table_room(struct walk *w, uint64_t table, size_t bound, unsigned bytes)
{
	uint64_t end = table + (uint64_t)bound * bytes;

	for (size_t k = 0; k < w->addresses.cnt; k++)
		if (w->addresses.data[k] > table && w->addresses.data[k] < end)
			end = w->addresses.data[k];
	return (end - table) / bytes;
}

/* Where the unwind rows say otherwise, a jump from one to the other cannot be. */
static bool same_stack(struct walk *w, uint64_t from, uint64_t to)
{
	int32_t a = sp_by_rows(w, from), b = sp_by_rows(w, to);

	return a == UNKNOWN || b == UNKNOWN || a == b;
}

/*
 * Reads a table of offsets from its own start (bytes 4) or of addresses (8). Without a bound it
 * is read until an entry makes no sense.
 */
static bool follow_table(struct walk *w, uint32_t i, uint64_t table, size_t bound, unsigned bytes)
{
	struct visit v = w->visits.data[i];
	uint64_t from = w->insns.data[i].vaddr;
	bool sure = bound < MAX_TABLE;
	size_t n;

	if (!sure)
		bound = table_room(w, table, bound, bytes);
	for (n = 0; n < bound; n++) {
		uint64_t target;
		uint32_t at;

		if (bytes == 4) {
			size_t avail;
			const uint8_t *p = image__bytes(w->img, table + 4 * n, &avail);
			int32_t offset;

			if (!p || avail < 4)
				break;
			memcpy(&offset, p, sizeof(offset));
			target = table + (uint64_t)(int64_t)offset;
		} else if (!image__pointer(w->img, table + 8 * n, &target)) {
			break;
		}
		if (!is_own(w, target, false) || !index_of(w, target, &at) ||
		    (!sure && !same_stack(w, from, target)))
			break;
		jump_to(w, target, v.sp, v.frame);
	}
	return n > 0;
}

enum jump { JUMP_TABLE, JUMP_TAIL, JUMP_UNKNOWN };

/*
 * When it cannot be told which table a jump reads: all that the function takes the address of.
 * That is more than the truth, never less, for code has no other way to come by a table.
 */
static enum jump any_table(struct walk *w, uint32_t i)
{
	bool found = false;

	for (size_t k = 0; k < w->addresses.cnt; k++)
		found |= follow_table(w, i, w->addresses.data[k], MAX_TABLE, 4);
	return found ? JUMP_TABLE : JUMP_UNKNOWN;
}

static enum jump table_of_offsets(struct walk *w, uint32_t i, uint32_t add, uint8_t a, uint8_t b)
{
	uint32_t def;
	uint64_t table;

	for (int swap = 0; swap < 2; swap++) {
		uint8_t value = swap ? b : a, base = swap ? a : b;
		const struct insn *load;

		if (value >= 16 || !definition(w, add, value, false, &def))
			continue;
		load = &w->insns.data[def];
		if (load->op != INSN_LOADS32 || load->mem.scale != 4)
			continue;
		if ((table_base(w, add, base, &table) ||
		     table_base(w, def, load->mem.base, &table)) &&
		    follow_table(w, i, table + (uint64_t)load->mem.disp,
				 table_bound(w, def, load->mem.index), 4))
			return JUMP_TABLE;
		return any_table(w, i);
	}
	return JUMP_UNKNOWN;
}

/*
 * Indexed by eights: a jump table in position-dependent code, else an array of function pointers.
 * The first entry tells, where the array is a constant.
 */
static enum jump table_of_addresses(struct walk *w, uint32_t i, uint32_t at)
{
	const struct insn *in = &w->insns.data[at];
	uint64_t table = (uint64_t)in->mem.disp, base, first;

	if (in->mem.scale != 8)
		return JUMP_UNKNOWN;
	if (in->mem.base != INSN_NONE) {
		if (!table_base(w, at, in->mem.base, &base))
			return JUMP_TAIL; /* in an object */
		table += base;
	}
	if (!image__pointer(w->img, table, &first))
		return JUMP_UNKNOWN;
	if (!is_own(w, first, false))
		return image__function_at(w->img, first) ? JUMP_TAIL : JUMP_UNKNOWN;
	return follow_table(w, i, table, table_bound(w, at, in->mem.index), 8) ? JUMP_TABLE
									       : JUMP_UNKNOWN;
}

/* A jump through a register: what put the address there? */
static enum jump through_register(struct walk *w, uint32_t i)
{
	uint8_t reg = w->insns.data[i].reg;
	const struct insn *in;
	uint32_t def;

	if (reg >= 16 || !definition(w, i, reg, false, &def)) {
		/* an argument, or kept across blocks: a callback, but for a frame still there */
		return frame_is_gone(w, i) ? JUMP_TAIL : any_table(w, i);
	}
	in = &w->insns.data[def];
	if (in->op == INSN_ADD)
		return table_of_offsets(w, i, def, in->reg, in->reg2);
	if (in->op == INSN_LEA && in->mem.index != INSN_NONE && in->mem.scale == 1)
		return table_of_offsets(w, i, def, in->mem.base, in->mem.index);
	if (in->op == INSN_LOAD64 && in->mem.index != INSN_NONE)
		return table_of_addresses(w, i, def);
	if (in->op == INSN_LOAD64 || in->op == INSN_MOV || in->op == INSN_LEA)
		return JUMP_TAIL;
	return in->flow == INSN_CALL || in->flow == INSN_CALL_IND || in->sp_bytes == 8
		       ? JUMP_TAIL
		       : /* a result, or popped */
		       JUMP_UNKNOWN;
}

static void indirect(struct walk *w, uint32_t i)
{
	const struct insn *in = &w->insns.data[i];
	enum jump kind;

	if (in->reg != INSN_NONE)
		kind = through_register(w, i);
	else
		kind = in->mem.index != INSN_NONE ? table_of_addresses(w, i, i) : JUMP_TAIL;
	if (kind == JUMP_TAIL)
		leave(w, i, RT_SITE_TAIL);
	else if (kind == JUMP_UNKNOWN)
		refuse(w, PLAN_UNKNOWN_JUMP, w->insns.data[i].vaddr);
}

static void visit(struct walk *w, uint32_t i)
{
	struct insn in = w->insns.data[i]; /* a copy: adopting a part moves the array */
	struct visit v = w->visits.data[i];
	int32_t sp = v.sp, frame = v.frame, rows;

	if (in.sp_bytes == INSN_SP_LOST)
		sp = UNKNOWN;
	else if (in.sp_from_frame)
		sp = frame == UNKNOWN ? UNKNOWN : frame + in.sp_bytes;
	else if (sp != UNKNOWN)
		sp += in.sp_bytes;
	if (in.frame_from_sp)
		frame = v.sp;
	switch ((enum insn_flow)in.flow) {
	case INSN_CALL:
	case INSN_CALL_IND:
		/* the call may not return, and what follows it be another block with its own stack
		 */
		rows = sp_by_rows(w, in.vaddr + in.len);
		if (rows != UNKNOWN)
			sp = rows;
		/* fall through */
	case INSN_NEXT:
		fall_to(w, i, in.vaddr + in.len, sp, frame);
		break;
	case INSN_JMP:
		if (is_own(w, in.target, !frame_is_gone(w, i)))
			jump_to(w, in.target, sp, frame);
		else
			leave(w, i, RT_SITE_TAIL);
		break;
	case INSN_JCC:
	case INSN_JCXZ:
		if (is_own(w, in.target, !frame_is_gone(w, i)))
			jump_to(w, in.target, sp, frame);
		else if (in.flow == INSN_JCC)
			leave(w, i, RT_SITE_JCC);
		else
			refuse(w, PLAN_UNKNOWN_JUMP, in.vaddr);
		fall_to(w, i, in.vaddr + in.len, sp, frame);
		break;
	case INSN_JMP_IND:
		indirect(w, i);
		break;
	case INSN_RET:
		leave(w, i, RT_SITE_RET);
		break;
	case INSN_STOP:
		break;
	}
}

static void landing_pad(void *arg, uint64_t vaddr)
{
	struct walk *w = arg;

	if (is_own(w, vaddr, true))
		jump_to(w, vaddr, sp_by_rows(w, vaddr), UNKNOWN);
}

static void follow(struct walk *w)
{
	unsigned pads_done = 0;

	arrive(w, 0, 0, UNKNOWN);
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
	return (in->flow == INSN_JMP || in->flow == INSN_JCC) && !part_of(w, in->target);
}

static void check_unreached(struct walk *w)
{
	for (size_t i = 0; i < w->insns.cnt; i++)
		if (!w->visits.data[i].seen && is_way_out(w, &w->insns.data[i]))
			refuse(w, PLAN_UNREACHED, w->insns.data[i].vaddr);
}

/* Whatever may jump somewhere, reached or not: be careful with the entry. */
static void mark_targets(struct walk *w)
{
	for (size_t i = 0; i < w->insns.cnt; i++) {
		const struct insn *in = &w->insns.data[i];
		uint32_t to;

		if ((in->flow == INSN_JMP || in->flow == INSN_JCC || in->flow == INSN_JCXZ) &&
		    index_of(w, in->target, &to))
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
			refuse(w, PLAN_ENTERED_MIDWAY, syms[i].addr);
		else if (!labels && syms[i].type == SYMBOL_OBJECT)
			refuse(w, PLAN_DATA_INSIDE, syms[i].addr);
		else if (labels && syms[i].type == SYMBOL_NOTYPE &&
			 (!index_of(w, syms[i].addr, &at) || !w->visits.data[at].seen))
			refuse(w, PLAN_DATA_INSIDE, syms[i].addr);
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
		refuse(w, PLAN_ENTERED_MIDWAY, first->vaddr);
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
		refuse(w, PLAN_THUNK, first->vaddr);
	else
		refuse(w, PLAN_UNPROBEABLE, first->vaddr);
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
		refuse(w, PLAN_IFUNC, w->sym->addr);
	else if (!size)
		refuse(w, PLAN_NO_SIZE, w->sym->addr);
	else if (size > MAX_FUNCTION_BYTES || w->sym->addr + size < w->sym->addr ||
		 !image__code_offset(w->img, w->sym->addr, &offset) ||
		 !image__code_offset(w->img, w->sym->addr + size - 1, &last) ||
		 last - offset != size - 1)
		refuse(w, PLAN_NOT_CODE, w->sym->addr);
	else
		check_symbols(w, size, false);
	if (w->out->why || !add_part(w, w->sym->addr, size))
		return;
	if (!w->insns.cnt || w->insns.data[0].vaddr != w->sym->addr) {
		refuse(w, PLAN_UNDECODABLE, w->sym->addr);
		return;
	}
	note_first(w);
	follow(w);
	mark_targets(w);
	if (w->visits.data[0].target) {
		w->out->why = PLAN_OK; /* the weightier reason */
		w->out->first_usable = false;
		refuse(w, PLAN_ENTERED_MIDWAY, w->sym->addr);
	}
	if (w->out->why || w->oom)
		return;
	check_symbols(w, size, true);
	choose_entry(w);
	check_unreached(w);
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
	out->exits = w.exits.data;
	out->exit_cnt = w.exits.cnt;
	out->insns = w.insns.data;
	out->insn_cnt = w.insns.cnt;
	for (unsigned i = 0; i < w.part_cnt; i++) {
		free(w.parts[i].at);
		vec__free(&w.parts[i].rows);
	}
	vec__free(&w.addresses);
	vec__free(&w.visits);
	vec__free(&w.todo);
	return w.oom ? -ENOMEM : 0;
}

void flow__free(struct flow *flow)
{
	free(flow->exits);
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

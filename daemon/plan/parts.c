// SPDX-License-Identifier: BSD-2-Clause
/*
 * The code of a function: its bytes decoded, its unwind rows, and the part that the compiler moved
 * away because it is unlikely.
 */
#include "plan/walk.h"

struct part *walk__part_of(struct walk *w, uint64_t vaddr)
{
	for (unsigned i = 0; i < w->part_cnt; i++)
		if (vaddr >= w->parts[i].start && vaddr < w->parts[i].end)
			return &w->parts[i];
	return NULL;
}

bool walk__index_of(struct walk *w, uint64_t vaddr, uint32_t *i)
{
	struct part *part = walk__part_of(w, vaddr);

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
bool walk__add_part(struct walk *w, uint64_t start, uint64_t bytes)
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
		    in.target != w->parts[0].start && walk__part_of(w, in.target))
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

	if (w->part_cnt == WALK_MAX_PARTS)
		return false;
	if (sym)
		return sym->size <= WALK_MAX_BYTES &&
		       is_cold_of(w->img, image__str(w->img, sym->name), w->sym->addr) &&
		       walk__add_part(w, sym->addr, sym->size);
	if (!cfi__find(w->img, vaddr, &fde) || fde.end - fde.start > WALK_MAX_BYTES ||
	    walk__part_of(w, fde.start) || walk__part_of(w, fde.end - 1) ||
	    function_over(w->img, fde.start) || function_over(w->img, fde.end - 1))
		return false;
	return (with_frame || (!is_plt_stub(w->img, vaddr) && jumps_back(w, fde.start, fde.end))) &&
	       walk__add_part(w, fde.start, fde.end - fde.start);
}

bool walk__is_own(struct walk *w, uint64_t vaddr, bool with_frame)
{
	return walk__part_of(w, vaddr) || adopt_cold(w, vaddr, with_frame);
}

/* How far the stack pointer is from its value at the entry, by the unwind rows. */
int32_t walk__sp_by_rows(struct walk *w, uint64_t vaddr)
{
	struct part *part = walk__part_of(w, vaddr);
	size_t lo = 0, hi = part ? part->rows.cnt : 0;
	const struct cfi_row *row;

	if (!hi || vaddr < part->fde.start || vaddr >= part->fde.end)
		return WALK_SP_UNKNOWN;
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
		return WALK_SP_UNKNOWN;
	return (int32_t)(8 - row->offset);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* The entries of .eh_frame and of .gcc_except_table; what an entry says of each instruction is in
 * cfi_rows.c. Knows nothing of instructions or names. */
#include "symbols/cfi.h"

#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "symbols/eh_reader.h"
#include "symbols/image.h"

/* A length-prefixed entry: narrows r to its content. */
static bool entry(struct eh_reader *r)
{
	uint64_t len = eh_reader__fixed(r, 4);

	if (len == 0xffffffff)
		len = eh_reader__fixed(r, 8);
	if (r->bad || !len || len > (uint64_t)(r->end - r->p))
		return false;
	r->end = r->p + len;
	return true;
}

struct cie {
	uint8_t fde_enc, lsda_enc;
	bool augmented;
};

static bool read_cie(const struct image *img, uint64_t vaddr, struct cie *cie, struct cfi_fde *out)
{
	struct eh_reader r = eh_reader__at(img, vaddr, UINT64_MAX);
	char aug[8] = "";
	uint64_t version, len;
	size_t n = 0;

	if (!entry(&r) || eh_reader__fixed(&r, 4))
		return false;
	version = eh_reader__fixed(&r, 1);
	while (!r.bad && n < sizeof(aug) - 1 && (aug[n] = (char)eh_reader__fixed(&r, 1)))
		n++;
	if ((version != 1 && version != 3) || aug[n])
		return false;
	out->code_align = eh_reader__uleb(&r);
	out->data_align = eh_reader__sleb(&r);
	if (version == 1)
		eh_reader__fixed(&r, 1);
	else
		eh_reader__uleb(&r);
	*cie = (struct cie){ .lsda_enc = PE_OMIT, .augmented = aug[0] == 'z' };
	len = cie->augmented ? eh_reader__uleb(&r) : 0;
	if (r.bad || len > (uint64_t)(r.end - r.p))
		return false;
	out->signal = strchr(aug, 'S') != NULL;
	out->cie_insns = r.vaddr + len;
	out->cie_insns_end = r.vaddr + (uint64_t)(r.end - r.p);
	for (const char *a = aug + cie->augmented; *a; a++) {
		if (*a == 'R')
			cie->fde_enc = (uint8_t)eh_reader__fixed(&r, 1);
		else if (*a == 'L')
			cie->lsda_enc = (uint8_t)eh_reader__fixed(&r, 1);
		else if (*a == 'P')
			eh_reader__encoded(&r, (uint8_t)eh_reader__fixed(&r, 1) & 0x7f);
		else if (*a != 'S' && *a != 'B')
			return false;
	}
	return !r.bad;
}

static bool read_fde(const struct image *img, uint64_t vaddr, struct cfi_fde *out)
{
	struct eh_reader r = eh_reader__at(img, vaddr, UINT64_MAX);
	struct cie cie;
	uint64_t at, len;

	if (!entry(&r))
		return false;
	at = r.vaddr;
	at -= eh_reader__fixed(&r, 4);
	if (r.bad || !read_cie(img, at, &cie, out))
		return false;
	out->start = eh_reader__encoded(&r, cie.fde_enc & 0x7f);
	out->end = out->start + eh_reader__encoded(&r, cie.fde_enc & 0x0f);
	len = cie.augmented ? eh_reader__uleb(&r) : 0;
	if (r.bad || out->end < out->start || len > (uint64_t)(r.end - r.p))
		return false;
	out->insns = r.vaddr + len;
	out->insns_end = r.vaddr + (uint64_t)(r.end - r.p);
	out->lsda =
		cie.lsda_enc != PE_OMIT && len ? eh_reader__encoded(&r, cie.lsda_enc & 0x7f) : 0;
	return !r.bad;
}

/* The binary search table of .eh_frame_hdr: pairs of addresses relative to it. */
struct search_table {
	uint64_t hdr, cnt;
	const uint8_t *pairs;
};

static bool find_table(const struct image *img, struct search_table *t)
{
	struct eh_reader r;
	const uint8_t *p;
	size_t len;
	uint8_t frame_enc, cnt_enc;

	p = image__eh_frame_hdr(img, &t->hdr, &len);
	if (!p || len < 4 || p[0] != 1 || p[3] != (0x30 | PE_SDATA4))
		return false;
	frame_enc = p[1];
	cnt_enc = p[2];
	r = eh_reader__at(img, t->hdr + 4, t->hdr + len);
	eh_reader__encoded(&r, frame_enc);
	t->cnt = eh_reader__encoded(&r, cnt_enc);
	t->pairs = r.p;
	return !r.bad && t->cnt <= (uint64_t)(r.end - r.p) / (2 * sizeof(int32_t));
}

/* Where entry i says that code begins (0) or that its description lies (1). */
static uint64_t table_entry(const struct search_table *t, uint64_t i, int which)
{
	int32_t at;

	memcpy(&at, t->pairs + (2 * i + (uint64_t)which) * sizeof(at), sizeof(at));
	return t->hdr + (uint64_t)(int64_t)at;
}

bool cfi__find(const struct image *img, uint64_t pc, struct cfi_fde *out)
{
	struct search_table t;
	uint64_t lo = 0, hi;

	if (!find_table(img, &t))
		return false;
	for (hi = t.cnt; lo < hi;) { /* the last entry that starts at or below pc */
		uint64_t mid = lo + (hi - lo) / 2;

		if (table_entry(&t, mid, 0) <= pc)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (!lo)
		return false;
	return read_fde(img, table_entry(&t, lo - 1, 1), out) && pc >= out->start && pc < out->end;
}

static int by_start(const void *a, const void *b)
{
	const struct cfi_fde *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

/* All of the section, put in order. */
static bool each_of_section(const struct image *img,
			    void (*each)(void *arg, const struct cfi_fde *fde), void *arg)
{
	VEC(struct cfi_fde) all = {};
	uint64_t at, end;
	size_t len;

	if (!image__eh_frame(img, &at, &len))
		return false;
	for (end = at + len; at < end;) {
		struct eh_reader r = eh_reader__at(img, at, end);
		uint64_t bytes = eh_reader__fixed(&r, 4), next;
		struct cfi_fde fde, *slot;

		if (bytes == 0xffffffff)
			bytes = eh_reader__fixed(&r, 8);
		next = r.vaddr + bytes;
		if (r.bad || !bytes || next > end || next <= at)
			break;
		if (eh_reader__fixed(&r, 4) && read_fde(img, at, &fde) && (slot = vec__push(&all)))
			*slot = fde;
		at = next;
	}
	if (all.cnt)
		qsort(all.data, all.cnt, sizeof(*all.data), by_start);
	for (size_t i = 0; i < all.cnt; i++)
		each(arg, &all.data[i]);
	vec__free(&all);
	return true;
}

bool cfi__each(const struct image *img, void (*each)(void *arg, const struct cfi_fde *fde),
	       void *arg)
{
	struct search_table t;
	struct cfi_fde fde;

	if (!find_table(img, &t))
		return each_of_section(img, each, arg);
	for (uint64_t i = 0; i < t.cnt; i++)
		if (read_fde(img, table_entry(&t, i, 1), &fde))
			each(arg, &fde);
	return true;
}

void cfi__landing_pads(const struct image *img, const struct cfi_fde *fde,
		       void (*each)(void *arg, uint64_t vaddr), void *arg)
{
	struct eh_reader r;
	uint64_t base = fde->start, len;
	uint8_t enc;

	if (!fde->lsda)
		return;
	r = eh_reader__at(img, fde->lsda, UINT64_MAX);
	enc = (uint8_t)eh_reader__fixed(&r, 1);
	if (enc != PE_OMIT)
		base = eh_reader__encoded(&r, enc & 0x7f);
	enc = (uint8_t)eh_reader__fixed(&r, 1);
	if (enc != PE_OMIT)
		eh_reader__uleb(&r); /* where the types stand */
	enc = (uint8_t)eh_reader__fixed(&r, 1);
	len = eh_reader__uleb(&r);
	if (r.bad || len > (uint64_t)(r.end - r.p))
		return;
	r.end = r.p + len;
	while (r.p < r.end) {
		uint64_t pad;

		eh_reader__encoded(&r, enc & 0x0f);
		eh_reader__encoded(&r, enc & 0x0f);
		pad = eh_reader__encoded(&r, enc & 0x0f);
		eh_reader__uleb(&r);
		if (r.bad)
			return;
		if (pad)
			each(arg, base + pad);
	}
}

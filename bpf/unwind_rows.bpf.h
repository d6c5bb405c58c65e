/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Where an address of code belongs and what its rule is: see unwind.bpf.h for the tables.
 *
 * Searches are dear, and stacks consist of the same few hundred addresses: what was found is
 * remembered, in one table of all CPUs and programs, so that what one has found the others know.
 * Nobody locks it. An entry is two words, which may come from two writers; the second has a check
 * of both, and an entry is believed whole or not at all. It holds as long as the mappings are of
 * the generation that it was found in.
 */
#ifndef UNWIND_ROWS_BPF_H
#define UNWIND_ROWS_BPF_H

#include "kernel.h"

#include <bpf/bpf_helpers.h>

#include "unwind_maps.bpf.h"

/* ---- the tables ----
 *
 * The searches are bpf_loop's: written out, the verifier would follow every way that a search may
 * take (it knows the index of each look-up as a number), and give up.
 */

struct search {
	rt_u64 pc;
	rt_u32 first, cnt; /* where to search */
	rt_u32 lo;	   /* maps: how many begin at or below pc; rows: the last that does */
	rt_u32 step;
};

static long search_maps(rt_u64 n, struct search *s)
{
	rt_u32 at = s->lo + s->step - 1, key = s->first + at;
	struct rt_unwind_map *m;

	if (at < s->cnt) {
		m = bpf_map_lookup_elem(&unwind_maps, &key);
		if (m && m->start <= s->pc)
			s->lo += s->step;
	}
	s->step >>= 1;
	return !s->step;
}

/* Of the mappings. Its lowest bit is the bank that holds. */
static __always_inline rt_u32 generation(void)
{
	rt_u32 key = 0;
	struct rt_unwind_dir *dir = bpf_map_lookup_elem(&unwind_dir, &key);

	return dir ? *(volatile rt_u32 *)&dir->gen : 0;
}

/* The mapping that held pc in a generation: into *out, and its place + 1; or 0. */
__noinline int find_map(struct rt_unwind_map *out, rt_u64 pc, rt_u32 gen)
{
	rt_u32 key = 0, bank = gen & 1;
	struct rt_unwind_dir *dir = bpf_map_lookup_elem(&unwind_dir, &key);
	struct search s = { .pc = pc, .step = RT_UNWIND_MAX_MAPS };
	struct rt_unwind_map *m;

	if (!out || !dir)
		return 0;
	s.first = bank * RT_UNWIND_MAX_MAPS;
	s.cnt = dir->cnt[bank];
	bpf_loop(16, search_maps, &s, 0);
	key = s.first + s.lo - 1;
	m = s.lo ? bpf_map_lookup_elem(&unwind_maps, &key) : NULL;
	if (!m)
		return 0;
	*out = *m;
	return pc >= out->start && pc < out->end ? (int)s.lo : 0;
}

static __always_inline rt_u32 row_at(rt_u32 i)
{
	rt_u32 key = i >> 1;
	struct rt_unwind_rows *r = bpf_map_lookup_elem(&unwind_rows, &key);

	return r ? r->row[i & 1] : 0;
}

static long search_rows(rt_u64 n, struct search *s)
{
	rt_u32 at = s->lo + s->step;

	if (at < s->cnt && RT_ROW_LOW(row_at(s->first + at)) <= (rt_u32)s->pc)
		s->lo = at;
	s->step >>= 1;
	return !s->step;
}

/* The last of a page's rows that begins at or below low; the first always does. */
static __always_inline rt_u32 find_row(const struct rt_unwind_page *page, rt_u32 low)
{
	struct search s = { .pc = low, .first = page->first, .cnt = page->last + 1u };

	s.step = page->step;
	if (s.step)
		bpf_loop(16, search_rows, &s, 0);
	return row_at(s.first + s.lo);
}

/* Index + 1 of the rule for an address, or 0. */
__noinline rt_u32 find_rule(rt_u32 object, rt_u64 vaddr)
{
	struct rt_unwind_object *o = bpf_map_lookup_elem(&unwind_objects, &object);
	struct rt_unwind_page *page;
	rt_u64 n;
	rt_u32 key, rule;

	if (!o || vaddr < o->base)
		return 0;
	n = (vaddr - o->base) >> RT_UNWIND_PAGE_BITS;
	if (n >= o->page_cnt)
		return 0;
	key = o->first_page + (rt_u32)n;
	page = bpf_map_lookup_elem(&unwind_pages, &key);
	if (!page)
		return 0;
	rule = RT_ROW_RULE(find_row(page, RT_ROW_LOW(vaddr)));
	return rule && rule < o->rule_cnt ? o->first_rule + rule + 1 : 0;
}

/* ---- what was found before ----
 *
 * whose: address << 17 | the generation's low bits; addresses of users have 47 bits.
 * what: check << 29 | place of the mapping in its bank << 20 | index of the rule + 1.
 */

#define FOUND_GEN_BITS 17
#define FOUND_RULE_BITS 20
#define FOUND_LOW_BITS 29
#define FOUND_LOW(x) ((x) & ((1ull << FOUND_LOW_BITS) - 1))

static __always_inline rt_u64 found_whose(rt_u64 pc, rt_u32 gen)
{
	return pc << FOUND_GEN_BITS | (gen & ((1u << FOUND_GEN_BITS) - 1));
}

static __always_inline rt_u64 found_what(rt_u64 pc, rt_u32 gen, rt_u64 low)
{
	rt_u64 x = (pc ^ (rt_u64)gen << 32 ^ low * 0x9e3779b97f4a7c15ull) * 0xff51afd7ed558ccdull;

	x = (x ^ x >> 32) * 0xc4ceb9fe1a85ec53ull;
	return (x & ~((1ull << FOUND_LOW_BITS) - 1)) | low;
}

static __always_inline struct found_set *found_set_of(rt_u64 pc)
{
	rt_u32 key = (pc * 0x9e3779b97f4a7c15ull >> 32) * FOUND_SETS >> 32;

	return bpf_map_lookup_elem(&unwind_found, &key);
}

static __always_inline void remember(struct unwind *u, rt_u64 pc)
{
	struct found_set *set = found_set_of(pc);
	rt_u64 low = (rt_u64)u->map_place << FOUND_RULE_BITS | u->code_rule;
	struct found_code *f;

	if (!set || pc >> (64 - FOUND_GEN_BITS) || u->code_rule >> FOUND_RULE_BITS)
		return;
	f = &set->way[u->victim++ & (FOUND_WAYS - 1)]; /* any but the one of the last time */
	f->whose = found_whose(pc, u->map_gen);
	f->what = found_what(pc, u->map_gen, low);
}

/* The code at pc: into u->code_frame and u->code_rule, and 1; 0: it is in no mapping. Searches, and
 * remembers what it finds. */
__noinline int search_code(struct unwind *u, rt_u64 pc)
{
	rt_u32 gen = generation(), place;
	rt_u64 vaddr;

	if (!u)
		return 0;
	if (u->map_gen != gen || pc < u->map.start || pc >= u->map.end) {
		place = find_map(&u->map, pc, gen);
		u->map_gen = gen;
		u->map_place = place - 1;
		if (!place) {
			u->map.start = u->map.end = 0;
			return 0;
		}
	}
	vaddr = u->map.vaddr + (pc - u->map.start);
	u->code_frame = RT_FRAME_PC(u->map.object, vaddr);
	u->code_rule = find_rule(u->map.object, vaddr);
	remember(u, pc);
	return 1;
}

static __always_inline rt_u64 load(const rt_u64 *p)
{
	return *(const volatile rt_u64 *)p;
}

/* Through the scratch: the verifier would follow each way by itself. */
static __always_inline rt_u32 way_of(struct unwind *u, const struct found_set *set, rt_u64 whose)
{
	rt_u32 way = 0;

	for (rt_u32 i = 1; i < FOUND_WAYS; i++)
		way = load(&set->way[i].whose) == whose ? i : way;
	*(volatile rt_u32 *)&u->way = way;
	return *(volatile rt_u32 *)&u->way & (FOUND_WAYS - 1);
}

/* The same, if it is remembered. A torn entry, or one of another address, fails its check. */
static __always_inline bool recall_code(struct unwind *u, rt_u64 pc)
{
	rt_u32 gen = generation(), key = (gen & 1) * RT_UNWIND_MAX_MAPS;
	rt_u64 whose = found_whose(pc, gen), what;
	struct found_set *set = found_set_of(pc);
	struct rt_unwind_map *m;
	struct found_code *f;

	if (!set)
		return false;
	f = &set->way[way_of(u, set, whose)];
	what = load(&f->what);
	if (load(&f->whose) != whose || what != found_what(pc, gen, FOUND_LOW(what)))
		return false;
	key += FOUND_LOW(what) >> FOUND_RULE_BITS;
	m = bpf_map_lookup_elem(&unwind_maps, &key);
	if (!m)
		return false;
	u->code_frame = RT_FRAME_PC(m->object, m->vaddr + (pc - m->start));
	u->code_rule = what & ((1u << FOUND_RULE_BITS) - 1);
	asm volatile("" ::: "memory");
	return gen == generation(); /* or the bank may be filled anew by now */
}

static __always_inline int find_code(struct unwind *u, rt_u64 pc)
{
	return recall_code(u, pc) ? 1 : search_code(u, pc);
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Where an address of code belongs and what its rule is: see unwind.bpf.h for the tables.
 *
 * Searches are dear, and stacks consist of the same few hundred addresses: what was found is
 * remembered, in one table of all CPUs and programs, so that what one has found the others know.
 * Nobody locks it. An entry is four words, any of which may come from another writer; the fourth
 * is a check of the three before, and an entry is believed whole or not at all. It holds as long
 * as the mappings are of the generation that it was found in.
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

/* The mapping that held pc in a generation: into *out, and 1; or 0. */
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
	return pc >= out->start && pc < out->end;
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

/* ---- what was found before ---- */

static __always_inline rt_u64 check_of(const struct found_code *f)
{
	rt_u64 x = (f->frame ^ f->pc * 0x9e3779b97f4a7c15ull) * 0xff51afd7ed558ccdull;

	x ^= x >> 32;
	return (x ^ f->gen_rule) * 0xc4ceb9fe1a85ec53ull | 1; /* never that of an empty entry */
}

static __always_inline struct found_code *found_place(rt_u64 pc)
{
	rt_u32 key = pc * 0x9e3779b97f4a7c15ull >> (64 - FOUND_BITS);

	return bpf_map_lookup_elem(&unwind_found, &key);
}

/* Searches; remembers what it finds. */
__noinline int search_code(struct unwind *u, rt_u64 pc)
{
	rt_u32 gen = generation();
	struct found_code *f;
	rt_u64 vaddr;

	if (!u)
		return 0;
	if (u->map_gen != gen || pc < u->map.start || pc >= u->map.end) {
		u->map_gen = gen;
		if (!find_map(&u->map, pc, gen)) {
			u->map.start = u->map.end = 0;
			return 0;
		}
	}
	vaddr = u->map.vaddr + (pc - u->map.start);
	u->code.pc = pc;
	u->code.frame = RT_FRAME_PC(u->map.object, vaddr);
	u->code.gen_rule = (rt_u64)gen << 32 | find_rule(u->map.object, vaddr);
	u->code.check = check_of(&u->code);
	f = found_place(pc);
	if (f)
		*f = u->code;
	return 1;
}

/* The code at pc: into u->code, and 1; 0: it is in no mapping. */
static __always_inline int find_code(struct unwind *u, rt_u64 pc)
{
	const volatile struct found_code *f = found_place(pc);

	if (!f || f->pc != pc)
		return search_code(u, pc);
	u->code.pc = pc;
	u->code.frame = f->frame;
	u->code.gen_rule = f->gen_rule;
	if (u->code.gen_rule >> 32 != generation() || f->check != check_of(&u->code))
		return search_code(u, pc);
	return 1;
}

#endif

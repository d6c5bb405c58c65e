/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/wire.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "plan/plan.h"

/* ---- writing: numbers as u64, strings as length + 1 and bytes, 0 for NULL ---- */

static void put(struct strbuf *out, uint64_t v)
{
	strbuf__add(out, &v, sizeof(v));
}

static void put_str(struct strbuf *out, const char *s)
{
	put(out, s ? strlen(s) + 1 : 0);
	if (s)
		strbuf__adds(out, s);
}

static void put_fn(struct strbuf *out, const struct plan_fn *f)
{
	put_str(out, f->name);
	put_str(out, f->symbol);
	put_str(out, f->crate);
	put_str(out, f->file);
	put(out, f->alias_cnt);
	for (size_t i = 0; i < f->alias_cnt; i++)
		put_str(out, f->aliases[i]);
	put(out, f->line);
	put(out, f->kind);
	put(out, f->addresses);
	put(out, f->entry_sites);
	put(out, f->exit_sites);
	put(out, f->entry_insn);
	put(out, f->exit_insn);
	put(out, f->never_returns);
	put(out, f->has_edges);
	put(out, f->object);
}

static void put_sites(struct strbuf *out, const struct plan_site *s, size_t cnt)
{
	put(out, cnt);
	for (size_t i = 0; i < cnt; i++) {
		put(out, s[i].offset);
		put(out, s[i].vaddr);
		put(out, s[i].fn);
		put(out, s[i].object);
		put(out, s[i].kind);
		put(out, s[i].insn);
		put(out, s[i].cond);
		put(out, s[i].sp_words);
	}
}

static void put_strs(struct strbuf *out, char *const *s, size_t cnt)
{
	put(out, cnt);
	for (size_t i = 0; i < cnt; i++)
		put_str(out, s[i]);
}

static void put_objects(struct strbuf *out, const struct plan_object *o, size_t cnt)
{
	put(out, cnt);
	for (size_t i = 0; i < cnt; i++) {
		put_str(out, o[i].name);
		put(out, o[i].source);
		put_str(out, o[i].build_id);
		put_str(out, o[i].debug_file);
	}
}

static void put_allocators(struct strbuf *out, const struct plan *p)
{
	put(out, p->allocator_cnt);
	for (size_t i = 0; i < p->allocator_cnt; i++) {
		const struct plan_allocator *a = &p->allocators[i];

		put_str(out, a->source);
		put_str(out, a->functions);
		put_str(out, a->why);
		put(out, a->object);
		put(out, a->rust);
		put(out, a->chunk);
		put(out, a->chosen);
		put(out, a->totals);
	}
	put(out, p->mem_site_cnt);
	for (size_t i = 0; i < p->mem_site_cnt; i++) {
		const struct plan_mem_site *s = &p->mem_sites[i];

		put(out, s->offset);
		put(out, s->vaddr);
		put(out, s->allocator);
		put(out, s->op);
		put(out, s->insn);
		put(out, s->returns);
	}
	put(out, p->memory);
	put_str(out, p->memory_why);
}

void wire__write(const struct plan *p, struct strbuf *out)
{
	put_objects(out, p->objects, p->object_cnt);
	put(out, p->fn_cnt);
	for (size_t i = 0; i < p->fn_cnt; i++)
		put_fn(out, &p->fns[i]);
	put_sites(out, p->sites, p->site_cnt);
	put_sites(out, p->catches, p->catch_cnt);
	put(out, p->skip_cnt);
	for (size_t i = 0; i < p->skip_cnt; i++) {
		put_str(out, p->skipped[i].name);
		put(out, p->skipped[i].why);
	}
	put_allocators(out, p);
	put_strs(out, p->inlined_only, p->inlined_cnt);
	put_strs(out, p->notes, p->note_cnt);
	put_str(out, p->build_id);
	put_str(out, p->profile);
	put_str(out, p->hint);
	put_str(out, p->uret_why);
	put(out, p->symbol_cnt);
	put(out, p->no_symbols);
	put(out, p->unswept);
	put(out, p->exit);
}

/* ---- reading ---- */

struct reader {
	const char *at, *end;
	bool bad; /* the bytes are no plan */
	bool no_memory;
};

static uint64_t get(struct reader *r)
{
	uint64_t v = 0;

	if ((size_t)(r->end - r->at) < sizeof(v)) {
		r->bad = true;
		return 0;
	}
	memcpy(&v, r->at, sizeof(v));
	r->at += sizeof(v);
	return v;
}

/* A number that must be below limit. */
static uint64_t get_below(struct reader *r, uint64_t limit)
{
	uint64_t v = get(r);

	if (v < limit)
		return v;
	r->bad = true;
	return 0;
}

static char *get_str(struct reader *r)
{
	uint64_t len = get(r);
	char *s;

	if (!len)
		return NULL;
	if (--len > (size_t)(r->end - r->at) || memchr(r->at, '\0', len)) {
		r->bad = true;
		return NULL;
	}
	s = strndup(r->at, len);
	r->no_memory |= !s;
	r->at += len;
	return s;
}

/* A string that must be there. */
static char *get_name(struct reader *r)
{
	char *s = get_str(r);

	r->bad |= !s;
	return s;
}

/* An array whose elements take at least a number each on the wire: its size is bounded by them. */
static void *get_array(struct reader *r, size_t elem_bytes, size_t *cnt)
{
	uint64_t n = get_below(r, (uint64_t)(r->end - r->at) / sizeof(uint64_t) + 1);
	void *p = calloc(n + 1, elem_bytes);

	r->no_memory |= !p;
	*cnt = p ? n : 0;
	return p;
}

static bool sound(const struct reader *r)
{
	return !r->bad && !r->no_memory;
}

static char **get_strs(struct reader *r, size_t *cnt)
{
	char **s = get_array(r, sizeof(*s), cnt);

	for (size_t i = 0; i < *cnt && sound(r); i++)
		s[i] = get_name(r);
	return s;
}

static void get_objects(struct reader *r, struct plan *p)
{
	p->objects = get_array(r, sizeof(*p->objects), &p->object_cnt);
	for (size_t i = 0; i < p->object_cnt && sound(r); i++) {
		p->objects[i].name = get_name(r);
		p->objects[i].source = (uint32_t)get(r);
		p->objects[i].build_id = get_str(r);
		p->objects[i].debug_file = get_str(r);
	}
	r->bad |= !p->object_cnt;
}

static void get_fn(struct reader *r, struct plan_fn *f)
{
	f->name = get_name(r);
	f->symbol = get_name(r);
	f->crate = get_name(r);
	f->file = get_str(r);
	f->aliases = get_array(r, sizeof(*f->aliases), &f->alias_cnt);
	for (size_t i = 0; i < f->alias_cnt && sound(r); i++)
		f->aliases[i] = get_name(r);
	f->line = (uint32_t)get(r);
	f->kind = get_below(r, PLAN_ASYNC + 1);
	f->addresses = (uint32_t)get(r);
	f->entry_sites = (uint32_t)get(r);
	f->exit_sites = (uint32_t)get(r);
	f->entry_insn = get_below(r, RT_INSN_CLASSES);
	f->exit_insn = get_below(r, RT_INSN_CLASSES);
	f->never_returns = get_below(r, 2);
	f->has_edges = get_below(r, 2);
	f->object = (uint32_t)get(r);
}

/* Sites of functions in their order; of no function (catches) when fn_cnt is 0. */
static struct plan_site *get_sites(struct reader *r, size_t fn_cnt, size_t *cnt)
{
	struct plan_site *s = get_array(r, sizeof(*s), cnt);

	for (size_t i = 0; i < *cnt && sound(r); i++) {
		s[i].offset = get(r);
		s[i].vaddr = get(r);
		s[i].fn = (uint32_t)get_below(r, fn_cnt ? fn_cnt : 1);
		s[i].object = (uint32_t)get(r);
		s[i].kind = get_below(r, RT_SITE_KINDS);
		s[i].insn = get_below(r, RT_INSN_CLASSES);
		s[i].cond = (uint8_t)get_below(r, 16);
		s[i].sp_words = (uint16_t)get_below(r, UINT16_MAX + 1);
		r->bad |= i && s[i].fn < s[i - 1].fn;
	}
	return s;
}

/* Functions and sites are in the order of objects, and each site in its function's. */
static void check_objects(struct reader *r, const struct plan *p)
{
	for (size_t i = 0; i < p->fn_cnt && sound(r); i++)
		r->bad |= p->fns[i].object >= p->object_cnt ||
			  (i && p->fns[i].object < p->fns[i - 1].object);
	for (size_t i = 0; i < p->site_cnt && sound(r); i++)
		r->bad |= p->sites[i].object != p->fns[p->sites[i].fn].object;
	for (size_t i = 0; i < p->catch_cnt && sound(r); i++)
		r->bad |= p->catches[i].object >= p->object_cnt;
}

static void get_allocators(struct reader *r, struct plan *p)
{
	p->allocators = get_array(r, sizeof(*p->allocators), &p->allocator_cnt);
	r->bad |= p->allocator_cnt > RT_MEM_MAX_FAMILIES;
	for (size_t i = 0; i < p->allocator_cnt && sound(r); i++) {
		struct plan_allocator *a = &p->allocators[i];

		a->source = get_name(r);
		a->functions = get_name(r);
		a->why = get_str(r);
		a->object = (uint32_t)get_below(r, p->object_cnt);
		a->rust = get_below(r, 2);
		a->chunk = get_below(r, 2);
		a->chosen = get_below(r, 2);
		a->totals = get_below(r, 2);
	}
	p->mem_sites = get_array(r, sizeof(*p->mem_sites), &p->mem_site_cnt);
	for (size_t i = 0; i < p->mem_site_cnt && sound(r); i++) {
		struct plan_mem_site *s = &p->mem_sites[i];

		s->offset = get(r);
		s->vaddr = get(r);
		s->allocator = (uint32_t)get_below(r, p->allocator_cnt);
		s->op = (uint8_t)get_below(r, RT_MEM_OPS);
		s->insn = (uint8_t)get_below(r, RT_INSN_CLASSES);
		s->returns = get_below(r, 2);
		r->bad |= i && s->allocator < s[-1].allocator;
	}
	p->memory = get_below(r, PLAN_MEMORY_STACKS + 1);
	p->memory_why = get_str(r);
}

static void get_plan(struct reader *r, struct plan *p)
{
	get_objects(r, p);
	p->fns = get_array(r, sizeof(*p->fns), &p->fn_cnt);
	r->bad |= p->fn_cnt > RT_MAX_FUNCTIONS;
	for (size_t i = 0; i < p->fn_cnt && sound(r); i++)
		get_fn(r, &p->fns[i]);
	p->sites = get_sites(r, p->fn_cnt, &p->site_cnt);
	r->bad |= p->site_cnt && !p->fn_cnt;
	p->catches = get_sites(r, 0, &p->catch_cnt);
	check_objects(r, p);
	p->skipped = get_array(r, sizeof(*p->skipped), &p->skip_cnt);
	for (size_t i = 0; i < p->skip_cnt && sound(r); i++) {
		p->skipped[i].name = get_name(r);
		p->skipped[i].why = get_below(r, PLAN_REFUSAL_CNT);
	}
	get_allocators(r, p);
	p->inlined_only = get_strs(r, &p->inlined_cnt);
	p->notes = get_strs(r, &p->note_cnt);
	p->build_id = get_str(r);
	p->profile = get_str(r);
	p->hint = get_str(r);
	p->uret_why = get_str(r);
	p->symbol_cnt = get(r);
	p->no_symbols = get_below(r, 2);
	p->unswept = get_below(r, 2);
	p->exit = get_below(r, PLAN_EXIT_URETPROBE + 1);
	r->bad |= r->at != r->end;
}

int wire__read(const void *data, size_t len, struct plan **out)
{
	struct reader r = { .at = data, .end = (const char *)data + len };
	struct plan *p = calloc(1, sizeof(*p));

	if (!p)
		return -ENOMEM;
	get_plan(&r, p);
	if (!sound(&r)) {
		plan__free(p);
		return r.bad ? -EPROTO : -ENOMEM;
	}
	*out = p;
	return 0;
}

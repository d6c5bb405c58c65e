// SPDX-License-Identifier: BSD-2-Clause
#include "plan/unwind.h"

#include <errno.h>

#include "base/jail.h"
#include "base/strbuf.h"
#include "base/vec.h"
#include "symbols/cfi.h"
#include "symbols/image.h"

#define MAX_RULES 65535u
#define MAX_PAGES (1u << 16) /* 4 GB of code */
#define RULE_SLOTS (4u * 65536u)

struct compiler {
	VEC(struct rt_unwind_page) pages;
	VEC(uint32_t) rows;
	VEC(struct rt_unwind_rule) rules;
	uint32_t *slots; /* rule numbers by hash of the rule; 0 is free */
	uint64_t base, end, fde_cnt, odd_cnt;
	uint32_t now; /* the rule of the last row */
	bool begun, no_memory;
	const struct image *img;
	const struct cfi_fde *fde;
	uint64_t last; /* where the last row began */
};

/* ---- rules ---- */

static bool rbp_rule(const struct cfi_place *p, struct rt_unwind_rule *out)
{
	out->rbp_offset = (rt_s32)p->offset;
	switch (p->rule) {
	case CFI_SAME:
		out->rbp = RT_RBP_SAME;
		return true;
	case CFI_AT_CFA:
		out->rbp = RT_RBP_AT_CFA;
		break;
	case CFI_AT_REG:
		out->rbp = p->reg == CFI_RBP ? RT_RBP_AT_RBP : RT_RBP_LOST;
		break;
	default:
		out->rbp = RT_RBP_LOST;
	}
	if (out->rbp == RT_RBP_LOST)
		out->rbp_offset = 0;
	return out->rbp_offset == (out->rbp == RT_RBP_LOST ? 0 : p->offset);
}

static bool cfa_rule(const struct cfi_row *row, struct rt_unwind_rule *out)
{
	static const rt_u8 kinds[] = {
		[CFI_CFA_UNKNOWN] = RT_CFA_NONE,
		[CFI_CFA_REG] = RT_CFA_REG,
		[CFI_CFA_DEREF] = RT_CFA_DEREF,
		[CFI_CFA_PLT] = RT_CFA_PLT,
	};

	out->cfa = kinds[row->cfa];
	out->reg = (rt_u8)row->reg;
	out->cfa_offset = (rt_s32)row->offset;
	out->cfa_add = (rt_s32)row->add;
	return out->cfa && row->reg < CFI_RA && out->cfa_offset == row->offset &&
	       out->cfa_add == row->add;
}

/* False: the BPF unwinder cannot follow this. */
static bool to_rule(const struct cfi_fde *fde, const struct cfi_row *row,
		    struct rt_unwind_rule *out)
{
	*out = (struct rt_unwind_rule){};
	if (fde->signal) {
		out->cfa = RT_CFA_SIGNAL;
		return true;
	}
	if (row->ra.rule == CFI_UNDEFINED) {
		out->cfa = RT_CFA_END;
		return true;
	}
	return row->ra.rule == CFI_AT_CFA && row->ra.offset == -8 && cfa_rule(row, out) &&
	       rbp_rule(&row->rbp, out);
}

static uint32_t hash_of(const struct rt_unwind_rule *r)
{
	uint64_t w[2];

	memcpy(w, r, sizeof(w));
	w[0] = (w[0] ^ w[1] * 0x9e3779b97f4a7c15ull) * 0xff51afd7ed558ccdull;
	return (uint32_t)(w[0] >> 40);
}

/* The number of a rule, new or known; 0 when there are too many. */
static uint32_t intern(struct compiler *c, const struct rt_unwind_rule *rule)
{
	uint32_t at = hash_of(rule) % RULE_SLOTS;
	struct rt_unwind_rule *slot;

	for (; c->slots[at]; at = (at + 1) % RULE_SLOTS)
		if (!memcmp(&c->rules.data[c->slots[at]], rule, sizeof(*rule)))
			return c->slots[at];
	if (c->rules.cnt >= MAX_RULES)
		return 0;
	slot = vec__push(&c->rules);
	if (!slot) {
		c->no_memory = true;
		return 0;
	}
	*slot = *rule;
	return c->slots[at] = (uint32_t)c->rules.cnt - 1;
}

/* ---- rows ---- */

static void push_row(struct compiler *c, uint64_t vaddr, uint32_t rule)
{
	struct rt_unwind_page *page = &c->pages.data[c->pages.cnt - 1];
	uint32_t *row;

	if (c->rows.cnt > page->first &&
	    RT_ROW_LOW(c->rows.data[c->rows.cnt - 1]) == RT_ROW_LOW(vaddr)) {
		c->rows.data[c->rows.cnt - 1] = RT_ROW(vaddr, rule);
		return;
	}
	row = vec__push(&c->rows);
	if (!row) {
		c->no_memory = true;
		return;
	}
	*row = RT_ROW(vaddr, rule);
	page->last = (uint16_t)(c->rows.cnt - 1 - page->first);
	page->step = page->last ? (uint16_t)(1u << (31 - __builtin_clz(page->last))) : 0;
}

/* Every page begins with a row: a search never leaves its page. */
static void push_pages(struct compiler *c, uint64_t vaddr)
{
	while (!c->no_memory && (vaddr - c->base) >> RT_UNWIND_PAGE_BITS >= c->pages.cnt) {
		struct rt_unwind_page *page = vec__push(&c->pages);

		if (!page) {
			c->no_memory = true;
			return;
		}
		page->first = (uint32_t)c->rows.cnt;
		push_row(c, c->base, c->now);
	}
}

/* From vaddr on this rule holds. */
static void set_rule(struct compiler *c, uint64_t vaddr, uint32_t rule)
{
	if (!c->begun) {
		c->base = vaddr & ~(uint64_t)(RT_UNWIND_PAGE - 1);
		c->begun = true;
	}
	if ((vaddr - c->base) >> RT_UNWIND_PAGE_BITS >= MAX_PAGES)
		return;
	push_pages(c, vaddr);
	if (!c->no_memory && rule != c->now)
		push_row(c, vaddr, rule);
	c->now = rule;
}

static void add_row(void *arg, const struct cfi_row *row)
{
	struct compiler *c = arg;
	struct rt_unwind_rule rule;
	uint32_t number = 0;

	if (to_rule(c->fde, row, &rule))
		number = intern(c, &rule);
	c->odd_cnt += !number;
	c->last = row->start;
	set_rule(c, row->start, number);
}

/* Entries in order; of two that overlap the first holds. */
static void add_fde(void *arg, const struct cfi_fde *fde)
{
	struct compiler *c = arg;

	if (c->no_memory || fde->start < c->end || fde->end <= fde->start || fde->end >> 47)
		return;
	if (fde->start != c->end && c->begun)
		set_rule(c, c->end, 0);
	c->fde = fde;
	c->last = fde->start;
	if (!cfi__rows(c->img, fde, add_row, c))
		set_rule(c, c->last, 0); /* what was read last may be half of it */
	c->end = fde->end;
	c->fde_cnt++;
}

int unwind__compile(const struct image *img, struct unwind_table *out)
{
	struct compiler c = { .img = img };
	int err = 0;

	memset(out, 0, sizeof(*out));
	c.slots = calloc(RULE_SLOTS, sizeof(*c.slots));
	if (!c.slots || !vec__push(&c.rules))
		c.no_memory = true;
	if (!c.no_memory)
		cfi__each(img, add_fde, &c);
	if (!c.no_memory && c.begun)
		set_rule(&c, c.end, 0);
	if (c.no_memory)
		err = -ENOMEM;
	*out = (struct unwind_table){
		.base = c.base,
		.fde_cnt = c.fde_cnt,
		.odd_cnt = c.odd_cnt,
		.pages = c.pages.data,
		.rows = c.rows.data,
		.rules = c.rules.data,
		.page_cnt = (uint32_t)c.pages.cnt,
		.row_cnt = (uint32_t)c.rows.cnt,
		.rule_cnt = (uint32_t)c.rules.cnt,
	};
	out->segment_cnt = (uint32_t)image__code_segments(img, out->segments, UNWIND_MAX_SEGMENTS);
	free(c.slots);
	if (err)
		unwind_table__free(out);
	return err;
}

void unwind_table__free(struct unwind_table *t)
{
	free(t->pages);
	free(t->rows);
	free(t->rules);
	memset(t, 0, sizeof(*t));
}

/* ---- in a process without rights ---- */

static int compile(void *arg, struct strbuf *reply, char **reason)
{
	struct unwind_table t;
	struct image *img;
	int err = image__open(*(int *)arg, &img, reason);

	if (err)
		return err;
	err = unwind__compile(img, &t);
	image__free(img);
	if (err)
		return err;
	strbuf__add(reply, &t, sizeof(t));
	strbuf__add(reply, t.pages, t.page_cnt * sizeof(*t.pages));
	strbuf__add(reply, t.rows, t.row_cnt * sizeof(*t.rows));
	strbuf__add(reply, t.rules, t.rule_cnt * sizeof(*t.rules));
	return 0;
}

static const char *copy_array(const char *from, size_t cnt, size_t bytes, void *out)
{
	void *p = malloc(cnt * bytes + 1);

	if (p)
		memcpy(p, from, cnt * bytes);
	*(void **)out = p;
	return from + cnt * bytes;
}

bool unwind_table__is_sound(const struct unwind_table *t)
{
	uint64_t rows = 0;

	for (uint32_t i = 0; i < t->page_cnt; i++) {
		if (t->pages[i].first != rows)
			return false;
		rows += t->pages[i].last + 1u;
	}
	for (uint32_t i = 0; i < t->row_cnt; i++)
		if (RT_ROW_RULE(t->rows[i]) >= t->rule_cnt)
			return false;
	return rows == t->row_cnt;
}

static int unpack(const struct strbuf *reply, struct unwind_table *out)
{
	struct unwind_table t;
	const char *at = reply->s + sizeof(t);
	uint64_t bytes;

	if (reply->len < sizeof(t))
		return -EPROTO;
	memcpy(&t, reply->s, sizeof(t));
	bytes = sizeof(t) + (uint64_t)t.page_cnt * sizeof(*t.pages) +
		(uint64_t)t.row_cnt * sizeof(*t.rows) + (uint64_t)t.rule_cnt * sizeof(*t.rules);
	if (bytes != reply->len || t.page_cnt > MAX_PAGES || t.rule_cnt > MAX_RULES ||
	    t.segment_cnt > UNWIND_MAX_SEGMENTS || t.base & (RT_UNWIND_PAGE - 1))
		return -EPROTO;
	at = copy_array(at, t.page_cnt, sizeof(*t.pages), &t.pages);
	at = copy_array(at, t.row_cnt, sizeof(*t.rows), &t.rows);
	copy_array(at, t.rule_cnt, sizeof(*t.rules), &t.rules);
	if (!t.pages || !t.rows || !t.rules || !unwind_table__is_sound(&t)) {
		unwind_table__free(&t);
		return -EPROTO;
	}
	*out = t;
	return 0;
}

int unwind__compile_isolated(int fd, struct unwind_table *out, char **reason)
{
	struct strbuf reply = STRBUF_INIT;
	int err;

	*reason = NULL;
	err = jail__run(compile, &fd, "reading the unwind tables", &reply, reason);
	if (!err)
		err = unpack(&reply, out);
	strbuf__free(&reply);
	if (err && !*reason)
		*reason = strdup(strerror(-err));
	return err;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Names first: each family has a table of them, behind a prefix perhaps (_rjem_malloc). What kind
 * of malloc a plain `malloc` is, other symbols of its file tell.
 *
 * Rust's shims call the default allocator (__rdl_*) or the program's own (__rg_*). As long as they
 * do only that, nothing was inlined and every call goes through them. A shim that holds more than
 * the call has been merged with what it calls, and so may its callers have been.
 */
#include "plan/allocators.h"

#include <stdio.h>

#include "base/strbuf.h"
#include "plan/flow.h"
#include "plan/rows.h"
#include "symbols/cfi.h"
#include "symbols/demangle.h"
#include "symbols/image.h"

struct function {
	const char *name;
	enum rt_mem_op op;
};

static const struct function malloc_names[] = {
	{ "malloc", RT_MEM_ALLOC },
	{ "calloc", RT_MEM_CALLOC },
	{ "realloc", RT_MEM_REALLOC },
	{ "aligned_alloc", RT_MEM_ALIGNED },
	{ "memalign", RT_MEM_ALIGNED },
	{ "posix_memalign", RT_MEM_POSIX },
	{ "valloc", RT_MEM_ALLOC },
	{ "pvalloc", RT_MEM_ALLOC },
	{ "free", RT_MEM_FREE },
	{ "cfree", RT_MEM_FREE },
	{ "free_sized", RT_MEM_FREE },
	{ "free_aligned_sized", RT_MEM_FREE },
	/* jemalloc's own */
	{ "mallocx", RT_MEM_ALLOC },
	{ "rallocx", RT_MEM_REALLOC },
	{ "xallocx", RT_MEM_XALLOC },
	{ "dallocx", RT_MEM_FREE },
	{ "sdallocx", RT_MEM_FREE },
	{ NULL, RT_MEM_OPS },
};

static const struct function mimalloc_names[] = {
	{ "malloc", RT_MEM_ALLOC },
	{ "zalloc", RT_MEM_ALLOC },
	{ "malloc_small", RT_MEM_ALLOC },
	{ "zalloc_small", RT_MEM_ALLOC },
	{ "malloc_aligned", RT_MEM_ALLOC },
	{ "zalloc_aligned", RT_MEM_ALLOC },
	{ "calloc", RT_MEM_CALLOC },
	{ "mallocn", RT_MEM_CALLOC },
	{ "calloc_aligned", RT_MEM_CALLOC },
	{ "realloc", RT_MEM_REALLOC },
	{ "rezalloc", RT_MEM_REALLOC },
	{ "realloc_aligned", RT_MEM_REALLOC },
	{ "rezalloc_aligned", RT_MEM_REALLOC },
	{ "memalign", RT_MEM_ALIGNED },
	{ "aligned_alloc", RT_MEM_ALIGNED },
	{ "posix_memalign", RT_MEM_POSIX },
	{ "valloc", RT_MEM_ALLOC },
	{ "pvalloc", RT_MEM_ALLOC },
	{ "free", RT_MEM_FREE },
	{ "free_size", RT_MEM_FREE },
	{ "free_aligned", RT_MEM_FREE },
	{ "free_size_aligned", RT_MEM_FREE },
	{ NULL, RT_MEM_OPS },
};

static const struct function rust_names[] = {
	{ "__rust_alloc", RT_MEM_RUST_ALLOC },
	{ "__rust_alloc_zeroed", RT_MEM_RUST_ALLOC },
	{ "__rust_dealloc", RT_MEM_RUST_DEALLOC },
	{ "__rust_realloc", RT_MEM_RUST_REALLOC },
	{ NULL, RT_MEM_OPS },
};

static const struct kind {
	const char *source, *prefix;
	const struct function *names;
} kinds[] = {
	{ "rust", "", rust_names },
	{ "malloc", "", malloc_names }, /* its source is found out */
	{ "jemalloc", "_rjem_", malloc_names },
	{ "jemalloc", "je_", malloc_names },
	{ "mimalloc", "mi_", mimalloc_names },
};
#define KIND_CNT (sizeof(kinds) / sizeof(kinds[0]))
#define KIND_RUST 0
#define KIND_PLAIN 1

/* Symbols that only one maker of a plain malloc has. */
static const struct mark {
	const char *symbol, *source;
} marks[] = {
	{ "mallocx", "jemalloc" },
	{ "mi_malloc", "mimalloc" },
	{ "tc_malloc", "tcmalloc" },
	/* musl has a __libc_malloc, too */
	{ "__libc_malloc_impl", "musl" },
	{ "__malloc_donate", "musl" },
	{ "__libc_malloc", "glibc" },
	{ "__libc_start_main", "musl" },
};
#define MARK_CNT (sizeof(marks) / sizeof(marks[0]))

struct found {
	const struct symbol *sym;
	const struct function *fn;
};

struct search {
	struct build *build;
	const struct image *img;
	VEC(struct found) found[KIND_CNT];
	bool marked[MARK_CNT];
	bool operators; /* C++'s operator new is in the file, too */
	bool shared;	/* a shared library: calls within it can be replaced */
	size_t skips;
	bool oom;
};

/* The number that stands before a name in Rust's manglings is its length. */
static bool is_mangled(const char *sym, size_t len, const char *name)
{
	char tail[40];
	const char *at = memmem(sym, len, "7___rustc", 9);
	size_t tail_len;

	if (!at)
		return false;
	/* v0 puts a _ between the length and a name that begins with one */
	tail_len = (size_t)snprintf(tail, sizeof(tail), "%zu_%s", strlen(name), name);
	at += 9;
	if ((size_t)(sym + len - at) == tail_len && !memcmp(at, tail, tail_len))
		return true;
	tail_len = (size_t)snprintf(tail, sizeof(tail), "%zu%s", strlen(name), name);
	return (size_t)(sym + len - at) >= tail_len && !memcmp(at, tail, tail_len) &&
	       ((size_t)(sym + len - at) == tail_len || !memcmp(at + tail_len, "17h", 3));
}

static const struct function *look_up(const struct kind *kind, const char *name)
{
	size_t prefix = strlen(kind->prefix);

	if (strncmp(name, kind->prefix, prefix))
		return NULL;
	for (const struct function *f = kind->names; f->name; f++)
		if (!strcmp(name + prefix, f->name))
			return f;
	return NULL;
}

static const struct function *look_up_rust(const char *name)
{
	struct name_parts parts;

	if (name[0] != '_' || (name[1] != 'R' && name[1] != 'Z' && name[1] != '_'))
		return NULL;
	if (name[1] == '_')
		return look_up(&kinds[KIND_RUST], name);
	if (!strstr(name, "___rustc"))
		return NULL;
	name__split(name, &parts);
	for (const struct function *f = rust_names; f->name; f++)
		if (is_mangled(name, parts.stem_len, f->name))
			return f;
	return NULL;
}

static void keep(struct search *s, size_t kind, const struct symbol *sym, const struct function *fn)
{
	struct found *slot;

	for (size_t i = 0; i < s->found[kind].cnt; i++)
		if (s->found[kind].data[i].sym->addr == sym->addr)
			return; /* another name of the same function */
	slot = vec__push(&s->found[kind]);
	if (slot)
		*slot = (struct found){ sym, fn };
	else
		s->oom = true;
}

static void scan(struct search *s)
{
	size_t cnt;
	const struct symbol *syms = image__symbols(s->img, &cnt);

	for (size_t i = 0; i < cnt; i++) {
		const char *name = image__str(s->img, syms[i].name);
		const struct function *fn;

		if (syms[i].type < SYMBOL_FUNC)
			continue;
		s->operators |= !strcmp(name, "_Znwm");
		for (size_t m = 0; m < MARK_CNT; m++)
			s->marked[m] |= !strcmp(name, marks[m].symbol);
		fn = look_up_rust(name);
		if (fn)
			keep(s, KIND_RUST, &syms[i], fn);
		for (size_t k = KIND_PLAIN; k < KIND_CNT; k++) {
			fn = look_up(&kinds[k], name);
			if (fn)
				keep(s, k, &syms[i], fn);
		}
	}
}

static const char *source_of(const struct search *s, size_t kind)
{
	if (kind != KIND_PLAIN)
		return kinds[kind].source;
	for (size_t m = 0; m < MARK_CNT; m++)
		if (s->marked[m])
			return marks[m].source;
	return "malloc";
}

/* Two names of one allocator (malloc is mi_malloc) are one family: else each call counts twice. */
static void join(struct search *s)
{
	const char *source = s->found[KIND_PLAIN].cnt ? source_of(s, KIND_PLAIN) : "";

	for (size_t k = KIND_PLAIN + 1; k < KIND_CNT; k++) {
		if (strcmp(kinds[k].source, source))
			continue;
		for (size_t i = 0; i < s->found[k].cnt; i++)
			keep(s, KIND_PLAIN, s->found[k].data[i].sym, s->found[k].data[i].fn);
		s->found[k].cnt = 0;
	}
}

/* ---- one family ---- */

/* A return probe belongs on the first instruction; a lone entry probe where it is cheapest. */
static bool place(const struct image *img, const struct found *f, const struct flow *flow,
		  struct plan_mem_site *site)
{
	const struct flow_site *at = site->returns ? &flow->first : flow__with_arguments(flow);

	if (at == &flow->first && !flow->first_usable)
		return false;
	site->vaddr = at->vaddr;
	site->insn = (uint8_t)at->insn;
	return image__code_offset(img, at->vaddr, &site->offset);
}

/* Whether a shim does nothing but call the allocator. */
static bool is_plain_shim(const struct image *img, const struct flow *flow)
{
	for (size_t i = 0; i < flow->insn_cnt && i < 8; i++) {
		const struct symbol *to;
		uint64_t vaddr;

		if (!flow__callee(img, &flow->insns[i], &vaddr))
			continue;
		to = image__function_at(img, vaddr);
		return to && (strstr(image__str(img, to->name), "__rdl_") ||
			      strstr(image__str(img, to->name), "__rg_"));
	}
	return false;
}

static int add_site(struct search *s, const struct found *f, bool rust, char **why)
{
	struct build *b = s->build;
	struct plan_mem_site site = { .op = f->fn->op,
				      .allocator = (uint32_t)b->allocators.cnt - 1,
				      .returns = f->fn->op <= RT_MEM_XALLOC },
			     *slot;
	struct flow flow;
	int err = flow__analyse(s->img, f->sym, f->sym->size, &flow), ret = 0;

	if (!err && rust && !*why && !is_plain_shim(s->img, &flow))
		ret = asprintf(
			why,
			"'%s' is more than a call of an allocator: some calls of it may be inlined",
			f->fn->name);
	if (!err && !place(s->img, f, &flow, &site) && !*why)
		ret = asprintf(why, "no probe can be put on '%s'", f->fn->name);
	flow__free(&flow);
	slot = err || ret < 0 ? NULL : vec__push(&b->mem_sites);
	if (!slot)
		return -ENOMEM;
	*slot = site;
	return 0;
}

/* ---- glibc's frees that are none ---- */

/*
 * A thread that ends hands the blocks of its cache back by calling free once more for each, though
 * the program has freed them all. These calls are told by where they stand: in the shared library
 * only malloc's own code calls free directly, all else goes through a stub, so that it can be
 * replaced. In a static program a symbol tells.
 */
#define SHUTDOWN "thread_freeres"
#define SHUTDOWN_TOO "tcache_thread_shutdown"
#define NEAR_BYTES (128u << 10) /* malloc's code is one object file */
#define CALL_BYTES 5

static bool is_instruction(const struct image *img, uint64_t vaddr, uint64_t target)
{
	struct cfi_fde fde;
	struct insn in;

	if (!cfi__find(img, vaddr, &fde))
		return false;
	for (uint64_t at = fde.start; at <= vaddr; at += in.len) {
		size_t avail;
		const uint8_t *p = image__bytes(img, at, &avail);

		if (!p || !insn__decode(p, avail, at, &in))
			return false;
		if (at == vaddr)
			return in.flow == INSN_CALL && in.target == target;
	}
	return false;
}

static bool is_shutdown(const struct search *s, uint64_t vaddr)
{
	size_t cnt, i = image__lower_bound(s->img, vaddr + 1);
	const struct symbol *syms = image__symbols(s->img, &cnt);
	const char *name;

	if (s->shared)
		return true;
	while (i && syms[i - 1].type < SYMBOL_FUNC)
		i--;
	name = i ? image__str(s->img, syms[i - 1].name) : "";
	return strstr(name, SHUTDOWN) || strstr(name, SHUTDOWN_TOO);
}

static int add_skip(struct search *s, uint64_t vaddr)
{
	struct plan_mem_site *slot = vec__push(&s->build->mem_sites);

	if (!slot)
		return -ENOMEM;
	*slot = (struct plan_mem_site){ .vaddr = vaddr,
					.allocator = (uint32_t)s->build->allocators.cnt - 1,
					.op = RT_MEM_SKIP,
					.insn = RT_INSN_EMULATED };
	s->skips++;
	return image__code_offset(s->img, vaddr, &slot->offset) ? 0 : -ENOMEM;
}

static int add_skips(struct search *s, const struct symbol *free_sym)
{
	uint64_t target = free_sym->addr, from = target > NEAR_BYTES ? target - NEAR_BYTES : 0;
	int err = 0;

	for (uint64_t at = from; at < target + NEAR_BYTES && !err; at++) {
		size_t avail;
		const uint8_t *p = image__bytes(s->img, at, &avail);
		int32_t distance;

		if (!p || avail < CALL_BYTES || *p != 0xe8)
			continue;
		memcpy(&distance, p + 1, sizeof(distance));
		if (at + CALL_BYTES + (uint64_t)(int64_t)distance == target &&
		    is_instruction(s->img, at, target) && is_shutdown(s, at))
			err = add_skip(s, at);
	}
	return err;
}

static bool has(const struct search *s, size_t kind, enum rt_mem_op from, enum rt_mem_op to)
{
	for (size_t i = 0; i < s->found[kind].cnt; i++) {
		enum rt_mem_op op = s->found[kind].data[i].fn->op;

		if (op >= from && op <= to)
			return true;
	}
	return false;
}

static char *missing(const struct search *s, size_t kind)
{
	bool rust = kind == KIND_RUST;
	bool out = rust ? has(s, kind, RT_MEM_RUST_ALLOC, RT_MEM_RUST_ALLOC)
			: has(s, kind, RT_MEM_ALLOC, RT_MEM_REALLOC);
	bool back = rust ? has(s, kind, RT_MEM_RUST_DEALLOC, RT_MEM_RUST_DEALLOC)
			 : has(s, kind, RT_MEM_FREE, RT_MEM_FREE);
	char *why = NULL;

	if (out && back)
		return NULL;
	if (asprintf(&why, "%s has no symbol (inlined, or stripped)",
		     rust  ? out ? "__rust_dealloc" : "__rust_alloc"
		     : out ? "free"
			   : "malloc") < 0)
		return NULL;
	return why;
}

static const struct found *find_op(const struct search *s, size_t kind, enum rt_mem_op op)
{
	for (size_t i = 0; i < s->found[kind].cnt; i++)
		if (s->found[kind].data[i].fn->op == op)
			return &s->found[kind].data[i];
	return NULL;
}

static int add_family(struct search *s, size_t kind)
{
	struct plan_allocator *a;
	struct strbuf names = STRBUF_INIT;
	char *why = missing(s, kind);
	int err = 0;

	a = vec__push(&s->build->allocators);
	if (!a)
		return -ENOMEM;
	*a = (struct plan_allocator){ .source = strdup(source_of(s, kind)),
				      .object = (uint32_t)s->build->objects.cnt - 1,
				      .rust = kind == KIND_RUST };
	for (size_t i = 0; i < s->found[kind].cnt && !err; i++) {
		const struct found *f = &s->found[kind].data[i];

		strbuf__addf(&names, "%s%s", i ? " " : "",
			     a->rust ? f->fn->name : image__str(s->img, f->sym->name));
		err = add_site(s, f, a->rust, &why);
	}
	a->why = why;
	a->functions = strbuf__take(&names);
	if (a->source && !strcmp(a->source, "glibc")) {
		const struct found *f = find_op(s, kind, RT_MEM_FREE);

		/* without them chunks alone would count blocks twice: then by address */
		err = err ?: f ? add_skips(s, f->sym) : 0;
		a->chunk = s->skips != 0;
	}
	return err ?: a->source && a->functions ? 0 : -ENOMEM;
}

/*
 * jemalloc and its kind inline their malloc into operator new. A return probe there would be in the
 * way of the exception when memory is out, so it has none.
 */
static int note_operators(struct search *s)
{
	struct build *b = s->build;
	const struct plan_allocator *a = &b->allocators.data[b->allocators.cnt - 1];
	char **slot;

	if (!s->operators || a->rust || a->chunk || a->why)
		return 0;
	slot = vec__push(&b->notes);
	if (!slot)
		return -ENOMEM;
	if (asprintf(slot,
		     "%s in %s has an operator new of its own: what C++ code allocates is not "
		     "seen, its frees count as unknown",
		     a->source, b->objects.data[a->object].name) < 0)
		b->notes.cnt--;
	return 0;
}

int allocators__add(struct build *b, const struct image *img)
{
	struct search s = { .build = b,
			    .img = img,
			    .shared = b->objects.cnt > 1 || b->req->library };
	int err;

	scan(&s);
	join(&s);
	err = s.oom ? -ENOMEM : 0;
	for (size_t k = 0; k < KIND_CNT; k++) {
		/* a lone name is somebody's own helper, not an allocator: but for Rust's shims */
		if (!err && s.found[k].cnt && (k == KIND_RUST || s.found[k].cnt > 1) &&
		    b->allocators.cnt < RT_MEM_MAX_FAMILIES)
			err = add_family(&s, k) ?: note_operators(&s);
		vec__free(&s.found[k]);
	}
	return err;
}

/* ---- the choice ---- */

static size_t choose(struct plan *plan, bool rust, bool totals)
{
	size_t n = 0;

	for (size_t i = 0; i < plan->allocator_cnt; i++) {
		struct plan_allocator *a = &plan->allocators[i];

		if (a->rust != rust || a->why)
			continue;
		a->chosen = true;
		a->totals = totals;
		n++;
	}
	return n;
}

/* What was found and cannot be used, in words. */
static char *why_none(const struct plan *plan)
{
	struct strbuf sb = STRBUF_INIT;

	for (size_t i = 0; i < plan->allocator_cnt; i++)
		if (plan->allocators[i].why)
			strbuf__addf(&sb, "%s%s in %s is incomplete: %s", sb.len ? "; " : "",
				     plan->allocators[i].source,
				     plan->objects[plan->allocators[i].object].name,
				     plan->allocators[i].why);
	if (!sb.len)
		strbuf__adds(&sb, "no allocator was found that fits");
	return strbuf__take(&sb);
}

int allocators__choose(struct plan *plan, const struct plan_request *req)
{
	bool stacks = req->memory == PLAN_MEMORY_STACKS;
	size_t n = 0;

	plan->memory = req->memory;
	if (req->memory == PLAN_MEMORY_NONE)
		return 0;
	switch (req->layer) {
	case PLAN_LAYER_AUTO:
		/* the shims know sizes at both ends: half the probes, and no exits; but no address
		 */
		n = stacks ? 0 : choose(plan, true, true);
		n = n ? n : choose(plan, false, true);
		break;
	case PLAN_LAYER_RUST:
		n = stacks ? 0 : choose(plan, true, true);
		break;
	case PLAN_LAYER_MALLOC:
		n = choose(plan, false, true);
		break;
	case PLAN_LAYER_ALL:
		n = choose(plan, false, true);
		n += stacks ? 0 : choose(plan, true, !n);
		break;
	}
	if (n)
		return 0;
	plan->memory_why = why_none(plan);
	return plan->memory_why ? 0 : -ENOMEM;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "collect/namer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/vec.h"
#include "plan/names.h"
#include "plan/select.h"
#include "roletrace/unwind.h"
#include "syscalls.h" /* made of the kernel's header: number -> name */

/* Looking for names starts processes: at most one part of so many of the time. */
#define LEARN_SHARE 200

struct namer {
	const struct plan *plan;
	const struct target *target;
	const struct code *code;
	const char *debug_file;
	char root[64];
	struct arena *arena;
	VEC(struct named *) known; /* by frame; in the arena: who has one keeps it */
	const char *main_crate;	   /* NULL: not known yet */
	struct row_symbol *rows;   /* of the planned functions, by file and symbol */
	size_t row_cnt;
};

struct row_symbol {
	uint32_t object; /* of the plan */
	const char *symbol;
	uint32_t fn;
};

static int by_symbol(const void *a, const void *b)
{
	const struct row_symbol *x = a, *y = b;

	if (x->object != y->object)
		return x->object < y->object ? -1 : 1;
	return strcmp(x->symbol, y->symbol);
}

static int index_rows(struct namer *n)
{
	size_t cnt = 0;

	for (size_t i = 0; i < n->plan->fn_cnt; i++)
		cnt += 1 + n->plan->fns[i].alias_cnt;
	n->rows = calloc(cnt + 1, sizeof(*n->rows));
	if (!n->rows)
		return -ENOMEM;
	for (size_t i = 0; i < n->plan->fn_cnt; i++) {
		const struct plan_fn *fn = &n->plan->fns[i];

		n->rows[n->row_cnt++] = (struct row_symbol){ fn->object, fn->symbol, (uint32_t)i };
		for (size_t a = 0; a < fn->alias_cnt; a++)
			n->rows[n->row_cnt++] =
				(struct row_symbol){ fn->object, fn->aliases[a], (uint32_t)i };
	}
	qsort(n->rows, n->row_cnt, sizeof(*n->rows), by_symbol);
	return 0;
}

/* Where the function's first entry probe is, as linked: at its start, or a little behind. */
static uint64_t entry_of(const struct namer *n, uint32_t fn, uint64_t start)
{
	uint64_t best = UINT64_MAX;

	for (size_t i = 0; i < n->plan->site_cnt; i++) {
		const struct plan_site *s = &n->plan->sites[i];

		if (s->fn == fn && s->vaddr >= start && s->vaddr < best)
			best = s->vaddr;
	}
	return best;
}

/*
 * The row of a function of a file of the plan, or NAMED_NO_ROW. Several functions may go by one
 * symbol (static ones of several sources): then it is the one probed first behind start (0: not
 * known which, and no row).
 */
static uint32_t row_of(const struct namer *n, uint32_t object, const char *symbol, uint64_t start)
{
	struct row_symbol key = { .object = object, .symbol = symbol }, *r;
	const struct row_symbol *end = n->rows + n->row_cnt, *best;

	if (!symbol || !n->row_cnt || object == NAMED_NO_OBJECT)
		return NAMED_NO_ROW;
	r = bsearch(&key, n->rows, n->row_cnt, sizeof(key), by_symbol);
	if (!r)
		return NAMED_NO_ROW;
	while (r > n->rows && !by_symbol(r - 1, &key))
		r--;
	best = r;
	for (r++; r < end && !by_symbol(r, &key); r++) {
		if (!start)
			return NAMED_NO_ROW;
		if (entry_of(n, r->fn, start) < entry_of(n, best->fn, start))
			best = r;
	}
	return best->fn;
}

struct namer *namer__new(const struct plan *plan, const struct target *target,
			 const struct code *code, const char *debug_file)
{
	struct namer *n = calloc(1, sizeof(*n));

	if (!n)
		return NULL;
	n->plan = plan;
	n->target = target;
	n->code = code;
	n->debug_file = debug_file;
	snprintf(n->root, sizeof(n->root), "/proc/%d/task/%d/root", target->pid, target->proc_tid);
	n->arena = arena__new();
	if (!n->arena || index_rows(n)) {
		namer__free(n);
		errno = ENOMEM;
		return NULL;
	}
	return n;
}

void namer__free(struct namer *n)
{
	if (!n)
		return;
	arena__free(n->arena);
	free(n->rows);
	vec__free(&n->known);
	free(n);
}

static int by_frame(const void *a, const void *b)
{
	const struct named *x = *(const struct named *const *)a,
			   *y = *(const struct named *const *)b;

	return x->frame < y->frame ? -1 : x->frame > y->frame;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static const struct named *find(struct named *const *known, size_t cnt, uint64_t frame)
{
	struct named key = { .frame = frame }, *at = &key;
	struct named *const *found = cnt ? bsearch(&at, known, cnt, sizeof(at), by_frame) : NULL;

	return found ? *found : NULL;
}

const struct named *namer__get(const struct namer *n, uint64_t frame)
{
	return find(n->known.data, n->known.cnt, frame);
}

/* ---- what a frame is ---- */

static const struct code_file *file_of(const struct namer *n, uint32_t object)
{
	return object && object <= n->code->file_cnt ? &n->code->files[object - 1] : NULL;
}

static bool is_exe(const struct namer *n, const struct code_file *f)
{
	return (f->ino == n->target->exe_ino && f->dev == n->target->exe_dev) ||
	       !strcmp(f->path, n->target->exe);
}

/* The file's place among the plan's, or NAMED_NO_OBJECT. */
static uint32_t object_of(const struct namer *n, const struct code_file *f)
{
	if (is_exe(n, f))
		return 0;
	for (uint32_t i = 1; i < n->plan->object_cnt; i++) {
		const struct target_object *o = &n->target->objects[n->plan->objects[i].source - 1];

		if (o->ino == f->ino && o->dev == f->dev)
			return i;
	}
	return NAMED_NO_OBJECT;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static bool is_std(const char *crate)
{
	static const char *const std[] = { "std",
					   "core",
					   "alloc",
					   "__rustc",
					   "compiler_builtins",
					   "proc_macro",
					   "test",
					   "rustc_std_workspace_core" };

	for (size_t i = 0; i < sizeof(std) / sizeof(std[0]); i++)
		if (!strcmp(crate, std[i]))
			return true;
	return false;
}

/* The crate of the program's main, and those that are traced: but tokio is not one's own for that.
 */
static bool is_own_crate(const struct namer *n, const char *crate)
{
	if (n->main_crate && !strcmp(n->main_crate, crate))
		return true;
	if (select__is_library(crate))
		return false;
	for (size_t i = 0; i < n->plan->fn_cnt; i++)
		if (!strcmp(n->plan->fns[i].crate, crate))
			return true;
	return false;
}

static enum frame_kind kind_of(const struct namer *n, const struct code_file *f,
			       const struct name *name)
{
	/* of no crate are u64's own functions, and [T]'s: only core may have such */
	if (name->rust && (!*name->crate || is_std(name->crate)))
		return FRAME_STD;
	if (name->rust)
		return is_own_crate(n, name->crate) ? FRAME_OWN : FRAME_DEP;
	if (!is_exe(n, f))
		return FRAME_LIB;
	return name->name ? FRAME_OWN : FRAME_UNKNOWN;
}

static char *say_place(struct namer *n, const char *module, uint64_t at)
{
	char text[320];

	snprintf(text, sizeof(text), "[%.256s+0x%llx]", module, (unsigned long long)at);
	return arena__strdup(n->arena, text);
}

/* A function that is in the plan is called as it is there. */
static void take_row(const struct namer *n, uint32_t object, uint64_t start, struct named_fn *out)
{
	const struct plan_fn *fn;

	out->row = row_of(n, object, out->symbol, start);
	if (out->row == NAMED_NO_ROW)
		return;
	fn = &n->plan->fns[out->row];
	out->f.name = fn->name;
	out->f.file = fn->file;
	out->f.line = fn->line;
	out->f.kind = FRAME_OWN;
}

static int describe_inlined(struct namer *n, const struct code_file *f, const struct name *name,
			    struct named *out)
{
	struct named_fn *fns;

	if (!name->inlined_cnt)
		return 0;
	out->inlined = fns = arena__alloc(n->arena, name->inlined_cnt * sizeof(*fns));
	if (!fns)
		return -ENOMEM;
	for (uint32_t i = 0; i < name->inlined_cnt; i++) {
		const struct name *in = &name->inlined[i];

		fns[i] = (struct named_fn){ .f = { .name = in->name,
						   .module = out->fn.f.module,
						   .kind = kind_of(n, f, in),
						   .inlined = true },
					    .symbol = in->symbol,
					    .crate = in->crate };
		take_row(n, object_of(n, f), 0, &fns[i]);
	}
	out->inlined_cnt = name->inlined_cnt;
	return 0;
}

static int describe(struct namer *n, const struct name *name, struct named *out)
{
	const struct code_file *f = file_of(n, RT_FRAME_OBJECT(out->frame));
	uint64_t vaddr = RT_FRAME_VADDR(out->frame);
	char *module;

	struct named_fn *fn = &out->fn;

	fn->crate = "";
	if (!f) {
		/* a JIT's, or of a library that has not been looked at yet */
		fn->f.name = "[unknown code]";
		return 0;
	}
	fn->f.module = module = arena__strdup(n->arena, base_name(f->path));
	fn->f.kind = kind_of(n, f, name);
	fn->symbol = name->symbol;
	fn->crate = name->crate ? name->crate : "";
	fn->f.name = name->name ? name->name
				: say_place(n, base_name(f->path),
					    name->start ? name->start : vaddr & ~0xfffull);
	fn->object = object_of(n, f);
	fn->start = name->start;
	take_row(n, fn->object, name->start, fn);
	if (!module || !fn->f.name)
		return -ENOMEM;
	return describe_inlined(n, f, name, out);
}

static int describe_kernel(struct namer *n, struct named *out)
{
	static const char *const names[] = SYSCALL_NAMES;
	uint64_t call = RT_FRAME_VADDR(out->frame);
	char text[64] = "[kernel]";

	if (call == RT_KERNEL_BREAKPOINT)
		snprintf(text, sizeof(text), "[kernel: breakpoint]");
	else if (call && call <= sizeof(names) / sizeof(names[0]) && names[call - 1])
		snprintf(text, sizeof(text), "[kernel: %s]", names[call - 1]);
	out->fn.crate = "";
	out->fn.f = (struct snapshot_frame){ .name = arena__strdup(n->arena, text),
					     .module = "[kernel]",
					     .kind = FRAME_KERNEL };
	return out->fn.f.name ? 0 : -ENOMEM;
}

/* ---- learning ---- */

/* Frames of one object. What cannot be read leaves them without names, and is said. */
static int learn_object(struct namer *n, const uint64_t *frames, size_t cnt)
{
	const struct code_file *f = file_of(n, RT_FRAME_OBJECT(frames[0]));
	struct name *names = calloc(cnt, sizeof(*names));
	uint64_t *vaddrs = calloc(cnt, sizeof(*vaddrs));
	const char *main_crate = "";
	char *reason = NULL;
	int err = names && vaddrs ? 0 : -ENOMEM;

	for (size_t i = 0; i < cnt && !err; i++)
		vaddrs[i] = RT_FRAME_VADDR(frames[i]);
	if (!err && f) {
		struct names_request req = {
			.fd = f->fd,
			.path = f->path,
			.root = n->root,
			.debug_file = is_exe(n, f) ? n->debug_file : NULL,
			.vaddrs = vaddrs,
			.cnt = cnt,
			.inlined = is_exe(n, f),
		};

		if (names__find_isolated(&req, n->arena, names, &main_crate, &reason))
			log_warn("collect: no names of '%s': %s", f->path, reason ? reason : "?");
		if (is_exe(n, f))
			n->main_crate = main_crate;
	}
	for (size_t i = 0; i < cnt && !err; i++) {
		struct named *named = arena__alloc(n->arena, sizeof(*named));
		struct named **slot = named ? vec__push(&n->known) : NULL;

		err = slot ? 0 : -ENOMEM;
		if (err)
			break;
		*named = (struct named){ .frame = frames[i],
					 .fn.row = NAMED_NO_ROW,
					 .fn.object = NAMED_NO_OBJECT };
		*slot = named;
		err = RT_FRAME_OBJECT(frames[i]) == RT_OBJECT_KERNEL
			      ? describe_kernel(n, named)
			      : describe(n, &names[i], named);
		if (err)
			n->known.cnt--;
	}
	free(reason);
	free(names);
	free(vaddrs);
	return err;
}

int namer__learn(struct namer *n, uint64_t *frames, size_t cnt)
{
	size_t unknown = 0, end, known = n->known.cnt;
	int err = 0;

	qsort(frames, cnt, sizeof(*frames), by_value);
	for (size_t i = 0; i < cnt; i++)
		if ((!unknown || frames[unknown - 1] != frames[i]) &&
		    !find(n->known.data, known, frames[i]))
			frames[unknown++] = frames[i];
	for (size_t i = 0; i < unknown && !err; i = end) {
		for (end = i + 1; end < unknown; end++)
			if (RT_FRAME_OBJECT(frames[end]) != RT_FRAME_OBJECT(frames[i]))
				break;
		err = learn_object(n, frames + i, end - i);
	}
	if (n->known.cnt)
		qsort(n->known.data, n->known.cnt, sizeof(*n->known.data), by_frame);
	return err;
}

int namer__look(struct namer *n, const uint64_t *frames, size_t cnt, bool final, uint64_t *due_ns)
{
	uint64_t begin = clock__mono_ns(), *copy;
	int err;

	if (!cnt || (!final && begin < *due_ns))
		return 0;
	copy = malloc(cnt * sizeof(*copy));
	if (!copy)
		return -ENOMEM;
	memcpy(copy, frames, cnt * sizeof(*copy));
	err = namer__learn(n, copy, cnt);
	free(copy);
	*due_ns = clock__mono_ns() + (clock__mono_ns() - begin) * LEARN_SHARE;
	return err;
}

/* ---- into a snapshot ---- */

const char *namer__end(enum rt_unwind_end end)
{
	static const char *const names[] = RT_UNWIND_END_NAMES;

	return end < RT_END_CNT ? names[end] : "unknown";
}

/* The first function that a frame is of stands for it: they differ in nothing that is shown. */
static int note_fn(struct frame_fns *fns, uint32_t ref, const struct named_fn *fn)
{
	while (fns->cnt <= ref) {
		const struct named_fn **slot = vec__push(fns);

		if (!slot)
			return -ENOMEM;
		*slot = fn->f.module && fn->f.kind != FRAME_KERNEL ? fn : NULL;
	}
	return 0;
}

static int add_ref(struct snapshot_profiles *out, const struct named_fn *fn,
		   struct frame_refs *refs, struct frame_fns *fns)
{
	uint32_t *slot = vec__push(refs);

	if (!slot)
		return -ENOMEM;
	*slot = profiles__frame(out, &fn->f);
	if (*slot == UINT32_MAX)
		return -ENOMEM;
	return fns ? note_fn(fns, *slot, fn) : 0;
}

int namer__add(const struct namer *n, uint64_t frame, struct snapshot_profiles *out,
	       struct frame_refs *refs, struct frame_fns *fns)
{
	static const struct named_fn unnamed = { .f.name = "[not named yet]" };
	const struct named *name = namer__get(n, frame);
	int err = add_ref(out, name ? &name->fn : &unnamed, refs, fns);

	for (uint32_t i = 0; name && i < name->inlined_cnt && !err; i++)
		err = add_ref(out, &name->inlined[i], refs, fns);
	return err;
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * One file after the other: its debug file, its functions, their lines. What is not an error but
 * worth a line to the user is noted.
 */
#include "plan/build.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/glob.h"
#include "base/plural.h"
#include "base/strbuf.h"
#include "plan/inlined.h"
#include "plan/leaps.h"
#include "plan/profile.h"
#include "plan/rows.h"
#include "plan/select.h"
#include "plan/sources.h"
#include "symbols/dynamic.h"
#include "symbols/image.h"
#include "symbols/inflate.h"

#define HARDLY_ANYTHING 3
/* Source lines are a comfort: they must not make anybody wait. */
#define LINES_LIMIT_NS (2 * 1000000000ull)
#define IMPORTS_SHOWN 3

/* A file while it is read. */
struct reading {
	const struct source *src;
	struct image *img;
	int dwarf_fd; /* the file that has its debug information; -1: none */
	struct selection sel;
	struct plan_request req; /* what is asked of this file */
	const char **globs;
	size_t *asked;		/* of each glob, its number in the whole request */
	struct strbuf rejected; /* debug files that are not its own, in words */
};

static void note(struct build *b, const char *fmt, ...)
{
	char **slot = vec__push(&b->notes);
	va_list ap;

	va_start(ap, fmt);
	if (slot && vasprintf(slot, fmt, ap) < 0)
		b->notes.cnt--;
	va_end(ap);
}

static int copy_of(const char *s, char **out)
{
	*out = s ? strdup(s) : NULL;
	return s && !*out ? -ENOMEM : 0;
}

/* ---- debug files ---- */

static int reject(struct build *b, struct reading *r, const struct debug_candidate *c, char *why,
		  char **reason)
{
	int err = 0;

	if (!c->asked) {
		note(b, "debug file '%s' is not used: %s", c->path, why);
		strbuf__addf(&r->rejected, "%s'%s' is not used: %s", r->rejected.len ? "; " : "",
			     c->path, why);
	} else {
		if (asprintf(reason, "--debug-file '%s': %s", c->path, why) < 0)
			*reason = NULL;
		err = -EINVAL;
	}
	free(why);
	return err;
}

static int use(struct build *b, struct reading *r, const struct debug_candidate *c)
{
	struct plan_object *o = &b->objects.data[b->objects.cnt - 1];
	struct debug_wish has;

	debug_wish__read(c->fd, &has);
	if (r->dwarf_fd < 0 && has.has_dwarf)
		r->dwarf_fd = c->fd;
	if (image__source(r->img) == SYMBOLS_SEPARATE)
		note(b, "symbols of %s from '%s'", o->name, c->path);
	return copy_of(c->path, &o->debug_file);
}

/* The first candidate that is the file's; the user's own must be. */
static int add_debug(struct build *b, struct reading *r, char **reason)
{
	const struct debug_candidates *all = &r->src->debug;
	int err = 0;

	r->dwarf_fd = image__has_dwarf(r->img) ? r->src->fd : -1;
	for (size_t i = 0; i < all->cnt && !err; i++) {
		const struct debug_candidate *c = &all->data[i];
		char *why = NULL;

		err = image__add_debug(r->img, c->fd, c->linked ? &all->link_crc : NULL, &why);
		if (!err)
			return use(b, r, c);
		if (err == -EBADF)
			err = reject(b, r, c, why, reason);
	}
	return err;
}

/* ---- lines ---- */

static void take_lines(struct build *b)
{
	for (size_t i = 0; i < b->starts.cnt; i++) {
		struct line_of *l = &b->starts.data[i];
		struct plan_fn *fn = &b->fns.data[l->id];

		if (fn->file || !l->file) {
			free(l->file);
			continue;
		}
		fn->file = l->file;
		fn->line = l->line;
	}
	b->starts.cnt = 0;
}

static void find_lines(struct build *b, const struct reading *r)
{
	const char *name = b->objects.data[b->objects.cnt - 1].name, *why;

	if (r->dwarf_fd >= 0 && b->starts.cnt) {
		switch (lines__find(r->dwarf_fd, b->starts.data, b->starts.cnt, LINES_LIMIT_NS)) {
		case LINES_DONE:
			break;
		case LINES_LATE:
			note(b,
			     "the debug information of %s is large: after %llu s some functions "
			     "are left without file and line",
			     name, LINES_LIMIT_NS / 1000000000);
			break;
		case LINES_NONE:
			why = inflate__unreadable(r->dwarf_fd);
			note(b, "no files and lines of %s: its debug information is %s", name,
			     why ? why : "corrupt");
			break;
		}
	}
	take_lines(b);
}

/* ---- words ---- */

struct imports {
	const char *glob;
	struct strbuf text;
	size_t cnt;
};

static int match_import(void *arg, const char *name, const char *provider, const char *needed)
{
	struct imports *m = arg;

	if (!glob__match(m->glob, name))
		return 0;
	if (m->cnt++ >= IMPORTS_SHOWN)
		return 0;
	strbuf__adds(&m->text, m->cnt > 1 ? "; " : "");
	if (provider)
		strbuf__addf(&m->text, "'%s' comes from %s: --function '%s:%s'", name, provider,
			     provider, name);
	else
		strbuf__addf(&m->text,
			     "'%s' comes from a library (it needs %s): --function 'LIB:%s'", name,
			     *needed ? needed : "none", name);
	return 0;
}

/* A --function that has no code to probe: does it exist at all? */
static char *why_unmatched(const struct reading *r, const char *function, const char *glob)
{
	struct imports m = { .glob = glob, .text = STRBUF_INIT };
	const char *flaw = image__flaw(r->img);
	enum symbol_source source = image__source(r->img);
	struct strbuf sb = STRBUF_INIT;

	strbuf__addf(&sb, "--function '%s' matches ", function);
	dynamic__imports(r->src->fd, match_import, &m);
	if (m.cnt)
		strbuf__addf(&sb, "no function of %s itself: %s", r->src->label, m.text.s);
	else if (r->dwarf_fd >= 0 && inlined__matches(r->dwarf_fd, glob))
		strbuf__adds(&sb, "only functions inlined into others: no code to probe");
	else if (source == SYMBOLS_EXPORTED || source == SYMBOLS_NONE)
		strbuf__addf(&sb,
			     "nothing: %s %s%s, only its %zu exported functions have names "
			     "(debug file: %s)",
			     *r->src->label ? r->src->label : "the file",
			     flaw ? "has a symbol table " : "is stripped", flaw ? flaw : "",
			     r->sel.symbol_cnt,
			     r->rejected.len ? r->rejected.s : "none found, --debug-file PATH");
	else
		strbuf__adds(&sb, "nothing");
	strbuf__free(&m.text);
	return strbuf__take(&sb);
}

/* What a stripped file still allows; for the executable only. */
static void hint_stripped(struct strbuf *sb, const struct reading *r)
{
	if (image__flaw(r->img))
		strbuf__addf(sb, "its symbol table is %s: ", image__flaw(r->img));
	if (!r->sel.symbol_cnt)
		strbuf__adds(sb, "no symbols in the file (stripped): its functions have no names");
	else
		strbuf__addf(sb, "stripped: only its %zu exported functions have names",
			     r->sel.symbol_cnt);
	strbuf__adds(sb, "; what works: its debug file (--debug-file PATH), functions of libraries "
			 "(--function 'LIB:GLOB')");
}

static int make_hint(struct build *b, const struct reading *r)
{
	enum symbol_source source = image__source(r->img);
	const struct selection *sel = &r->sel;
	struct strbuf sb = STRBUF_INIT;

	bool meant = sel->by_default || r->req.function_cnt || r->req.crate_cnt;

	if (meant && (source == SYMBOLS_NONE || source == SYMBOLS_EXPORTED))
		hint_stripped(&sb, r);
	else if (sel->by_default && !sel->top_crates)
		strbuf__adds(&sb, "no Rust crates in the file: choose functions with --function");
	else if (sel->by_default && b->fns.cnt < HARDLY_ANYTHING)
		strbuf__addf(&sb,
			     "the default (%s) finds %zu function%s; crates with the most, for "
			     "--crate: %s",
			     sel->main_crate ? sel->main_crate : "the crate of main", b->fns.cnt,
			     plural__s(b->fns.cnt), sel->top_crates);
	if (sb.oom)
		return -ENOMEM;
	if (sb.len)
		b->plan->hint = strbuf__take(&sb);
	return 0;
}

/* Asked for by name, and none of it can be probed. */
static int hint_refused(struct build *b)
{
	const struct plan_skip *s = b->skipped.data;
	struct strbuf sb = STRBUF_INIT;

	if (b->fns.cnt || !b->skipped.cnt || b->plan->hint)
		return 0;
	strbuf__addf(&sb, "nothing to probe: '%s' is refused (%s)", s->name,
		     plan_refusal_text(s->why));
	if (b->skipped.cnt > 1)
		strbuf__addf(&sb, ", and so are %zu more", b->skipped.cnt - 1);
	b->plan->hint = strbuf__take(&sb);
	return b->plan->hint ? 0 : -ENOMEM;
}

static void note_too_few_probes(struct build *b)
{
	size_t out = 0;

	for (size_t i = 0; i < b->skipped.cnt; i++)
		out += b->skipped.data[i].why == PLAN_TOO_FEW_PROBES;
	if (out)
		note(b,
		     "this kernel has no uprobe_multi links: %zu function%s %s probed, %zu %s "
		     "left out; choose with --function",
		     b->fns.cnt, plural__s(b->fns.cnt), plural__verb(b->fns.cnt, "is", "are"), out,
		     plural__verb(out, "is", "are"));
}

/* ---- one file ---- */

/* What of the request is about this file. */
static int narrow(struct reading *r, const struct plan_request *req)
{
	r->globs = calloc(req->function_cnt + 1, sizeof(*r->globs));
	r->asked = calloc(req->function_cnt + 1, sizeof(*r->asked));
	if (!r->globs || !r->asked)
		return -ENOMEM;
	r->req = *req;
	r->req.functions = r->globs;
	r->req.function_cnt = 0;
	for (size_t i = 0; i < req->function_cnt; i++) {
		const char *glob = sources__glob(r->src, req->functions[i]);

		if (!glob)
			continue;
		r->asked[r->req.function_cnt] = i;
		r->globs[r->req.function_cnt++] = glob;
	}
	/* libraries alone are asked for: nothing of the executable is meant */
	r->req.no_default = req->no_default || r->src->index || req->function_cnt;
	if (r->src->index)
		r->req.crate_cnt = 0;
	return 0;
}

static bool has_wildcard(const struct reading *r)
{
	for (size_t i = 0; i < r->req.function_cnt; i++)
		if (strpbrk(r->globs[i], "*?"))
			return true;
	return false;
}

static int open_object(struct build *b, struct reading *r, char **reason)
{
	struct plan_object *o = vec__push(&b->objects);
	char *why = NULL;
	int err;

	if (!o || copy_of(r->src->label, &o->name))
		return -ENOMEM;
	o->source = r->src->index;
	err = image__open(r->src->fd, &r->img, &why);
	if (err && why && r->src->index) {
		if (asprintf(reason, "%s: %s", r->src->label, why) < 0)
			*reason = NULL;
		free(why);
	} else if (err) {
		*reason = why;
	}
	return err ?: copy_of(image__build_id(r->img), &o->build_id);
}

static int read_object(struct build *b, struct reading *r, const struct profile *profile,
		       char **reason)
{
	const struct plan_request *req = &r->req;
	int err = open_object(b, r, reason);

	if (!err)
		err = add_debug(b, r, reason);
	if (!err)
		err = select__run(r->img, req, r->src->index ? NULL : profile, &r->sel, reason);
	if (err)
		return err;
	if (image__flaw(r->img) && r->src->index)
		note(b, "the symbol table of %s is %s: only exported names are left", r->src->label,
		     image__flaw(r->img));
	if (r->src->index && image__source(r->img) == SYMBOLS_EXPORTED && has_wildcard(r))
		note(b, "%s is stripped: only its %zu exported functions have names", r->src->label,
		     r->sel.symbol_cnt);
	b->plan->symbol_cnt += r->sel.symbol_cnt;
	if (req->memory)
		err = allocators__add(b, r->img);
	if (err)
		return err;
	b->img = r->img;
	b->sel = &r->sel;
	err = rows__add(b);
	if (!err && req->exit == PLAN_EXIT_URETPROBE && !b->plan->uret_why)
		err = leaps__find(r->src->fd, b, &b->plan->uret_why);
	if (!err && r->src->meant)
		b->leaps |= leaps__kinds(r->src->fd, b);
	if (!err)
		find_lines(b, r);
	if (!err && !r->src->index) {
		b->plan->no_symbols = !r->sel.symbol_cnt;
		err = make_hint(b, r);
	}
	return err;
}

static int add_object(struct build *b, const struct source *src, const struct plan_request *req,
		      const struct profile *profile, bool *matched, char **unmatched, char **reason)
{
	struct reading r = { .src = src, .dwarf_fd = -1, .rejected = STRBUF_INIT };
	struct strbuf prefix = STRBUF_INIT;
	int err = narrow(&r, req);

	if (src->index)
		strbuf__addf(&prefix, "%s:", src->label);
	b->prefix = prefix.s;
	if (!err)
		err = read_object(b, &r, profile, reason);
	for (size_t i = 0; i < r.req.function_cnt && !err; i++) {
		size_t n = r.asked[i];

		matched[n] |= r.sel.matched[i];
		if (!matched[n] && !unmatched[n])
			unmatched[n] = why_unmatched(&r, req->functions[n], r.globs[i]);
	}
	if (!err && !src->index && req->want_inlined && r.dwarf_fd >= 0) {
		/* it fills in rows, too */
		b->plan->fns = b->fns.data;
		b->plan->fn_cnt = b->fns.cnt;
		err = inlined__find(r.dwarf_fd, r.img, &r.req, &r.sel, b->plan);
	}
	for (size_t i = 0; i < b->starts.cnt; i++)
		free(b->starts.data[i].file);
	vec__free(&b->starts);
	select__free(&r.sel);
	image__free(r.img);
	strbuf__free(&r.rejected);
	free(r.globs);
	free(r.asked);
	strbuf__free(&prefix);
	return err;
}

/* Hands what was built over, whole or not: the plan frees it. */
static void give(struct build *b)
{
	struct plan *p = b->plan;

	p->fns = b->fns.data;
	p->fn_cnt = b->fns.cnt;
	p->sites = b->sites.data;
	p->site_cnt = b->sites.cnt;
	p->catches = b->catches.data;
	p->catch_cnt = b->catches.cnt;
	p->skipped = b->skipped.data;
	p->skip_cnt = b->skipped.cnt;
	p->objects = b->objects.data;
	p->object_cnt = b->objects.cnt;
	p->allocators = b->allocators.data;
	p->allocator_cnt = b->allocators.cnt;
	p->mem_sites = b->mem_sites.data;
	p->mem_site_cnt = b->mem_sites.cnt;
	p->notes = b->notes.data;
	p->note_cnt = b->notes.cnt;
}

static int build(struct build *b, const struct sources *sources, const struct plan_request *req,
		 const struct profile *profile, char **reason)
{
	bool *matched = calloc(req->function_cnt + 1, sizeof(*matched));
	char **unmatched = calloc(req->function_cnt + 1, sizeof(*unmatched));
	int err = matched && unmatched ? 0 : -ENOMEM;

	for (size_t i = 0; i < sources->cnt && !err; i++)
		err = add_object(b, &sources->data[i], req, profile, matched, unmatched, reason);
	for (size_t i = 0; i < req->function_cnt && !err; i++) {
		if (matched[i])
			continue;
		err = unmatched[i] ? -ENOENT : -ENOMEM;
		*reason = unmatched[i];
		unmatched[i] = NULL;
	}
	if (!err)
		err = hint_refused(b);
	if (!err)
		note_too_few_probes(b);
	for (size_t i = 0; i < req->function_cnt && unmatched; i++)
		free(unmatched[i]);
	free(unmatched);
	free(matched);
	return err;
}

int plan__build(const struct sources *sources, const struct plan_request *req,
		const struct profile *profile, struct plan **out, char **reason)
{
	struct plan *plan = calloc(1, sizeof(*plan));
	struct build b = { .plan = plan, .req = req };
	int err;

	*reason = NULL;
	if (!plan)
		return -ENOMEM;
	plan->exit = req->exit;
	err = build(&b, sources, req, profile, reason);
	/* beside return probes there are none on catches */
	plan->unswept = b.leaps & ~(plan->exit == PLAN_EXIT_URETPROBE ? 0 : b.swept);
	give(&b);
	if (!err)
		err = allocators__choose(plan, req);
	if (!err)
		err = copy_of(plan->objects[0].build_id, &plan->build_id);
	if (!err)
		err = copy_of(profile ? profile->name : NULL, &plan->profile);
	if (err && !*reason)
		*reason = strdup(strerror(-err));
	if (err)
		plan__free(plan);
	else
		*out = plan;
	return err;
}

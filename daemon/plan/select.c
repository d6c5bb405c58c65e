// SPDX-License-Identifier: BSD-2-Clause
/*
 * Goes over a symbol table of some hundred thousand names in tens of milliseconds: the crate is
 * read from the mangled name, and only what may be meant is demangled.
 */
#include "plan/select.h"

#include <stdio.h>

#include "base/glob.h"
#include "base/strbuf.h"
#include "base/vec.h"
#include "plan/insn.h"
#include "plan/leaps.h"
#include "plan/profile.h"
#include "symbols/image.h"

#define NO_CRATE 0 /* index of "" */
#define TOP_CRATES 5

struct crate {
	char *name;
	size_t fn_cnt;
	bool chosen;
};

struct candidate {
	const struct symbol *sym;
	const char *mangled;
	struct name_parts parts;
	uint32_t crate;
};

struct scan {
	const struct image *img;
	const struct plan_request *req;
	const struct profile *profile;
	struct selection *out;
	VEC(struct crate) crates;
	uint32_t *slots; /* open addressing: index into crates, + 1 */
	size_t slot_cnt;
	VEC(struct candidate) all;
	VEC(struct pick) picks;
	VEC(const struct symbol *) catches;
	bool *matched;	       /* per --function: something had that name */
	const char *main_unit; /* where the main function was compiled; "": unknown */
};

/* std and what is linked into it: nobody's own code. */
static bool is_std(const char *crate)
{
	static const char *const names[] = { "std",	  "core",	    "alloc",
					     "hashbrown", "addr2line",	    "gimli",
					     "object",	  "rustc_demangle", "miniz_oxide",
					     "adler2",	  "panic_unwind",   "compiler_builtins",
					     "memchr",	  "__rustc" };

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (!strcmp(crate, names[i]))
			return true;
	return false;
}

/* Libraries whose names begin those of many programs that only use them. */
bool select__is_library(const char *crate)
{
	static const char *const names[] = {
		"actix",  "anyhow",  "async", "axum",	 "bytes", "chrono", "clap",  "crossbeam",
		"diesel", "futures", "http",  "hyper",	 "json",  "libc",   "log",   "mio",
		"nom",	  "prost",   "quinn", "rand",	 "rayon", "redis",  "regex", "reqwest",
		"rustls", "serde",   "sqlx",  "stratum", "syn",	  "time",   "tokio", "tonic",
		"tower",  "tracing", "url",   "uuid",	 "warp",  "web",    "x509",  "zmq",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (!strcmp(crate, names[i]))
			return true;
	return is_std(crate);
}

static uint32_t hash_of(const char *s)
{
	uint32_t h = 2166136261u;

	while (*s)
		h = (h ^ (uint8_t)*s++) * 16777619u;
	return h;
}

static int grow_slots(struct scan *s)
{
	size_t cnt = s->slot_cnt ? s->slot_cnt * 4 : 1024;
	uint32_t *slots = calloc(cnt, sizeof(*slots));

	if (!slots)
		return -ENOMEM;
	for (size_t i = 0; i < s->crates.cnt; i++) {
		size_t at = hash_of(s->crates.data[i].name) & (cnt - 1);

		while (slots[at])
			at = (at + 1) & (cnt - 1);
		slots[at] = (uint32_t)i + 1;
	}
	free(s->slots);
	s->slots = slots;
	s->slot_cnt = cnt;
	return 0;
}

/* The number of a crate name; it is added when new. */
static int crate_id(struct scan *s, const char *name, uint32_t *id)
{
	struct crate *crate;
	size_t at;

	if (s->crates.cnt * 2 >= s->slot_cnt && grow_slots(s))
		return -ENOMEM;
	at = hash_of(name) & (s->slot_cnt - 1);
	while (s->slots[at]) {
		*id = s->slots[at] - 1;
		if (!strcmp(s->crates.data[*id].name, name))
			return 0;
		at = (at + 1) & (s->slot_cnt - 1);
	}
	crate = vec__push(&s->crates);
	if (!crate || !(crate->name = strdup(name)))
		return -ENOMEM;
	*id = (uint32_t)s->crates.cnt - 1;
	s->slots[at] = *id + 1;
	return 0;
}

static int crate_of(struct scan *s, const char *mangled, const struct name_parts *parts,
		    uint32_t *id)
{
	char buf[256], *name;
	const char *crate = "";
	size_t len;
	int err;

	if (name__crate_mangled(mangled, parts, buf, sizeof(buf)))
		return crate_id(s, buf, id);
	name = name__demangle(mangled, parts);
	if (!name)
		return -ENOMEM;
	len = name__crate(name, &crate);
	snprintf(buf, sizeof(buf), "%.*s", (int)(len < sizeof(buf) ? len : 0), crate);
	err = crate_id(s, buf, id);
	free(name);
	return err;
}

/* Whether that is the last part of a mangled name, but for the hash. */
static bool ends_in(const char *mangled, const struct name_parts *parts, const char *end)
{
	size_t len = parts->stem_len - (parts->hash ? strlen("17h0123456789abcdefE") : 0);

	return len >= strlen(end) && !memcmp(mangled + len - strlen(end), end, strlen(end));
}

/*
 * Where a runtime has just caught a panic or a C++ exception, or longjmp begins. When std's own is
 * inlined into its callers, what it calls first is left.
 */
static bool is_catch(const char *mangled, const struct name_parts *parts)
{
	static const char *const names[] = { "std::panicking::catch_unwind::cleanup",
					     "std::panicking::try::cleanup",
					     "__rustc::__rust_panic_cleanup",
					     "__rust_panic_cleanup" };
	bool yes = false;
	char *name;

	if (parts->lang == NAME_C &&
	    (!strcmp(mangled, "__cxa_begin_catch") || leaps__kind(mangled) == LEAP_JUMP))
		return true;
	if (!ends_in(mangled, parts, "cleanup"))
		return false;
	name = name__demangle(mangled, parts);
	for (size_t i = 0; name && i < sizeof(names) / sizeof(*names); i++)
		yes |= !strcmp(name, names[i]);
	free(name);
	return yes;
}

static int collect(struct scan *s)
{
	size_t cnt;
	const struct symbol *syms = image__symbols(s->img, &cnt);
	uint32_t id;
	int err = crate_id(s, "", &id);

	for (size_t i = 0; i < cnt && !err; i++) {
		struct candidate *c, cand = { .sym = &syms[i] };

		if (syms[i].type < SYMBOL_FUNC)
			continue;
		s->out->symbol_cnt++;
		cand.mangled = image__str(s->img, syms[i].name);
		name__split(cand.mangled, &cand.parts);
		if (cand.parts.cold)
			continue;
		if (is_catch(cand.mangled, &cand.parts)) {
			const struct symbol **slot = vec__push(&s->catches);

			if (!slot)
				return -ENOMEM;
			*slot = &syms[i];
			/* longjmp is a function like any other, but for what it leaves behind */
			if (leaps__kind(cand.mangled) != LEAP_JUMP)
				continue;
		}
		err = crate_of(s, cand.mangled, &cand.parts, &cand.crate);
		c = err ? NULL : vec__push(&s->all);
		if (!c)
			return -ENOMEM;
		*c = cand;
		s->crates.data[cand.crate].fn_cnt++;
	}
	return err;
}

/* Whether C's main takes the address of a function. */
static bool main_mentions(const struct image *img, uint64_t vaddr)
{
	size_t cnt, avail;
	const struct symbol *syms = image__symbols(img, &cnt);

	for (size_t i = 0; i < cnt; i++) {
		const uint8_t *p;
		struct insn in;

		if (syms[i].type != SYMBOL_FUNC || strcmp(image__str(img, syms[i].name), "main"))
			continue;
		p = image__bytes(img, syms[i].addr, &avail);
		for (uint64_t off = 0; p && off < syms[i].size && off < 256 && off < avail;) {
			uint64_t value = 0;

			if (!insn__decode(p + off, avail - off, syms[i].addr + off, &in))
				break;
			if (in.mem.base == INSN_RIP)
				image__pointer(img, (uint64_t)in.mem.disp, &value);
			if (in.mem.base == INSN_RIP &&
			    ((uint64_t)in.mem.disp == vaddr || value == vaddr))
				return true;
			if (in.imm && (uint64_t)in.imm == vaddr)
				return true;
			off += in.len;
		}
	}
	return false;
}

/* CRATE::main, and nothing else of that form */
static bool is_main(const struct scan *s, const struct candidate *c)
{
	const char *crate = s->crates.data[c->crate].name;
	size_t len = strlen(crate);
	char *name;
	bool yes;

	if (c->crate == NO_CRATE || !ends_in(c->mangled, &c->parts, "4main"))
		return false;
	name = name__demangle(c->mangled, &c->parts);
	yes = name && !strncmp(name, crate, len) && !strcmp(name + len, "::main");
	free(name);
	return yes;
}

static int find_main_crate(struct scan *s)
{
	const struct candidate *best = NULL;

	for (size_t i = 0; i < s->all.cnt; i++) {
		const struct candidate *c = &s->all.data[i];

		if (is_main(s, c) && (!best || main_mentions(s->img, c->sym->addr)))
			best = c;
	}
	if (!best)
		return 0;
	s->main_unit = image__str(s->img, best->sym->file);
	s->out->main_crate = strdup(s->crates.data[best->crate].name);
	return s->out->main_crate ? 0 : -ENOMEM;
}

/* The executable's name as a crate name. */
static int crate_from_exe(struct scan *s)
{
	const char *base = s->req->exe_name ? strrchr(s->req->exe_name, '/') : NULL;
	char *name;

	base = base ? base + 1 : s->req->exe_name;
	name = strdup(base ? base : "");
	if (!name)
		return -ENOMEM;
	for (char *p = name; *p; p++)
		if (*p == '-')
			*p = '_';
	for (size_t i = 1; i < s->crates.cnt; i++)
		if (!strcmp(s->crates.data[i].name, name)) {
			s->out->main_crate = name;
			return 0;
		}
	free(name);
	return 0;
}

static bool begins_with(const char *s, const char *stem)
{
	size_t len = strlen(stem);

	return !strncmp(s, stem, len) && (!s[len] || s[len] == '_');
}

/* bin mini_redis_server, lib mini_redis: one package */
static bool same_package(const char *crate, const char *main_crate)
{
	return begins_with(crate, main_crate) ||
	       (begins_with(main_crate, crate) && !select__is_library(crate));
}

static int no_such_crate(struct scan *s, const char *glob, char **reason)
{
	struct strbuf sb = STRBUF_INIT;

	strbuf__addf(&sb, "--crate '%s' matches nothing", glob);
	if (s->out->top_crates)
		strbuf__addf(&sb, "; crates with the most functions: %s", s->out->top_crates);
	*reason = strbuf__take(&sb);
	return -ENOENT;
}

static int choose_asked(struct scan *s, char **reason)
{
	for (size_t g = 0; g < s->req->crate_cnt; g++) {
		bool any = false;

		for (size_t i = 1; i < s->crates.cnt; i++) {
			struct crate *crate = &s->crates.data[i];

			if (!glob__match(s->req->crates[g], crate->name))
				continue;
			any = crate->chosen = true;
		}
		if (!any)
			return no_such_crate(s, s->req->crates[g], reason);
	}
	return 0;
}

static int choose_default(struct scan *s)
{
	const struct profile *profile = s->profile;
	int err = 0;

	s->out->by_default = true;
	if (!s->out->main_crate)
		err = crate_from_exe(s);
	for (size_t i = 1; !err && i < s->crates.cnt; i++) {
		struct crate *crate = &s->crates.data[i];

		crate->chosen = s->out->main_crate && same_package(crate->name, s->out->main_crate);
		if (profile && glob__match_any((const char *const *)profile->crates,
					       profile->crate_cnt, crate->name))
			crate->chosen = true;
	}
	return err;
}

static int by_count(const void *a, const void *b)
{
	const struct crate *const *x = a, *const *y = b;

	if ((*x)->fn_cnt != (*y)->fn_cnt)
		return (*x)->fn_cnt < (*y)->fn_cnt ? 1 : -1;
	return strcmp((*x)->name, (*y)->name);
}

/* A program may be called like a part of std: its own crate is none for that. */
static bool is_std_alone(const struct scan *s, const char *crate)
{
	return is_std(crate) && (!s->out->main_crate || strcmp(crate, s->out->main_crate) != 0);
}

static int list_top_crates(struct scan *s)
{
	VEC(const struct crate *) top = { NULL, 0, 0 };
	struct strbuf sb = STRBUF_INIT;

	for (size_t i = 1; i < s->crates.cnt; i++)
		if (!is_std_alone(s, s->crates.data[i].name)) {
			const struct crate **slot = vec__push(&top);

			if (!slot)
				break;
			*slot = &s->crates.data[i];
		}
	if (top.cnt)
		qsort(top.data, top.cnt, sizeof(*top.data), by_count);
	for (size_t i = 0; i < top.cnt && i < TOP_CRATES; i++)
		strbuf__addf(&sb, "%s%s (%zu)", i ? ", " : "", top.data[i]->name,
			     top.data[i]->fn_cnt);
	s->out->top_crates = top.cnt ? strbuf__take(&sb) : NULL;
	strbuf__free(&sb);
	vec__free(&top);
	return 0;
}

/* What the compiler adds: not functions of their own. */
static bool is_glue(const char *name)
{
	return !strncmp(name, "core::ptr::drop_in_place", 24) || strstr(name, "{shim:") ||
	       strstr(name, "{{vtable.shim}}");
}

static bool may_match(const struct candidate *c, const char *glob)
{
	const char *needle;
	size_t len;

	if (c->parts.lang != NAME_RUST)
		return true; /* cheap (C), or too many abbreviations to be sure (C++) */
	len = name__glob_needle(glob, &needle);
	return !len || memmem(c->mangled, c->parts.stem_len, needle, len);
}

/* foo means the default version only, foo@V1 and foo@@V2 just those. */
static bool has_name(const struct scan *s, const struct candidate *c, const char *name,
		     const char *glob)
{
	const char *version = image__str(s->img, c->sym->version);
	struct strbuf sb = STRBUF_INIT;
	bool yes = !c->sym->old && glob__match(glob, name);

	if (yes || !c->sym->version)
		return yes;
	strbuf__addf(&sb, "%s%s", name, version);
	yes = glob__match(glob, sb.s);
	strbuf__free(&sb);
	return yes;
}

static bool is_asked_for(struct scan *s, const struct candidate *c, char **name)
{
	bool any = false;

	for (size_t i = 0; i < s->req->function_cnt; i++) {
		if (!may_match(c, s->req->functions[i]))
			continue;
		if (!*name)
			*name = name__demangle(c->mangled, &c->parts);
		if (*name && has_name(s, c, *name, s->req->functions[i]))
			any = s->matched[i] = true;
	}
	return any;
}

static bool is_excluded(struct scan *s, const char *name)
{
	if (glob__match_any(s->req->excludes, s->req->exclude_cnt, name))
		return true;
	return s->profile && glob__match_any((const char *const *)s->profile->excludes,
					     s->profile->exclude_cnt, name);
}

static char *with_tag(const struct scan *s, char *name, const struct candidate *c)
{
	const struct name_parts *parts = &c->parts;
	struct strbuf sb = STRBUF_INIT;

	if (!name || (!parts->tag_len && !c->sym->version))
		return name;
	strbuf__adds(&sb, name);
	if (c->sym->version)
		strbuf__adds(&sb, image__str(s->img, c->sym->version));
	if (parts->tag_len)
		strbuf__addf(&sb, " [%.*s]", (int)parts->tag_len, parts->tag);
	free(name);
	return strbuf__take(&sb);
}

/*
 * A program that is called like a part of std has its functions from other units than that has
 * ("alloc.57fa48a3e9e9813a-cgu.0"); by their names they are one crate.
 */
static bool is_from_std(const struct scan *s, const struct candidate *c)
{
	const char *crate = s->crates.data[c->crate].name, *end;

	if (!s->out->by_default || !s->main_unit || !is_std(crate) || is_std_alone(s, crate))
		return false;
	end = strstr(s->main_unit, "-cgu.");
	return end && strncmp(image__str(s->img, c->sym->file), s->main_unit,
			      (size_t)(end - s->main_unit)) != 0;
}

static int pick(struct scan *s, const struct candidate *c)
{
	bool wanted = s->crates.data[c->crate].chosen && !is_from_std(s, c);
	struct pick *p;
	char *name = NULL;

	wanted |= is_asked_for(s, c, &name);
	if (wanted && !name)
		name = name__demangle(c->mangled, &c->parts);
	if (!wanted || (name && (is_glue(name) || is_excluded(s, name)))) {
		free(name);
		return 0;
	}
	name = with_tag(s, name, c);
	p = name ? vec__push(&s->picks) : NULL;
	if (!p) {
		free(name);
		return -ENOMEM;
	}
	*p = (struct pick){ c->sym, c->mangled, c->parts, name,
			    strdup(s->crates.data[c->crate].name) };
	return p->crate ? 0 : -ENOMEM;
}

static int keep_chosen(struct scan *s)
{
	struct selection *out = s->out;

	out->crates = calloc(s->crates.cnt + 1, sizeof(*out->crates));
	if (!out->crates)
		return -ENOMEM;
	for (size_t i = 0; i < s->crates.cnt; i++) {
		if (!s->crates.data[i].chosen)
			continue;
		out->crates[out->crate_cnt] = strdup(s->crates.data[i].name);
		if (!out->crates[out->crate_cnt++])
			return -ENOMEM;
	}
	return 0;
}

int select__run(const struct image *img, const struct plan_request *req,
		const struct profile *profile, struct selection *out, char **reason)
{
	struct scan s = { .img = img, .req = req, .profile = profile, .out = out };
	int err = 0;

	memset(out, 0, sizeof(*out));
	s.matched = calloc(req->function_cnt + 1, sizeof(*s.matched));
	if (!s.matched)
		err = -ENOMEM;
	if (!err)
		err = collect(&s);
	if (!err)
		err = find_main_crate(&s);
	if (!err)
		err = list_top_crates(&s);
	if (!err)
		err = req->crate_cnt || req->function_cnt || req->no_default
			      ? choose_asked(&s, reason)
			      : choose_default(&s);
	for (size_t i = 0; i < s.all.cnt && !err; i++)
		err = pick(&s, &s.all.data[i]);
	for (size_t i = req->function_cnt; i-- && !err;)
		if (!s.matched[i])
			out->unmatched = req->functions[i];
	if (!err)
		err = keep_chosen(&s);
	out->picks = s.picks.data;
	out->pick_cnt = s.picks.cnt;
	out->catches = s.catches.data;
	out->catch_cnt = s.catches.cnt;
	for (size_t i = 0; i < s.crates.cnt; i++)
		free(s.crates.data[i].name);
	vec__free(&s.crates);
	vec__free(&s.all);
	free(s.slots);
	out->matched = s.matched;
	return err;
}

void select__free(struct selection *sel)
{
	for (size_t i = 0; i < sel->pick_cnt; i++) {
		free(sel->picks[i].name);
		free(sel->picks[i].crate);
	}
	for (size_t i = 0; i < sel->crate_cnt; i++)
		free(sel->crates[i]);
	free(sel->picks);
	free(sel->crates);
	free(sel->catches);
	free(sel->matched);
	free(sel->main_crate);
	free(sel->top_crates);
	memset(sel, 0, sizeof(*sel));
}

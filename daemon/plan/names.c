// SPDX-License-Identifier: BSD-2-Clause
#include "plan/names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/jail.h"
#include "base/strbuf.h"
#include "symbols/cfi.h"
#include "symbols/debugfile.h"
#include "symbols/demangle.h"
#include "symbols/image.h"
#include "symbols/inlines.h"

#define WHAT "reading the names of functions"
#define DELETED " (deleted)"
/* A comfort: it must not make anybody wait. */
#define INLINES_LIMIT_NS (2 * 1000000000ull)
#define MAX_STEPS_BACK 64 /* labels inside a function */

struct finding {
	const struct names_request *req;
	const struct debug_candidates *debug;
};

/* ---- in the process without rights ---- */

/* One function may have several names: the plainest, and always the same one. */
static bool is_nicer(const struct image *img, const struct symbol *a, const struct symbol *b)
{
	const char *x = image__str(img, a->name), *y = image__str(img, b->name);

	if ((a->bind == SYMBOL_LOCAL) != (b->bind == SYMBOL_LOCAL))
		return a->bind != SYMBOL_LOCAL;
	if (strlen(x) != strlen(y))
		return strlen(x) < strlen(y);
	return strcmp(x, y) < 0;
}

static const struct symbol *nicest_at(const struct image *img, uint64_t addr)
{
	size_t cnt, i = image__lower_bound(img, addr);
	const struct symbol *syms = image__symbols(img, &cnt), *best = NULL;

	for (; i < cnt && syms[i].addr == addr; i++)
		if (syms[i].type >= SYMBOL_FUNC && (!best || is_nicer(img, &syms[i], best)))
			best = &syms[i];
	return best;
}

/*
 * The function symbol that covers an address. One without a size does if the unwind table says that
 * its function begins there.
 */
static const struct symbol *symbol_of(const struct image *img, uint64_t vaddr, uint64_t fde_start)
{
	size_t cnt, i = image__lower_bound(img, vaddr + 1), steps = 0;
	const struct symbol *syms = image__symbols(img, &cnt);

	while (i-- && steps++ < MAX_STEPS_BACK) {
		const struct symbol *s = &syms[i];

		if (s->type < SYMBOL_FUNC)
			continue;
		if (vaddr - s->addr < s->size || (!s->size && s->addr == fde_start))
			return nicest_at(img, s->addr);
	}
	return NULL;
}

static void put_str(struct strbuf *out, const char *s)
{
	strbuf__add(out, s, strlen(s) + 1);
}

static void put_name(struct strbuf *out, const char *symbol)
{
	const char *crate = "";
	struct name_parts parts;
	size_t len = 0;
	char *name;

	name__split(symbol, &parts);
	name = name__demangle(symbol, &parts);
	put_str(out, symbol);
	put_str(out, name ? name : symbol);
	strbuf__addc(out, parts.lang == NAME_RUST ? 1 : 0);
	if (name && parts.lang == NAME_RUST)
		len = name__crate(name, &crate);
	strbuf__add(out, crate, len);
	strbuf__addc(out, '\0');
	free(name);
}

/* By the addresses' order in the request; NULL: nothing is known of inlined functions. */
static const struct inlines_of **find_inlined(const struct names_request *req, int dwarf_fd,
					      struct inlines_of **all)
{
	const struct inlines_of **by_id = NULL;

	*all = dwarf_fd >= 0 && req->inlined ? calloc(req->cnt, sizeof(**all)) : NULL;
	if (!*all)
		return NULL;
	for (size_t i = 0; i < req->cnt; i++)
		(*all)[i] = (struct inlines_of){ .vaddr = req->vaddrs[i], .id = (uint32_t)i };
	inlines__find(dwarf_fd, *all, req->cnt, INLINES_LIMIT_NS);
	by_id = calloc(req->cnt, sizeof(*by_id));
	for (size_t i = 0; by_id && i < req->cnt; i++)
		by_id[(*all)[i].id] = &(*all)[i];
	return by_id;
}

static void put_inlined(struct strbuf *out, const struct inlines_of *of)
{
	strbuf__addc(out, of ? (char)of->cnt : 0);
	for (uint32_t i = 0; of && i < of->cnt; i++)
		put_name(out, of->symbols[i]);
}

static void name_all(const struct image *img, const struct names_request *req, int dwarf_fd,
		     struct strbuf *out)
{
	struct inlines_of *all;
	const struct inlines_of **inlined = find_inlined(req, dwarf_fd, &all);

	for (size_t i = 0; i < req->cnt; i++) {
		struct cfi_fde fde = {};
		const struct symbol *sym;
		uint64_t start;

		cfi__find(img, req->vaddrs[i], &fde);
		sym = symbol_of(img, req->vaddrs[i], fde.start);
		/* a handler returns to where nothing was called: the byte before is no one's */
		if (!sym && fde.signal)
			sym = symbol_of(img, req->vaddrs[i] + 1, fde.start + 1);
		start = sym ? sym->addr : fde.start;
		strbuf__add(out, &start, sizeof(start));
		strbuf__addc(out, sym ? 1 : 0);
		if (sym)
			put_name(out, image__str(img, sym->name));
		put_inlined(out, inlined ? inlined[i] : NULL);
	}
	free(inlined);
	if (all)
		inlines__free(all, req->cnt);
}

/* The crate of the program itself: that of a Rust function CRATE::main. */
static void put_main_crate(const struct image *img, struct strbuf *out)
{
	size_t cnt;
	const struct symbol *syms = image__symbols(img, &cnt);

	for (size_t i = 0; i < cnt; i++) {
		const char *symbol = image__str(img, syms[i].name), *end;
		struct name_parts parts;
		char *name;

		if (syms[i].type < SYMBOL_FUNC || !strstr(symbol, "4main"))
			continue;
		name__split(symbol, &parts);
		name = parts.lang == NAME_RUST ? name__demangle(symbol, &parts) : NULL;
		end = name ? strstr(name, "::") : NULL;
		if (end && !strcmp(end, "::main")) {
			strbuf__add(out, name, (size_t)(end - name));
			free(name);
			break;
		}
		free(name);
	}
	strbuf__addc(out, '\0');
}

static int find(void *arg, struct strbuf *reply, char **reason)
{
	const struct finding *f = arg;
	struct image *img;
	int err = image__open(f->req->fd, &img, reason), dwarf_fd = -1;

	if (err)
		return err;
	if (image__has_dwarf(img))
		dwarf_fd = f->req->fd;
	for (size_t i = 0, used = 0; i < f->debug->cnt && !used; i++) {
		const struct debug_candidate *c = &f->debug->data[i];
		char *why = NULL;

		used = !image__add_debug(img, c->fd, c->linked ? &f->debug->link_crc : NULL, &why);
		if (used && dwarf_fd < 0)
			dwarf_fd = c->fd;
		free(why);
	}
	put_main_crate(img, reply);
	name_all(img, f->req, dwarf_fd, reply);
	image__free(img);
	return 0;
}

static int read_wish(void *arg, struct strbuf *reply, char **reason)
{
	struct debug_wish wish;

	debug_wish__read(*(int *)arg, &wish);
	strbuf__add(reply, &wish, sizeof(wish));
	return 0;
}

/* ---- in ours ---- */

/* The child may have been taken over by the file: what it says are strings, and no paths. */
static bool is_sound(const struct debug_wish *w)
{
	return memchr(w->build_id, '\0', sizeof(w->build_id)) &&
	       memchr(w->link, '\0', sizeof(w->link)) && !strchr(w->link, '/') &&
	       strspn(w->build_id, "0123456789abcdef") == strlen(w->build_id);
}

static int find_debug(const struct names_request *req, struct debug_candidates *out, char **reason)
{
	struct strbuf reply = STRBUF_INIT;
	struct debug_wish wish;
	size_t len = strlen(req->path), tail = strlen(DELETED);
	char *path;
	int err = jail__run(read_wish, (void *)&req->fd, WHAT, &reply, reason);

	if (!err && reply.len != sizeof(wish))
		err = -EPROTO;
	if (!err)
		memcpy(&wish, reply.s, sizeof(wish));
	strbuf__free(&reply);
	if (err || !is_sound(&wish))
		return err ?: -EPROTO;
	if (len > tail && !strcmp(req->path + len - tail, DELETED))
		len -= tail;
	path = strndup(req->path, len);
	if ((!wish.has_symbols || (req->inlined && !wish.has_dwarf)) && path && *path == '/')
		err = debugfile__find(&wish, req->root ? req->root : "/", path, out);
	free(path);
	if (!err && req->debug_file)
		err = debugfile__add_asked(req->debug_file, out);
	return err;
}

struct reader {
	const char *at, *end;
	bool bad;
};

static const char *get_str(struct reader *r)
{
	const char *s = r->at, *end = memchr(s, '\0', (size_t)(r->end - s));

	if (!end) {
		r->bad = true;
		return "";
	}
	r->at = end + 1;
	return s;
}

static uint8_t get_byte(struct reader *r)
{
	if (r->at >= r->end) {
		r->bad = true;
		return 0;
	}
	return (uint8_t)*r->at++;
}

/* False: no memory. */
static bool get_name(struct reader *r, struct arena *arena, struct name *out)
{
	out->symbol = arena__strdup(arena, get_str(r));
	out->name = arena__strdup(arena, get_str(r));
	out->rust = get_byte(r);
	out->crate = arena__strdup(arena, get_str(r));
	return out->symbol && out->name && out->crate;
}

static bool get_inlined(struct reader *r, struct arena *arena, struct name *out)
{
	struct name *list;

	out->inlined_cnt = get_byte(r);
	if (!out->inlined_cnt)
		return true;
	out->inlined = list = arena__alloc(arena, out->inlined_cnt * sizeof(*list));
	for (uint32_t i = 0; list && i < out->inlined_cnt && !r->bad; i++)
		if (!get_name(r, arena, &list[i]))
			return false;
	return list;
}

static int unpack(const struct strbuf *reply, struct arena *arena, struct name *out, size_t cnt,
		  const char **main_crate)
{
	struct reader r = { .at = reply->s, .end = reply->s + reply->len };

	*main_crate = arena__strdup(arena, get_str(&r));
	if (!*main_crate)
		return -ENOMEM;
	for (size_t i = 0; i < cnt && !r.bad; i++) {
		struct name n = {};

		if ((size_t)(r.end - r.at) < sizeof(n.start))
			return -EPROTO;
		memcpy(&n.start, r.at, sizeof(n.start));
		r.at += sizeof(n.start);
		n.crate = "";
		if (get_byte(&r) && !get_name(&r, arena, &n))
			return -ENOMEM;
		if (!get_inlined(&r, arena, &n))
			return -ENOMEM;
		out[i] = n;
	}
	return r.bad || r.at != r.end ? -EPROTO : 0;
}

int names__find_isolated(const struct names_request *req, struct arena *arena, struct name *out,
			 const char **main_crate, char **reason)
{
	struct strbuf reply = STRBUF_INIT;
	struct debug_candidates debug = {};
	struct finding f = { req, &debug };
	int err;

	*reason = NULL;
	err = find_debug(req, &debug, reason);
	if (!err)
		err = jail__run(find, &f, WHAT, &reply, reason);
	if (!err)
		err = unpack(&reply, arena, out, req->cnt, main_crate);
	if (err)
		memset(out, 0, req->cnt * sizeof(*out));
	strbuf__free(&reply);
	debugfile__free(&debug);
	if (err && !*reason)
		*reason = strdup(strerror(-err));
	return err;
}

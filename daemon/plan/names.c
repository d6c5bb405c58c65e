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

#define WHAT "reading the names of functions"
#define DELETED " (deleted)"
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

static void put_name(struct strbuf *out, const struct image *img, const struct symbol *sym)
{
	const char *symbol = image__str(img, sym->name), *crate = "";
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

static void name_all(const struct image *img, const struct names_request *req, struct strbuf *out)
{
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
			put_name(out, img, sym);
	}
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
	int err = image__open(f->req->fd, &img, reason);

	if (err)
		return err;
	for (size_t i = 0; f->debug && i < f->debug->cnt && image__source(img) != SYMBOLS_OWN &&
			   image__source(img) != SYMBOLS_SEPARATE;
	     i++) {
		const struct debug_candidate *c = &f->debug->data[i];
		char *why = NULL;

		image__add_debug(img, c->fd, c->linked ? &f->debug->link_crc : NULL, &why);
		free(why);
	}
	put_main_crate(img, reply);
	name_all(img, f->req, reply);
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
	if (!wish.has_symbols && path && *path == '/')
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
		if (get_byte(&r)) {
			n.symbol = arena__strdup(arena, get_str(&r));
			n.name = arena__strdup(arena, get_str(&r));
			n.rust = get_byte(&r);
			n.crate = arena__strdup(arena, get_str(&r));
			if (!n.symbol || !n.name || !n.crate)
				return -ENOMEM;
		}
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

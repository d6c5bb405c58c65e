// SPDX-License-Identifier: BSD-2-Clause
#include "plan/sources.h"

#include <stdio.h>

#include "base/glob.h"
#include "base/strbuf.h"
#include "base/vec.h"
#include "symbols/demangle.h"

#define DELETED " (deleted)"
#define MAX_OBJECTS 40 /* each takes a batch of probes of its own */
#define NAMES_SHOWN 8

size_t sources__lib_len(const char *function)
{
	for (const char *p = function; (p = strchr(p, ':')); p++) {
		if (p[1] != ':')
			return (size_t)(p - function);
		while (p[1] == ':')
			p++;
	}
	return 0;
}

/* The path as it was before the file was deleted. */
static char *whole_path(const char *path)
{
	size_t len = strlen(path), tail = strlen(DELETED);

	if (len > tail && !strcmp(path + len - tail, DELETED))
		len -= tail;
	return strndup(path, len);
}

static char *base_name(const char *path)
{
	char *whole = whole_path(path), *slash = whole ? strrchr(whole, '/') : NULL, *name;

	name = slash ? strdup(slash + 1) : whole;
	if (slash)
		free(whole);
	return name;
}

static bool means(const char *function, size_t len, const char *path, const char *name,
		  const char *soname)
{
	char *lib = strndup(function, len);
	bool yes = lib && (strchr(lib, '/') ? glob__match(lib, path)
					    : glob__match(lib, name) ||
						      (*soname && glob__match(lib, soname)));

	free(lib);
	return yes;
}

const char *sources__glob(const struct source *s, const char *function)
{
	size_t len = sources__lib_len(function);

	if (!len)
		return s->index ? NULL : function;
	return means(function, len, s->path, s->name, s->wish.soname) ? function + len + 1 : NULL;
}

static bool is_meant(const struct source *s, const struct plan_request *req)
{
	for (size_t i = 0; i < req->function_cnt; i++)
		if (sources__glob(s, req->functions[i]))
			return true;
	return false;
}

/* A LIB that is not there: the names that are. */
static int no_such_lib(const struct plan_input *in, const char *function, char **reason)
{
	struct strbuf sb = STRBUF_INIT;

	strbuf__addf(&sb, "--function '%s': no mapped file is called '%.*s' (mapped:", function,
		     (int)sources__lib_len(function), function);
	for (size_t i = 0; i < in->source_cnt && i < NAMES_SHOWN; i++) {
		char *name = base_name(in->sources[i].path);

		strbuf__addf(&sb, "%s %s", i ? "," : "", name ? name : "?");
		free(name);
	}
	strbuf__adds(&sb, in->source_cnt > NAMES_SHOWN ? ", ...)" : ")");
	*reason = strbuf__take(&sb);
	return -ENOENT;
}

static int check_libs(const struct plan_input *in, const struct sources *s,
		      const struct plan_request *req, char **reason)
{
	for (size_t i = 0; i < req->function_cnt; i++) {
		bool any = false;

		for (size_t k = 0; k < s->cnt; k++)
			any |= sources__glob(&s->data[k], req->functions[i]) != NULL;
		if (!any)
			return no_such_lib(in, req->functions[i], reason);
	}
	if (s->cnt <= MAX_OBJECTS)
		return 0;
	if (asprintf(reason, "--function means %zu libraries: %d are possible", s->cnt,
		     MAX_OBJECTS) < 0)
		*reason = NULL;
	return -ENOENT;
}

/* Files of one name are told apart by their paths: rows are called after them. */
static int label(struct sources *s)
{
	for (size_t i = 0; i < s->cnt; i++) {
		struct source *src = &s->data[i];
		bool alone = true;

		for (size_t k = 1; k < s->cnt && i; k++)
			alone &= k == i || strcmp(src->name, s->data[k].name);
		src->label = strdup(alone ? src->name : src->path);
		if (!src->label)
			return -ENOMEM;
	}
	return 0;
}

/* Where what is meant goes when it leaves functions otherwise than by returning: seen there. */
static unsigned int ways_of(const struct plan_input *in, const struct debug_wish *wishes,
			    const struct plan_request *req)
{
	unsigned int ways = 0;

	for (size_t i = 0; i < in->source_cnt; i++) {
		struct source s = { .path = in->sources[i].path,
				    .index = (uint32_t)i,
				    .wish = wishes[i],
				    .name = base_name(in->sources[i].path) };

		if (s.name && (!i || is_meant(&s, req)))
			ways |= wishes[i].ways_taken;
		free(s.name);
	}
	return req->exe_only ? 0 : ways;
}

int sources__choose(const struct plan_input *in, const struct debug_wish *wishes,
		    const struct plan_request *req, struct sources *out, char **reason)
{
	unsigned int ways = ways_of(in, wishes, req);

	memset(out, 0, sizeof(*out));
	for (size_t i = 0; i < in->source_cnt; i++) {
		struct source *s = vec__push(out);

		if (!s)
			return -ENOMEM;
		s->fd = in->sources[i].fd;
		s->path = in->sources[i].path;
		s->index = (uint32_t)i;
		s->wish = wishes[i];
		s->name = base_name(s->path);
		if (!s->name)
			return -ENOMEM;
		s->meant = !i || is_meant(s, req);
		if (!s->meant && !(req->memory && s->wish.allocates) &&
		    !(s->wish.ways_given & ways)) {
			free(s->name);
			out->cnt--;
		}
	}
	return label(out) ?: check_libs(in, out, req, reason);
}

int sources__find_debug(const struct plan_input *in, struct sources *s, char **reason)
{
	int err = 0;

	for (size_t i = 0; i < s->cnt && !err; i++) {
		struct source *src = &s->data[i];
		char *path = src->meant ? whole_path(src->path) : NULL;

		if (!src->meant)
			continue;
		if (!path)
			return -ENOMEM;
		if (!src->wish.has_symbols || !src->wish.has_dwarf)
			err = debugfile__find(&src->wish, in->root ? in->root : "/", path,
					      &src->debug);
		free(path);
	}
	if (err || !in->debug_file)
		return err;
	err = debugfile__add_asked(in->debug_file, &s->data[0].debug);
	if (err && asprintf(reason, "--debug-file '%s': %s", in->debug_file,
			    err == -EINVAL ? "not a plain file" : strerror(-err)) < 0)
		*reason = NULL;
	return err ? -EINVAL : 0;
}

void sources__free(struct sources *s)
{
	for (size_t i = 0; i < s->cnt; i++) {
		free(s->data[i].name);
		free(s->data[i].label);
		debugfile__free(&s->data[i].debug);
	}
	vec__free(s);
}

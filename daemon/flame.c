/* SPDX-License-Identifier: BSD-2-Clause */
#include "flame.h"

#include <string.h>

#include "base/log.h"
#include "base/strbuf.h"
#include "export/flame.h"
#include "options.h"
#include "outputs.h"
#include "saved.h"
#include "snapshot/snapshot.h"

static int find_kind(const char *word, enum flame_kind *out)
{
	struct strbuf known = STRBUF_INIT;

	*out = FLAME_ANY;
	if (!word)
		return CODE_OK;
	if (flame__find_kind(word, strlen(word), out))
		return CODE_OK;
	for (int i = 0; i < FLAME_CNT; i++)
		strbuf__addf(&known, "%s%s", i ? ", " : "", flame_infos[i].word);
	log_error("--kind is one of %s: '%s'", known.s, word);
	strbuf__free(&known);
	return CODE_USAGE;
}

/* By the names of threads, or not: of what has no stacks it cannot be said. */
static bool by_thread(const struct snapshot_profile *p, bool *is)
{
	if (!p || !p->stacks.cnt)
		return false;
	*is = p->stacks.data[0].thread != NULL;
	return true;
}

/* Threads are roots: with them in one file alone no stack would be in both. */
static int check_roots(const struct options *opts, struct snapshot *const *s)
{
	bool now, old;

	for (int kind = 0; kind < PROFILE_CNT; kind++) {
		if (!s[0]->profiles || !s[1]->profiles ||
		    !by_thread(s[0]->profiles->of[kind], &now) ||
		    !by_thread(s[1]->profiles->of[kind], &old) || now == old)
			continue;
		log_error("'%s' was recorded with --by-thread, '%s' without: no stack of the one "
			  "is in the other",
			  now ? opts->file : opts->diff, now ? opts->diff : opts->file);
		return CODE_USAGE;
	}
	return CODE_OK;
}

static const char *base_name(const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL;

	return slash ? slash + 1 : path ?: "";
}

static bool is_named(const char *name)
{
	return *name && strcmp(name, "?") != 0;
}

static void compare_programs(const struct options *opts, struct snapshot *const *s)
{
	const char *now = base_name(s[0]->target.exe), *old = base_name(s[1]->target.exe);

	if (is_named(now) && is_named(old) && strcmp(now, old) != 0)
		log_warn("'%s' is of %s, '%s' of %s: the difference is of two programs", opts->file,
			 now, opts->diff, old);
}

/* A page has all kinds that both have. */
static void compare_kinds(const struct options *opts, struct snapshot *const *s)
{
	unsigned int missing = flame__kinds(s[0]) & ~flame__kinds(s[1]);
	struct strbuf list = STRBUF_INIT;

	for (int i = 0; i < FLAME_CNT; i++)
		if (missing & 1u << i)
			strbuf__addf(&list, "%s%s", list.len ? ", " : "", flame_infos[i].word);
	if (list.len)
		log_warn("'%s' has no %s: left out of the difference", opts->diff, list.s);
	strbuf__free(&list);
}

static int check_both(const struct outputs *o, const struct options *opts,
		      struct snapshot *const *s)
{
	int code = outputs__check_kinds(o, s[0], opts->file, true);

	if (code || !opts->diff)
		return code;
	code = outputs__check_kinds(o, s[1], opts->diff, true);
	if (!code && !(flame__kinds(s[0]) & flame__kinds(s[1]))) {
		log_error("'%s' and '%s' have no kind of stacks in common", opts->diff, opts->file);
		code = CODE_USAGE;
	}
	code = code ?: check_roots(opts, s);
	if (code)
		return code;
	compare_programs(opts, s);
	compare_kinds(opts, s);
	return CODE_OK;
}

int flame__run(const struct options *opts)
{
	const char *const paths[] = { opts->file, opts->diff };
	struct snapshot *s[2] = {};
	struct outputs outputs = {};
	enum flame_kind kind;
	int code = find_kind(opts->kind, &kind);

	code = code ?: outputs__open(&outputs, opts);
	code = code ?: outputs__check_flames(&outputs, opts->diff != NULL, kind);
	code = code ?: saved__load(paths, opts->diff ? 2 : 1, s);
	code = code ?: check_both(&outputs, opts, s);
	code = code ?: outputs__write_flames(&outputs, s[0], s[1]);
	if (!code)
		outputs__say_written(&outputs);
	snapshot__free(s[0]);
	snapshot__free(s[1]);
	outputs__free(&outputs);
	return code;
}

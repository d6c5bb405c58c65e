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
	for (int i = 0; i < FLAME_CNT; i++) {
		if (!strcmp(flame_infos[i].word, word)) {
			*out = (enum flame_kind)i;
			strbuf__free(&known);
			return CODE_OK;
		}
		strbuf__addf(&known, "%s%s", i ? ", " : "", flame_infos[i].word);
	}
	log_error("--kind is one of %s: '%s'", known.s, word);
	strbuf__free(&known);
	return CODE_USAGE;
}

/* That a file has what is asked for; of none in particular, that it has any. */
static int check_kind(const struct snapshot *s, const char *path, enum flame_kind kind)
{
	unsigned int kinds = flame__kinds(s);
	struct strbuf has = STRBUF_INIT;

	if (kind == FLAME_ANY ? kinds : kinds & 1u << kind)
		return CODE_OK;
	for (int i = 0; i < FLAME_CNT; i++)
		if (kinds & 1u << i)
			strbuf__addf(&has, "%s%s", has.len ? ", " : "", flame_infos[i].word);
	if (kind == FLAME_ANY)
		log_error("'%s' has no stacks to show: neither a profile nor calls", path);
	else
		log_error("'%s' has no %s (recorded with %s); it has: %s", path,
			  flame_infos[kind].title, flame_infos[kind].how, has.len ? has.s : "none");
	strbuf__free(&has);
	return CODE_USAGE;
}

static int check_both(const struct flame_ask *ask, const struct options *opts)
{
	int code = check_kind(ask->s, opts->file, ask->kind);

	if (code || !ask->old)
		return code;
	code = check_kind(ask->old, opts->diff, ask->kind);
	if (!code && !(flame__kinds(ask->s) & flame__kinds(ask->old))) {
		log_error("'%s' and '%s' have no kind of stacks in common", opts->diff, opts->file);
		code = CODE_USAGE;
	}
	return code;
}

int flame__run(const struct options *opts)
{
	const char *const paths[] = { opts->file, opts->diff };
	struct snapshot *s[2] = {};
	struct outputs outputs = {};
	struct flame_ask ask;
	int code = find_kind(opts->kind, &ask.kind);

	code = code ?: outputs__open(&outputs, opts);
	code = code ?: outputs__check_flames(&outputs, opts->diff != NULL);
	code = code ?: saved__load(paths, opts->diff ? 2 : 1, s);
	ask.s = s[0];
	ask.old = s[1];
	code = code ?: check_both(&ask, opts);
	code = code ?: outputs__write_flames(&outputs, &ask);
	if (!code)
		outputs__say_written(&outputs);
	snapshot__free(s[0]);
	snapshot__free(s[1]);
	outputs__free(&outputs);
	return code;
}

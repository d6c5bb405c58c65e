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
	return code;
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

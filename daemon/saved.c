/* SPDX-License-Identifier: BSD-2-Clause */
#include "saved.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/fs.h"
#include "base/glob.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "options.h"
#include "outputs.h"
#include "snapshot/read.h"
#include "snapshot/snapshot.h"
#include "ui/report.h"

/* 10,000 busy functions are a sixth of that. */
#define MAX_FILE_BYTES (64u << 20)

/*
 * A document of empty objects would take a hundred times its length as a tree; one that we wrote
 * takes less than 20 times. AddressSanitizer reserves address space beyond any limit.
 */
static void limit_memory(size_t doc_bytes)
{
#ifndef __SANITIZE_ADDRESS__
	rlim_t bytes = (256u << 20) + (rlim_t)doc_bytes * 24;
	struct rlimit limit;

	if (!getrlimit(RLIMIT_AS, &limit) && bytes < limit.rlim_cur) {
		limit.rlim_cur = bytes;
		(void)setrlimit(RLIMIT_AS, &limit);
	}
#endif
}

static int read_text(const char *path, struct strbuf *text)
{
	int err = fs__read_max(strcmp(path, "-") ? path : "/dev/stdin", MAX_FILE_BYTES, text);

	if (err == -EFBIG)
		log_error("'%s' is no snapshot: larger than any (%u MiB)", path,
			  MAX_FILE_BYTES >> 20);
	else if (err)
		log_error("cannot read '%s': %s", path, strerror(-err));
	return err == -EFBIG ? CODE_USAGE : err ? CODE_FAILED : CODE_OK;
}

static int parse(const char *path, const struct strbuf *text, struct snapshot **out)
{
	struct strbuf reason = STRBUF_INIT;
	int err = snapshot__read(text->s, text->len, out, &reason);

	if (err == -EINVAL)
		log_error("'%s' is no snapshot: %s", path, reason.s);
	else if (err)
		log_error("cannot read '%s': %s", path, strerror(-err));
	strbuf__free(&reason);
	return err == -EINVAL ? CODE_USAGE : err ? CODE_FAILED : CODE_OK;
}

/* Memory is limited once, by all of them: a limit that is lowered later may be below what is used.
 */
int saved__load(const char *const *paths, size_t cnt, struct snapshot **out)
{
	struct strbuf texts[SAVED_MAX];
	size_t bytes = 0;
	int code = CODE_OK;

	for (size_t i = 0; i < cnt; i++)
		texts[i] = (struct strbuf)STRBUF_INIT;
	for (size_t i = 0; i < cnt && !code; i++) {
		code = read_text(paths[i], &texts[i]);
		bytes += texts[i].len;
	}
	if (!code)
		limit_memory(bytes);
	for (size_t i = 0; i < cnt && !code; i++)
		code = parse(paths[i], &texts[i], &out[i]);
	for (size_t i = 0; i < cnt; i++)
		strbuf__free(&texts[i]);
	return code;
}

/* A glob that matches nothing is a mistake, as in tracing. */
static int check_globs(const struct snapshot *s, const struct str_list *globs, const char *option,
		       bool crates)
{
	for (size_t g = 0; g < globs->cnt; g++) {
		bool any = false;

		for (size_t i = 0; i < s->fn_cnt && !any; i++)
			any = glob__match(globs->data[g],
					  crates ? s->fns[i].crate : s->fns[i].name);
		if (!any) {
			log_error("--%s '%s' matches nothing in this snapshot", option,
				  globs->data[g]);
			return CODE_USAGE;
		}
	}
	return CODE_OK;
}

static int filter(struct snapshot *s, const struct options *opts, size_t *left_out)
{
	struct snapshot_filter f = {
		.functions = opts->functions.data,
		.function_cnt = opts->functions.cnt,
		.crates = opts->crates.data,
		.crate_cnt = opts->crates.cnt,
		.excludes = opts->excludes.data,
		.exclude_cnt = opts->excludes.cnt,
	};
	size_t all = snapshot__probed(s);
	int code = check_globs(s, &opts->functions, "function", false);

	code = code ?: check_globs(s, &opts->crates, "crate", true);
	if (!code && snapshot__keep(s, &f)) {
		log_error("out of memory");
		code = CODE_FAILED;
	}
	*left_out = all - snapshot__probed(s);
	if (!code && *left_out && !s->fn_cnt) {
		log_error("--exclude leaves no function of this snapshot");
		code = CODE_USAGE;
	}
	return code;
}

static int print(const struct snapshot *s, const struct report_opts *ro)
{
	int err = report__print(s, ro, stdout);

	if (!err)
		return CODE_OK;
	log_error("cannot write the report: %s", strerror(-err));
	return CODE_FAILED;
}

int saved__report(const struct options *opts)
{
	struct report_opts ro = outputs__report_opts(opts);
	struct outputs outputs = {};
	struct snapshot *s = NULL;
	int code = outputs__open(&outputs, opts);

	code = code ?: saved__load(&opts->file, 1, &s);
	code = code ?: outputs__check_kinds(&outputs, s, opts->file, false);
	code = code ?: filter(s, opts, &ro.left_out);
	ro.chosen = opts->functions.cnt || opts->crates.cnt;
	if (!code && outputs.cnt) {
		code = outputs__write(&outputs, s, true);
		if (!code)
			outputs__say_written(&outputs);
	} else if (!code) {
		code = print(s, &ro);
	}
	snapshot__free(s);
	outputs__free(&outputs);
	return code;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "outputs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "base/vec.h"
#include "codes.h"
#include "export/export.h"
#include "naming.h"
#include "options.h"

struct output {
	char *spec;
	struct export_dest dest;
	bool stream; /* takes one document, at the end */
};

static bool is_stream(const char *path)
{
	struct stat st;

	return !strcmp(path, "-") || (!stat(path, &st) && !S_ISREG(st.st_mode));
}

static bool is_stdout(const char *path)
{
	struct stat a, b;

	if (!strcmp(path, "-"))
		return true;
	return !stat(path, &a) && !fstat(STDOUT_FILENO, &b) && a.st_dev == b.st_dev &&
	       a.st_ino == b.st_ino && !S_ISREG(a.st_mode) && strcmp(path, "/dev/null");
}

static int add(struct outputs *o, const char *spec)
{
	struct strbuf reason = STRBUF_INIT;
	struct export_dest dest;
	struct output *slot;
	int err = export__find(spec, &dest, &reason);

	if (err) {
		log_error("%s", reason.s);
		strbuf__free(&reason);
		return CODE_USAGE;
	}
	for (size_t i = 0; i < o->cnt; i++)
		if (export__same_place(&o->data[i].dest, &dest)) {
			log_error("-o '%s' and -o '%s' write to the same place", o->data[i].spec,
				  spec);
			return CODE_USAGE;
		}
	err = strcmp(dest.path, "-") ? fs__can_write(dest.path) : 0;
	if (err) {
		log_error("cannot write '%s': %s", dest.path, strerror(-err));
		return CODE_FAILED;
	}
	slot = vec__push(o);
	if (!slot || !(slot->spec = strdup(spec))) {
		log_error("out of memory");
		return CODE_FAILED;
	}
	dest.path = slot->spec + (dest.path - spec);
	slot->dest = dest;
	slot->stream = is_stream(dest.path);
	o->on_stdout |= is_stdout(dest.path);
	return CODE_OK;
}

int outputs__open(struct outputs *o, const struct options *opts)
{
	int code = CODE_OK;

	for (size_t i = 0; i < opts->outputs.cnt && !code; i++)
		code = add(o, opts->outputs.data[i]);
	return code;
}

/* That stacks which are asked for by their kind are going to be recorded. */
static int check_recorded(const struct output *out, const struct options *opts)
{
	const bool recorded[] = {
		[FLAME_CPU] = opts->cpu_profile_hz,
		[FLAME_CALLS] = !opts->no_functions,
		[FLAME_OFF_CPU] = opts->off_cpu,
		[FLAME_WAKERS] = opts->wakers,
		[FLAME_LIVE] = opts->memory == OPTION_MEMORY_STACKS,
		[FLAME_ALLOC] = opts->memory == OPTION_MEMORY_STACKS,
		[FLAME_LIVE_CALLS] = opts->memory == OPTION_MEMORY_STACKS,
		[FLAME_ALLOC_CALLS] = opts->memory == OPTION_MEMORY_STACKS,
		[FLAME_MAPPED] = opts->growth_given,
		[FLAME_FAULTS] = opts->growth_given,
	};
	enum flame_kind kind = out->dest.kind;

	if (kind == FLAME_ANY || recorded[kind])
		return CODE_OK;
	log_error("-o '%s': %s is recorded with %s", out->spec, flame_infos[kind].title,
		  flame_infos[kind].how);
	return CODE_USAGE;
}

int outputs__check(const struct options *opts, bool *on_stdout)
{
	struct outputs o = {};
	int code = outputs__open(&o, opts);

	*on_stdout = o.on_stdout;
	for (size_t i = 0; i < o.cnt && !code; i++)
		code = check_recorded(&o.data[i], opts);

	for (size_t i = 0; i < o.cnt && !code && opts->pids.cnt > 1; i++) {
		if (!o.data[i].stream || !strcmp(o.data[i].dest.path, "/dev/null"))
			continue;
		log_error("several --pid write a file each: not to '%s'", o.data[i].dest.path);
		code = CODE_USAGE;
	}
	outputs__free(&o);
	return code;
}

/* A scraper wants the process that runs, in one file. */
static bool keeps_its_name(const struct options *opts, const struct export_dest *dest)
{
	return opts->pids.cnt < 2 && (!opts->follow || dest->exporter == &export_prom);
}

/* The pid goes before ".svg", and before ".live.svg" too. */
static char *name_of_run(const char *spec, const struct export_dest *dest, const struct run_name *n)
{
	size_t path_at = (size_t)(dest->path - spec), len = strlen(dest->path);
	const char *suffix = dest->exporter->suffix;
	struct strbuf longer = STRBUF_INIT;
	char *name;

	if (dest->kind != FLAME_ANY)
		strbuf__addf(&longer, ".%s%s", flame_infos[dest->kind].word, suffix);
	if (longer.len && len > longer.len && !strcmp(dest->path + len - longer.len, longer.s))
		suffix = longer.s;
	name = longer.oom ? NULL : naming__of_run(spec, path_at, suffix, n);
	strbuf__free(&longer);
	return name;
}

static int add_run(struct outputs *o, const struct options *opts, const char *spec,
		   const struct run_name *n)
{
	struct strbuf reason = STRBUF_INIT;
	struct export_dest dest;
	char *name;
	int code;

	if (!spec)
		name = naming__default(n);
	else if (export__find(spec, &dest, &reason) || keeps_its_name(opts, &dest))
		name = strdup(spec); /* what is wrong with it is said there */
	else
		name = name_of_run(spec, &dest, n);
	strbuf__free(&reason);
	code = name ? add(o, name) : code__say(CODE_FAILED, NULL, "out of memory");
	free(name);
	return code;
}

int outputs__open_run(struct outputs *o, const struct options *opts, const char *comm, int pid)
{
	const struct run_name n = { comm, pid, opts->follow };
	int code = CODE_OK;

	if (!opts->outputs.cnt)
		return add_run(o, opts, NULL, &n);
	for (size_t i = 0; i < opts->outputs.cnt && !code; i++)
		code = add_run(o, opts, opts->outputs.data[i], &n);
	return code;
}

void outputs__free(struct outputs *o)
{
	for (size_t i = 0; i < o->cnt; i++)
		free(o->data[i].spec);
	vec__free(o);
}

int outputs__write(struct outputs *o, const struct snapshot *s, bool last)
{
	int code = CODE_OK;

	for (size_t i = 0; i < o->cnt; i++) {
		const struct output *out = &o->data[i];
		int err = out->stream && !last ? 0 : export__write(&out->dest, s);

		if (!err)
			continue;
		/* once is enough while it goes on; the end says it again */
		if (!o->write_failed || last)
			log_error("cannot write '%s': %s", out->dest.path, strerror(-err));
		code = CODE_FAILED;
	}
	o->write_failed = code != CODE_OK;
	return code;
}

/* --kind is of those outputs that name none. */
static int settle_kind(struct output *out, enum flame_kind asked)
{
	if (out->dest.kind == FLAME_ANY)
		out->dest.kind = asked;
	if (asked == FLAME_ANY || out->dest.kind == asked)
		return CODE_OK;
	log_error("-o '%s' contradicts --kind %s", out->spec, flame_infos[asked].word);
	return CODE_USAGE;
}

int outputs__check_flames(struct outputs *o, bool diff, enum flame_kind asked)
{
	for (size_t i = 0; i < o->cnt; i++) {
		const struct exporter *e = o->data[i].dest.exporter;

		if (e->flame && !(diff && e->no_diff)) {
			int code = settle_kind(&o->data[i], asked);

			if (code)
				return code;
			continue;
		}
		log_error("-o '%s': %s cannot hold %s", o->data[i].spec, e->name,
			  e->flame ? "a difference (html, svg and folded can)"
				   : "a flamegraph (html, svg, folded, pprof and speedscope can)");
		return CODE_USAGE;
	}
	return CODE_OK;
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

int outputs__check_kinds(const struct outputs *o, const struct snapshot *s, const char *path,
			 bool any)
{
	int code = CODE_OK;

	for (size_t i = 0; i < o->cnt && !code; i++)
		if (any || o->data[i].dest.kind != FLAME_ANY)
			code = check_kind(s, path, o->data[i].dest.kind);
	return code;
}

int outputs__write_flames(struct outputs *o, const struct snapshot *s, const struct snapshot *old)
{
	int code = CODE_OK;

	for (size_t i = 0; i < o->cnt; i++) {
		struct flame_ask ask = { .s = s, .old = old, .kind = o->data[i].dest.kind };
		int err = export__write_flame(&o->data[i].dest, &ask);

		if (!err)
			continue;
		log_error("cannot write '%s': %s", o->data[i].dest.path, strerror(-err));
		code = CODE_FAILED;
	}
	return code;
}

void outputs__say_written(const struct outputs *o)
{
	for (size_t i = 0; i < o->cnt; i++)
		if (strcmp(o->data[i].dest.path, "-"))
			log_info("wrote %s", o->data[i].dest.path);
}

struct report_opts outputs__report_opts(const struct options *opts)
{
	static const enum snapshot_sort sorts[] = {
		[OPTION_SORT_TOTAL] = SORT_TOTAL, [OPTION_SORT_CALLS] = SORT_CALLS,
		[OPTION_SORT_AVG] = SORT_MEAN,	  [OPTION_SORT_P95] = SORT_P95,
		[OPTION_SORT_MAX] = SORT_MAX,	  [OPTION_SORT_SELF] = SORT_SELF,
		[OPTION_SORT_NAME] = SORT_NAME,
	};

	return (struct report_opts){
		.width = opts->width,
		.limit = opts->limit,
		.sort = sorts[opts->sort],
		.colour = isatty(STDOUT_FILENO) && !getenv("NO_COLOR"),
	};
}

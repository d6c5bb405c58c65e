/* SPDX-License-Identifier: BSD-2-Clause */
#include "export/export.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/strbuf.h"
#include "export/flame.h"

static const struct exporter *const exporters[] = {
	&export_json,	&export_csv,  &export_csv_buckets, &export_csv_threads, &export_prom,
	&export_folded, &export_html, &export_svg,	   &export_pprof,	&export_speedscope
};

#define EXPORTER_CNT (sizeof(exporters) / sizeof(exporters[0]))

static const struct exporter *by_name(const char *name, size_t len)
{
	for (size_t i = 0; i < EXPORTER_CNT; i++)
		if (strlen(exporters[i]->name) == len && !memcmp(exporters[i]->name, name, len))
			return exporters[i];
	return NULL;
}

/* The longest suffix wins: ".pb.gz" before ".gz". */
static const struct exporter *by_suffix(const char *path)
{
	const struct exporter *found = NULL;
	size_t len = strlen(path), best = 0;

	for (size_t i = 0; i < EXPORTER_CNT; i++) {
		size_t n = strlen(exporters[i]->suffix);

		if (n > best && len > n && !strcmp(path + len - n, exporters[i]->suffix)) {
			found = exporters[i];
			best = n;
		}
	}
	return found;
}

/* "svg-live": a format of stacks and a kind. */
static const struct exporter *by_name_of_kind(const char *name, size_t len, enum flame_kind *kind)
{
	for (size_t i = 0; i < EXPORTER_CNT; i++) {
		size_t n = strlen(exporters[i]->name);

		if (exporters[i]->flame && len > n && name[n] == '-' &&
		    !memcmp(exporters[i]->name, name, n) &&
		    flame__find_kind(name + n + 1, len - n - 1, kind))
			return exporters[i];
	}
	return NULL;
}

/* "x.live.svg" has a kind before its suffix, and something before that. */
static void find_kind_of_path(const char *path, const struct exporter *e, enum flame_kind *kind)
{
	size_t end = strlen(path) - strlen(e->suffix), at = end;

	while (at && path[at - 1] != '.' && path[at - 1] != '/')
		at--;
	if (e->flame && at > 1 && path[at - 1] == '.' && path[at - 2] != '/')
		flame__find_kind(path + at, end - at, kind);
}

static int refuse(struct strbuf *reason)
{
	strbuf__adds(reason, " (formats:");
	for (size_t i = 0; i < EXPORTER_CNT; i++)
		strbuf__addf(reason, " %s", exporters[i]->name);
	strbuf__adds(reason, "; of one kind of stacks:");
	for (int i = 0; i < FLAME_CNT; i++)
		strbuf__addf(reason, " svg-%s", flame_infos[i].word);
	strbuf__adds(reason, " ...)");
	return -EINVAL;
}

int export__find(const char *spec, struct export_dest *out, struct strbuf *reason)
{
	const char *colon = strchr(spec, ':');
	size_t format_len = colon ? (size_t)(colon - spec) : 0;
	const char *path = spec;
	enum flame_kind kind = FLAME_ANY;
	const struct exporter *e;

	if (colon && !memchr(spec, '/', format_len)) {
		path = colon + 1;
		e = by_name(spec, format_len) ?: by_name_of_kind(spec, format_len, &kind);
		if (!e) {
			strbuf__addf(reason, "unknown output format '%.*s' in '%s'",
				     (int)format_len, spec, spec);
			return refuse(reason);
		}
	} else {
		e = strcmp(path, "-") ? by_suffix(path) : &export_json;
		if (!e) {
			strbuf__addf(reason,
				     "'%s' has no suffix that tells a format; say FORMAT:%s", spec,
				     spec);
			return refuse(reason);
		}
		if (strcmp(path, "-"))
			find_kind_of_path(path, e, &kind);
	}
	if (!*path) {
		strbuf__addf(reason, "no file name in '%s'", spec);
		return -EINVAL;
	}
	*out = (struct export_dest){ .exporter = e, .path = path, .kind = kind };
	return 0;
}

/* The folder that a path's last part lies in. */
static int stat_folder(const char *path, struct stat *st)
{
	const char *slash = strrchr(path, '/');
	char *folder = strndup(path, slash ? (size_t)(slash - path) + 1 : 0);
	int err = -1;

	if (folder)
		err = stat(*folder ? folder : ".", st);
	free(folder);
	return err;
}

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static int stat_place(const char *path, struct stat *st)
{
	return strcmp(path, "-") ? stat(path, st) : fstat(STDOUT_FILENO, st);
}

/*
 * A regular file is replaced by its name, so two names of one file are two places; anything else
 * is written to as it is.
 */
bool export__same_place(const struct export_dest *a, const struct export_dest *b)
{
	bool to_stdout = !strcmp(a->path, "-") || !strcmp(b->path, "-");
	struct stat x, y;

	if (!strcmp(a->path, b->path))
		return true;
	if (!stat_place(a->path, &x) && !stat_place(b->path, &y) &&
	    (to_stdout || !S_ISREG(x.st_mode)))
		return x.st_dev == y.st_dev && x.st_ino == y.st_ino;
	if (to_stdout || strcmp(last_part(a->path), last_part(b->path)) != 0)
		return false;
	return !stat_folder(a->path, &x) && !stat_folder(b->path, &y) && x.st_dev == y.st_dev &&
	       x.st_ino == y.st_ino;
}

static int put(const struct export_dest *dest, const struct strbuf *doc)
{
	if (doc->oom)
		return -ENOMEM;
	if (!strcmp(dest->path, "-"))
		return fs__write_all(STDOUT_FILENO, doc->s, doc->len);
	return fs__write_atomic(dest->path, doc->s, doc->len);
}

int export__write_flame(const struct export_dest *dest, const struct flame_ask *ask)
{
	struct strbuf doc = STRBUF_INIT;
	int err = dest->exporter->flame(ask, &doc) ?: put(dest, &doc);

	strbuf__free(&doc);
	return err;
}

int export__write(const struct export_dest *dest, const struct snapshot *s)
{
	struct flame_ask ask = { .s = s, .kind = dest->kind };
	struct strbuf doc = STRBUF_INIT;
	int err;

	if (!dest->exporter->render)
		return export__write_flame(dest, &ask);
	err = dest->exporter->render(s, &doc) ?: put(dest, &doc);
	strbuf__free(&doc);
	return err;
}

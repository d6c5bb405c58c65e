/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Exporters: a snapshot in, one whole file out. A format is one file here and one row in the table
 * of export.c; all it may know is the snapshot and base/.
 */
#ifndef EXPORT_EXPORT_H
#define EXPORT_EXPORT_H

#include <stdbool.h>

#include "export/flame.h"

struct flame_ask;
struct snapshot;
struct strbuf;

struct exporter {
	const char *name;   /* as in -o NAME:FILE */
	const char *suffix; /* what a file's name ends in, the dot included */
	/* Appends the document to out. 0 or -errno. A format has one of the two: */
	int (*render)(const struct snapshot *s, struct strbuf *out);
	/* of weighted stacks, of one kind or the difference of two snapshots (flame.h) */
	int (*flame)(const struct flame_ask *ask, struct strbuf *out);
	bool no_diff; /* cannot show a difference */
};

struct export_dest {
	const struct exporter *exporter;
	const char *path;     /* borrowed from the spec; "-" is standard output */
	enum flame_kind kind; /* of stacks; FLAME_ANY: not said */
};

extern const struct exporter export_json, export_csv, export_csv_buckets, export_csv_threads,
	export_prom;
extern const struct exporter export_folded, export_html, export_svg, export_pprof,
	export_speedscope;

/*
 * Parses "[FORMAT:]FILE": the format is named, or told by FILE's suffix; a lone "-" is JSON.
 * Formats of stacks may name a kind, "svg-live:FILE" or "FILE.live.svg". What comes before a colon
 * is taken as a format unless it holds a slash; nothing is guessed. 0, or -EINVAL with one line in
 * reason.
 */
int export__find(const char *spec, struct export_dest *out, struct strbuf *reason);

/* Whether what is written to one would replace, or mix with, what is written to the other. */
bool export__same_place(const struct export_dest *a, const struct export_dest *b);

/* Renders and replaces the file, atomically where it is a regular one. 0 or -errno; no message. */
int export__write(const struct export_dest *dest, const struct snapshot *s);
/* The same of what is asked for; the exporter must have flame. */
int export__write_flame(const struct export_dest *dest, const struct flame_ask *ask);

#endif

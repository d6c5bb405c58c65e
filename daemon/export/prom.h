/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the parts of the Prometheus writer share. Private to them: export/prom*.c. origin are the
 * labels that every series of the target has, escaped.
 */
#ifndef EXPORT_PROM_H
#define EXPORT_PROM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct snapshot;
struct snapshot_fn;
struct strbuf;

/* ---- prom_text.c: words ---- */

/* What stands between the quotes of a label: escaped, valid UTF-8. */
void prom__value(struct strbuf *out, const char *s, size_t len);
/* name="value"; NULL is empty. */
void prom__label(struct strbuf *out, const char *name, const char *value);
/* All digits: a double would drop some. */
void prom__seconds(struct strbuf *out, uint64_t ns);
void prom__head(struct strbuf *out, const char *metric, const char *type, const char *help);
/* A metric with one series, that of the whole target. */
void prom__uint(struct strbuf *out, const char *origin, const char *metric, const char *type,
		uint64_t v, const char *help);

/* ---- prom_rows.c: which functions have series ---- */

#define PROM_MAX_FUNCTIONS 100u

struct prom_row {
	const struct snapshot_fn *fn;
	char *labels; /* 'function="...",crate="...",comm="...",pid="..."', no two the same */
};

struct prom_rows {
	struct prom_row of[PROM_MAX_FUNCTIONS];
	size_t cnt, all_cnt;	 /* all: those without series too */
	uint64_t unlisted_calls; /* of those without */
	bool mixed;		 /* functions and polls have one metric */
};

/* Those that were called, most time first. 0 or -ENOMEM; to be freed either way, zeroed before. */
int prom_rows__called(struct prom_rows *rows, const struct snapshot *s, const char *origin);
/* Those of the role that CPU samples hit, most first; likewise. */
int prom_rows__sampled(struct prom_rows *rows, const struct snapshot *s, const char *origin);
void prom_rows__free(struct prom_rows *rows);

/* ---- the parts of the document ---- */

void prom__functions(const struct prom_rows *called, struct strbuf *out);
/* CPU samples. Nothing without a CPU profile. */
void prom__cpu(const struct snapshot *s, const char *origin, const struct prom_rows *sampled,
	       struct strbuf *out);
/* Nothing without memory. */
void prom__memory(const struct snapshot *s, const char *origin, struct strbuf *out);
/* Threads, locks and stalls. Nothing where they were not watched. */
void prom__threads(const struct snapshot *s, const char *origin, struct strbuf *out);

#endif

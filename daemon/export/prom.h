/* SPDX-License-Identifier: BSD-2-Clause */
/* What the parts of the Prometheus writer share. Private to them: export/prom*.c. */
#ifndef EXPORT_PROM_H
#define EXPORT_PROM_H

#include <stdint.h>

struct snapshot;
struct strbuf;

/* name="value", escaped, valid UTF-8. */
void prom__label(struct strbuf *out, const char *name, const char *value);
/* All digits: a double would drop some. */
void prom__seconds(struct strbuf *out, uint64_t ns);

/* prom_threads.c: threads, locks and stalls; origin are the labels that each series has. */
void prom__threads(const struct snapshot *s, const char *origin, struct strbuf *out);

#endif

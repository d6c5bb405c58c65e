/* SPDX-License-Identifier: BSD-2-Clause */
/* The memory part of Prometheus' text format; part of prom.c's document. */
#ifndef EXPORT_PROM_MEMORY_H
#define EXPORT_PROM_MEMORY_H

struct snapshot;
struct strbuf;

/* origin: the labels that every series of the target has, escaped. Nothing without memory. */
void prom_memory__add(const struct snapshot *s, const char *origin, struct strbuf *out);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Marks: one letter behind a function's name for each thing a reader must know before believing
 * the row, and the legend of those that occur.
 */
#ifndef UI_MARKS_H
#define UI_MARKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct snapshot;
struct snapshot_fn;
struct strbuf;

#define MARKS_MAX 16

/* The row's marks, "" for none. */
void marks__of(const struct snapshot *s, const struct snapshot_fn *fn, char out[MARKS_MAX]);
/* A line or more for each mark that a row of the order has, with the functions it weighs on most.
 */
void marks__legend(const struct snapshot *s, const uint32_t *rows, size_t row_cnt,
		   unsigned int width, struct strbuf *out);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tables of functions: which columns a terminal of some width has room for, and the cells. A
 * duration of at most twice the probe floor of its row is no latency and shows as "≈floor"; sums
 * of such calls are upper bounds and show as "<1.23s".
 */
#ifndef UI_TABLE_H
#define UI_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "snapshot/snapshot.h"
#include "ui/text.h"

struct strbuf;

struct table_col {
	const char *title;
	unsigned int columns;
	unsigned int from;	 /* shown on terminals at least this wide, or when sorted by */
	enum snapshot_sort sort; /* the order in which this column falls; SORT_NAME: none */
	void (*cell)(const struct snapshot *s, const struct snapshot_fn *fn, char out[TEXT_CELL],
		     enum text_style *style);
};

#define TABLE_MAX_COLS 16

struct table {
	const struct snapshot *s;
	const struct table_col *cols[TABLE_MAX_COLS];
	size_t col_cnt;
	unsigned int gap, name_columns, mark_columns;
	enum snapshot_sort sort; /* set by the caller, as the next two */
	bool colour;
	bool live;	 /* rows of all kinds mixed, polls tagged */
	bool near_floor; /* such a cell was written */
};

extern const struct table_col table_fn_cols[];	  /* the report's; ends in a NULL title */
extern const struct table_col table_async_cols[]; /* the same, of polls */
extern const struct table_col table_live_cols[];  /* of an interval */

/*
 * Chooses among cols what fits width, and the width of names: enough for the rows rows, or what
 * is left.
 */
void table__layout(struct table *t, const struct snapshot *s, const struct table_col *cols,
		   unsigned int width, const uint32_t *rows, size_t row_cnt);
void table__head(struct table *t, const char *title, struct strbuf *out);
void table__row(struct table *t, const struct snapshot_fn *fn, struct strbuf *out);

bool table__near_floor(const struct snapshot_fn *fn, uint64_t ns);

#endif

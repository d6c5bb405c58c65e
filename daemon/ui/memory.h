/* SPDX-License-Identifier: BSD-2-Clause */
/* The report's part about memory: the process, what is live, who allocates, what may leak. */
#ifndef UI_MEMORY_H
#define UI_MEMORY_H

#include <stdbool.h>

struct snapshot;
struct strbuf;

struct memory_view {
	unsigned int width; /* columns */
	unsigned int limit; /* rows of a table; 0: some */
	bool colour;
	unsigned int longest; /* columns of the longest name: the section's own */
};

/* Nothing when memory was not traced. */
void memory__section(const struct snapshot *s, const struct memory_view *view, struct strbuf *out);

/* 3 significant digits and a unit of 1024: "999B" "1.23KB" "-12.3MB"; out holds TEXT_CELL. */
void memory__bytes(char *out, double bytes);

#endif

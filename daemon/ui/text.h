/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Words and cells for a terminal: human units, shortened names, padding by columns instead of
 * bytes. Knows nothing of snapshots.
 */
#ifndef UI_TEXT_H
#define UI_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct strbuf;

/* One empty line between what is above and what comes; none at the top. */
void text__gap(struct strbuf *out);

/* Big enough for every text__ below that fills a buffer; at most 7 columns each but for counts. */
#define TEXT_CELL 32

/* 3 significant digits: "999ns" "1.23µs" "12.3ms" "123s" "2.78h". */
void text__duration(char out[TEXT_CELL], uint64_t ns);
/* Exact where it fits in that many columns, else 3 significant digits: "12.3M". */
void text__count(char out[TEXT_CELL], uint64_t n, unsigned int columns);
/* 1.0 = "100%"; what is not zero never shows as zero: "<0.01%". */
void text__percent(char out[TEXT_CELL], double ratio);

/* STYLE_FLOOR: no true value, too near to what probing itself takes. */
enum text_style { STYLE_PLAIN, STYLE_BOLD, STYLE_DIM, STYLE_FLOOR, STYLE_WARM, STYLE_HOT };

/* Appends s (UTF-8), in colour when asked. width > 0 pads to the left, < 0 to the right. */
void text__cell(struct strbuf *out, const char *s, int width, enum text_style style, bool colour);

/* Appends a line made of cells, no wider than columns; colour codes take none and are all kept. */
void text__clip(struct strbuf *out, const char *line, size_t len, unsigned int columns);

/*
 * Appends a printable form of a function's name, at most width (> 0) columns: whole if it fits;
 * else with closures as "f{}"; else with the types in it cut to the last segment of their path;
 * else without their arguments; else as much of its end as fits, "…stream::handle_submit", for the
 * end tells functions apart.
 */
void text__name(struct strbuf *out, const char *name, size_t width);

/* Columns of the terminal behind f; 80 when it is none or does not say. */
unsigned int text__terminal_columns(FILE *f);
unsigned int text__terminal_rows(FILE *f);

#endif

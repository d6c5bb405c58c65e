/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * UTF-8 for names of unknown origin: ELF symbols and thread names are arbitrary bytes, cut
 * anywhere. Decoding never fails: each maximal bad sequence is one U+FFFD (Unicode 3.9, W3C's way),
 * so what comes out is always valid and a character is never cut in two.
 */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

struct strbuf;

#define UTF8_BAD 0xfffdu

/* The character at s (len > 0 bytes readable); *bytes is how many it takes. */
uint32_t utf8__decode(const char *s, size_t len, size_t *bytes);
void utf8__encode(struct strbuf *out, uint32_t c);

/* Columns of a character on a terminal: 0 combining, 2 East Asian wide, else 1. */
unsigned int utf8__columns(uint32_t c);
/* Columns of a string that utf8__add_printable made. */
size_t utf8__width(const char *s);

/*
 * Appends s for a terminal: bad bytes, control characters (escape sequences start with one) and
 * those that reorder text become U+FFFD.
 */
void utf8__add_printable(struct strbuf *out, const char *s);

#endif

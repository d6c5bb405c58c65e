/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes JSON straight into a strbuf: no tree, so memory is the document itself. 1,000 busy rows
 * (1 MB) took 6 ms in a run where jansson's tree took 33 (build, dump, free) and formatting the
 * numbers alone by snprintf 18; at 1 Hz that is the daemon's whole CPU goal. jansson reads.
 *
 * Commas are the writer's business: a value or key that follows another in the same container is
 * preceded by one. Keys are literals of ours, at most 60 bytes; strings may be any bytes and come
 * out valid UTF-8.
 */
#ifndef EXPORT_JSONW_H
#define EXPORT_JSONW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/strbuf.h"

struct jsonw {
	struct strbuf *out;
	bool comma; /* a sibling came before */
	bool keyed; /* a key is waiting for its value */
};

void jsonw__open(struct jsonw *w, char bracket); /* '{' or '[' */
void jsonw__close(struct jsonw *w, char bracket);
void jsonw__key(struct jsonw *w, const char *key);
/* The next element starts a line of its own. */
void jsonw__line(struct jsonw *w);

void jsonw__null(struct jsonw *w);
void jsonw__bool(struct jsonw *w, bool v);
void jsonw__int(struct jsonw *w, int64_t v);
/* From 2^63 on a real: readers keep 64-bit signed integers, and nothing may wrap or be clipped. */
void jsonw__uint(struct jsonw *w, uint64_t v);
/* As many digits as bring the same double back; null when not finite. */
void jsonw__real(struct jsonw *w, double v);
void jsonw__string(struct jsonw *w, const char *s); /* NULL: null */

#endif

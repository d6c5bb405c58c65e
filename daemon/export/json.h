/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the parts of the snapshot file's writer share. Private to them: export/json*.c.
 */
#ifndef EXPORT_JSON_H
#define EXPORT_JSON_H

#include "export/jsonw.h"

struct snapshot;
struct snapshot_backtrace;
struct snapshot_fn;

static inline void put_string(struct jsonw *w, const char *key, const char *v)
{
	jsonw__key(w, key);
	jsonw__string(w, v);
}

static inline void put_uint(struct jsonw *w, const char *key, uint64_t v)
{
	jsonw__key(w, key);
	jsonw__uint(w, v);
}

static inline void put_real(struct jsonw *w, const char *key, double v)
{
	jsonw__key(w, key);
	jsonw__real(w, v);
}

static inline void put_null(struct jsonw *w, const char *key)
{
	jsonw__key(w, key);
	jsonw__null(w);
}

static inline void put_uint_if(struct jsonw *w, const char *key, bool measured, uint64_t v)
{
	if (measured)
		put_uint(w, key, v);
	else
		put_null(w, key);
}

static inline void section(struct jsonw *w, const char *key, char bracket)
{
	jsonw__line(w);
	jsonw__key(w, key);
	jsonw__open(w, bracket);
}

/* json_stacks.c: members of the document, left out when there is nothing in them. */
void json__paths(struct jsonw *w, const struct snapshot *s);
void json__profiles(struct jsonw *w, const struct snapshot *s);
/* "stack" and "stack_truncated" of an open object. */
void json__backtrace(struct jsonw *w, const struct snapshot_backtrace *b);
/* An object with "frames", left open. */
void json__names(struct jsonw *w, const char *const *frames, uint32_t depth);
/* json_memory.c */
void json__memory(struct jsonw *w, const struct snapshot *s);
void json__fn_alloc(struct jsonw *w, const struct snapshot_fn *fn);
/* "estimated" and its error, when it is. */
void json__estimated(struct jsonw *w, bool estimated, uint64_t live_error_bytes);
/* "stacks" of an open "memory". */
void json__alloc_stacks(struct jsonw *w, const struct snapshot *s);
/* "native" and "native_lost" likewise. */
void json__native(struct jsonw *w, const struct snapshot *s);
/* "native_growth" and what belongs to it. */
void json__native_growth(struct jsonw *w, const struct snapshot *s);

#endif

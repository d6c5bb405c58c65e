/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the parts of the reader share (read.c says how they read). Private to them.
 */
#ifndef SNAPSHOT_READER_H
#define SNAPSHOT_READER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct snapshot;
struct snapshot_hist;
struct snapshot_fn;
struct snapshot_backtrace;
struct strbuf;

struct reader {
	struct snapshot *s;
	struct strbuf *reason;
	const char *part; /* the member of the document that is being read */
	size_t row;	  /* of part; NO_ROW: it is no list */
	int err;	  /* the first one */
};

#define NO_ROW SIZE_MAX

void *nomem(struct reader *r); /* NULL */
/* What is wrong with a member of the part (key NULL: with the part); the first one counts. */
void wrong(struct reader *r, const char *key, const char *what);

/* Missing or null. */
bool is_null(json_t *o, const char *key);
json_t *get(struct reader *r, json_t *o, const char *key);
/* A copy in the snapshot's arena. */
const char *keep(struct reader *r, const char *s);
const char *get_string(struct reader *r, json_t *o, const char *key);
const char *get_string_or_null(struct reader *r, json_t *o, const char *key);
uint64_t to_uint(struct reader *r, json_t *v, const char *key);
uint64_t get_uint(struct reader *r, json_t *o, const char *key);
uint64_t get_uint_or_0(struct reader *r, json_t *o, const char *key);
int64_t get_int(struct reader *r, json_t *o, const char *key, int64_t min, int64_t max);
double get_ratio(struct reader *r, json_t *o, const char *key, double if_null);
double get_ratio_or_0(struct reader *r, json_t *o, const char *key);
bool get_bool(struct reader *r, json_t *o, const char *key);
/* Which of the names, or 0 when it is none of them. */
int get_name(struct reader *r, json_t *o, const char *key, const char *const *names, int cnt);
/* NULL (which has no members, no elements) when it is none. */
json_t *get_object(struct reader *r, json_t *o, const char *key);
json_t *get_array(struct reader *r, json_t *o, const char *key);
/* The row-th element of a list of objects. */
json_t *get_row(struct reader *r, json_t *list, size_t row);
/* Enters a member of the document; what is wrong is said to be there. */
json_t *enter(struct reader *r, json_t *doc, const char *part,
	      json_t *(*get_it)(struct reader *, json_t *, const char *));
/* cnt zeroed elements to be freed; not NULL for none. */
void *zeroed(struct reader *r, size_t cnt, size_t elem_bytes);

/* read.c: {scale, zero_count, offset, counts}. */
void read_histogram(struct reader *r, json_t *h, struct snapshot_hist *out);

/* read_threads.c: threads, locks, stalls. */
void read_threads(struct reader *r, json_t *doc);

/* read_stacks.c: the weighted stacks of profile.h. */
void read_profiles(struct reader *r, json_t *doc);
void read_paths(struct reader *r, json_t *doc);
/* "stack" of an object; files of before have none. */
void read_backtrace(struct reader *r, json_t *o, struct snapshot_backtrace *out);
/* The "frames" of an object: names, in the snapshot's arena. */
const char *const *read_names(struct reader *r, json_t *o, uint32_t *depth);

/* read_memory.c */
void read_memory(struct reader *r, json_t *doc);
void read_fn_alloc(struct reader *r, json_t *o, struct snapshot_fn *fn);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flamegraphs: what the formats for weighted stacks (html, svg, folded, pprof, speedscope) share.
 * A snapshot's profiles, call tree and allocation stacks become graphs of one shape over one table
 * of frames. Draws nothing and writes nothing itself. Private to export/, but for struct flame_ask
 * and the kinds.
 */
#ifndef EXPORT_FLAME_H
#define EXPORT_FLAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/vec.h"

struct snapshot;
struct snapshot_profiles;
struct strbuf;

/* In the order in which one is chosen when none is asked for. Memory is by native stacks where
 * there are any, then *_CALLS are the same by traced calls; else by traced calls. */
enum flame_kind {
	FLAME_CPU,
	FLAME_CALLS,
	FLAME_OFF_CPU,
	FLAME_WAKERS,
	FLAME_LIVE,
	FLAME_ALLOC,
	FLAME_LIVE_CALLS,
	FLAME_ALLOC_CALLS,
	FLAME_MAPPED,
	FLAME_FAULTS,
};
#define FLAME_CNT (FLAME_FAULTS + 1)
#define FLAME_ANY FLAME_CNT

struct flame_info {
	const char *word;  /* as in --kind */
	const char *title; /* "CPU time" */
	const char *unit;  /* of values: "samples", "ns", "bytes", "faults" */
	const char *count; /* what counts are: "waits"; NULL: there are none */
	bool adds_up;	   /* a frame's count is that of all stacks through it; else its own only */
	bool rate;	   /* grows with the window */
	const char *how;   /* how it is recorded */
};
extern const struct flame_info flame_infos[FLAME_CNT];

struct flame_ask {
	const struct snapshot *s, *old; /* old NULL: no difference */
	enum flame_kind kind;		/* FLAME_ANY */
};

/* The kind of that word; false: there is none. */
bool flame__find_kind(const char *word, size_t len, enum flame_kind *out);
/* The kinds that a snapshot has, a bit each (1 << kind). */
unsigned int flame__kinds(const struct snapshot *s);

/* ---- the graphs ---- */

struct flame_frame {
	const char *label;  /* the name without noise of closures and hashes */
	const char *folded; /* the same without generic arguments */
	bool runtime;	    /* of std or of an async runtime: greyed, can be folded away */
};

struct flame_stack {
	uint32_t first, depth; /* of refs */
	uint64_t value, count;
};

struct flame_graph {
	VEC(uint32_t) refs; /* indices into frames, root first */
	VEC(struct flame_stack) stacks;
	uint64_t total;
};

struct flames {
	struct flame_ask ask;		/* kind: chosen, when it was left open */
	unsigned int kinds;		/* those of both snapshots */
	bool native;			/* memory by native stacks, in both */
	struct snapshot_profiles *pool; /* its frames are the table, its arena the texts */
	struct flame_frame *frames;	/* beside pool->frames */
	struct flame_graph now[FLAME_CNT], old[FLAME_CNT];
};

/* All graphs of what is asked for. NULL: no memory. free takes NULL. */
struct flames *flames__new(const struct flame_ask *ask);
void flames__free(struct flames *f);

/* What old values are multiplied by to be compared: a rate's windows may differ. */
double flames__old_scale(const struct flames *f, enum flame_kind kind);
/* What a reader has to know to trust the figures: one line each. */
void flames__notes(const struct flames *f, enum flame_kind kind, struct strbuf *out);
/* "demo_role (pid 7), CPU time" */
void flames__title(const struct flames *f, enum flame_kind kind, struct strbuf *out);

/* ---- rows: equal stacks are one, in the order of their texts ---- */

enum flame_text { FLAME_NAMES, FLAME_FOLDED };

struct flame_row {
	const uint32_t *ids; /* places among texts */
	uint32_t depth;
	uint64_t value, old, count;
};

struct flame_rows {
	const char **texts; /* each once, from A to Z */
	uint32_t *frames;   /* one frame that has that text */
	uint32_t *ids;
	struct flame_row *rows;
	size_t cnt;
};

/* 0 or -ENOMEM. */
int flames__rows(const struct flames *f, enum flame_kind kind, enum flame_text text,
		 struct flame_rows *out);
void flame_rows__free(struct flame_rows *r);

/* ---- names (flame_name.c) ---- */

/*
 * "a::f::{{closure}}::{{closure}}" -> "a::f{2}", "a::f::{closure#0}" -> "a::f{}"; a legacy hash at
 * the end goes.
 */
void flame_name__label(const char *name, struct strbuf *out);
/*
 * Of a label: "Vec<a::T,A>::push" -> "Vec<…>::push", "<a::b::X as c::T>::f" -> "<X as T>::f",
 * "x::<impl a::T for b::Y>::f" -> "x::<impl T for Y>::f".
 */
void flame_name__fold(const char *label, struct strbuf *out);

/* ---- formats ---- */

/* 123456 ns -> "123 µs"; in a form for people. */
void flame__add_value(struct strbuf *out, enum flame_kind kind, double value);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The addresses of the picked symbols: which symbol names one, which of them are one function, and
 * what a row of several is called. Between select.c and rows.c.
 */
#ifndef PLAN_PLACES_H
#define PLAN_PLACES_H

#include <stddef.h>
#include <stdint.h>

struct build;
struct pick;

/* All symbols of one address. */
struct place {
	const struct pick *best;
	uint64_t size;
	char *full; /* C++: with parameters; made when first needed */
};

/* Fills b->places from b->sel. 0 or -ENOMEM. */
int places__find(struct build *b);
void places__free(struct build *b);

/* Those of one function next to each other, those of one name too. */
void places__sort(struct build *b);
/* By name, and 0 where two are one function. */
int places__compare(const struct pick *x, const struct pick *y);

/*
 * A name that no other row has. Places [first, first + cnt) are this row's, [lo, hi) all that
 * share the name.
 */
char *places__name(struct build *b, size_t lo, size_t hi, size_t first, size_t cnt);

#endif

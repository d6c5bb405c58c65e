/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Quantiles of calls of which only some windows of time were measured, and how far off they may be.
 *
 * Calls of one window resemble each other, so the windows are the sample, not the calls: a cluster
 * sample. For each place of the histogram the sums over windows of A_k (measured calls at or below
 * it), A_k^2, A_k M_k and M_k^2 (M_k: all calls of window k) give the share p = A / M below it and,
 * as a ratio of sums, its standard error; never taken below that of M independent calls. The
 * interval of a quantile q are the places at which the share may be q: p + t e >= q at its lower
 * end, p - t e >= q at its upper one (W. G. Cochran, Sampling Techniques, 3.12; R. S. Woodruff,
 * "Confidence intervals for medians", 1952). t is Student's for one window less than there are.
 *
 * A call that was not seen to end within its window counts as longer than any: only upper ends
 * suffer.
 */
#ifndef BASE_CLUSTERS_H
#define BASE_CLUSTERS_H

#include <stddef.h>
#include <stdint.h>

/* Fewer windows say nothing of an error. */
#define CLUSTERS_MIN 5u

struct clusters;

/* places: of the histograms, a call of 0 apart. NULL: no memory. */
struct clusters *clusters__new(size_t places);
void clusters__free(struct clusters *c);

/* One window: calls per place, calls of 0, and calls that were begun and not seen to end. */
void clusters__add(struct clusters *c, const uint64_t *counts, uint64_t zeros, uint64_t open);

uint64_t clusters__windows(const struct clusters *c);
uint64_t clusters__calls(const struct clusters *c); /* the open ones too */
uint64_t clusters__open(const struct clusters *c);
/* Calls at a place, in all windows; those of 0. */
uint64_t clusters__at(const struct clusters *c, size_t place);
uint64_t clusters__zeros(const struct clusters *c);

/*
 * The interval of quantile q of calls of which `exact` (per place, and of 0) were all measured and
 * the others have the sample's distribution, each measured one standing for `weight`. As places:
 * *low is the first that may hold it (-1: 0), *high the last; *high == places: no upper end.
 * -ENODATA: too few windows.
 */
int clusters__interval(const struct clusters *c, const uint64_t *exact, uint64_t exact_zeros,
		       double weight, double q, long *low, long *high);

#endif

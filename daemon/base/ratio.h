/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A ratio of sums over windows, and how far off it may be: time per call (y: time, m: calls of a
 * window), calls per time (y: calls, m: the time a window stands for). What is alike within a
 * window makes the windows the sample, not what is in them (W. G. Cochran, Sampling
 * Techniques, 6.4):
 *
 *   R = Y / M,  error = t sqrt(K / (K - 1) sum (y_k - R m_k)^2) / M
 *
 * t is Student's for one window less than there are, at 98 % to be right in 95 of 100.
 */
#ifndef BASE_RATIO_H
#define BASE_RATIO_H

#include <stdint.h>

/* Fewer windows say nothing of an error. */
#define RATIO_MIN 5u

struct ratio {
	uint64_t windows;
	double y, yy, ym, m, mm;
};

void ratio__add(struct ratio *r, double y, double m);
/* 0 when nothing is known. */
double ratio__value(const struct ratio *r);
/* Half the interval's width; < 0: too few windows. */
double ratio__error(const struct ratio *r);
/*
 * Where it may be. Few windows may all have missed what is seldom, or all have met it: so one more,
 * of the mean length, is counted in, with nothing in it for the lower end and with `most` per m for
 * the upper one (the highest rate known of; 0: that of no window was higher than the rest).
 * -ENODATA: too few windows.
 */
int ratio__interval(const struct ratio *r, double most, double *low, double *high);

/* Student's quantile from the normal distribution's z. */
double ratio__student(double z, double dof);

/* Of the normal distribution, two-sided 98 %: to be right in 95 with a margin for small samples. */
#define RATIO_Z 2.326

#endif

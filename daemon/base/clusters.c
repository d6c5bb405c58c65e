/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/clusters.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/ratio.h"

struct sums {
	double a, aa, am; /* of calls at or below a place, over windows */
};

struct clusters {
	size_t places;
	uint64_t windows, open, zeros;
	double m, mm;
	uint64_t *counts;
	struct sums at[]; /* [0]: calls of 0; [place + 1] */
};

struct clusters *clusters__new(size_t places)
{
	struct clusters *c = calloc(1, sizeof(*c) + (places + 1) * sizeof(c->at[0]));

	if (!c)
		return NULL;
	c->counts = calloc(places + 1, sizeof(*c->counts));
	if (!c->counts) {
		free(c);
		return NULL;
	}
	c->places = places;
	return c;
}

void clusters__free(struct clusters *c)
{
	if (!c)
		return;
	free(c->counts);
	free(c);
}

static double total_of(const struct clusters *c, const uint64_t *counts)
{
	double n = 0;

	for (size_t p = 0; p < c->places; p++)
		n += (double)counts[p];
	return n;
}

void clusters__add(struct clusters *c, const uint64_t *counts, uint64_t zeros, uint64_t open)
{
	double m = total_of(c, counts) + (double)zeros + (double)open, a = (double)zeros;

	for (size_t p = 0; p <= c->places; p++) {
		if (p) {
			a += (double)counts[p - 1];
			c->counts[p - 1] += counts[p - 1];
		}
		c->at[p].a += a;
		c->at[p].aa += a * a;
		c->at[p].am += a * m;
	}
	c->m += m;
	c->mm += m * m;
	c->zeros += zeros;
	c->open += open;
	c->windows++;
}

uint64_t clusters__windows(const struct clusters *c)
{
	return c->windows;
}

uint64_t clusters__calls(const struct clusters *c)
{
	return (uint64_t)c->m;
}

uint64_t clusters__open(const struct clusters *c)
{
	return c->open;
}

uint64_t clusters__at(const struct clusters *c, size_t place)
{
	return c->counts[place];
}

uint64_t clusters__zeros(const struct clusters *c)
{
	return c->zeros;
}

/* Standard error of the sample's share p at or below a place. */
static double share_error(const struct clusters *c, const struct sums *s, double p, double q)
{
	double k = (double)c->windows;
	double spread = s->aa - 2 * p * s->am + p * p * c->mm;
	double of_windows = spread > 0 ? sqrt(k / (k - 1) * spread) / c->m : 0;
	double of_calls = sqrt(q * (1 - q) / c->m);

	return of_windows > of_calls ? of_windows : of_calls;
}

int clusters__interval(const struct clusters *c, const uint64_t *exact, uint64_t exact_zeros,
		       double weight, double q, long *low, long *high)
{
	double below = (double)exact_zeros, all, t;
	long lo = (long)c->places, hi = (long)c->places;

	if (c->windows < CLUSTERS_MIN || c->m < CLUSTERS_MIN)
		return -ENODATA;
	t = ratio__student(RATIO_Z, (double)c->windows - 1);
	all = total_of(c, exact) + (double)exact_zeros + weight * c->m;
	for (size_t p = 0; p <= c->places; p++) {
		const struct sums *s = &c->at[p];
		double share = s->a / c->m, err = share_error(c, s, share, q);

		if (p)
			below += (double)exact[p - 1];
		err *= t * weight * c->m / all;
		share = (below + weight * s->a) / all;
		if (share + err >= q && lo > (long)p - 1)
			lo = (long)p - 1;
		if (share - err >= q && hi > (long)p - 1)
			hi = (long)p - 1;
	}
	*low = lo;
	*high = hi;
	return 0;
}

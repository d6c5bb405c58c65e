/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/ratio.h"

#include <errno.h>
#include <math.h>

void ratio__add(struct ratio *r, double y, double m)
{
	r->windows++;
	r->y += y;
	r->yy += y * y;
	r->ym += y * m;
	r->m += m;
	r->mm += m * m;
}

double ratio__value(const struct ratio *r)
{
	return r->m > 0 ? r->y / r->m : 0;
}

/* Abramowitz and Stegun 26.7.5. */
double ratio__student(double z, double dof)
{
	double z3 = z * z * z, z5 = z3 * z * z, z7 = z5 * z * z;

	return z + (z3 + z) / (4 * dof) + (5 * z5 + 16 * z3 + 3 * z) / (96 * dof * dof) +
	       (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / (384 * dof * dof * dof);
}

double ratio__error(const struct ratio *r)
{
	double value = ratio__value(r), k = (double)r->windows, spread;

	if (r->windows < RATIO_MIN || r->m <= 0)
		return -1;
	spread = r->yy - 2 * value * r->ym + value * value * r->mm;
	spread = spread > 0 ? sqrt(k / (k - 1) * spread) : 0;
	return ratio__student(RATIO_Z, k - 1) * spread / r->m;
}

int ratio__interval(const struct ratio *r, double most, double *low, double *high)
{
	struct ratio less = *r, more = *r;
	double m;

	if (r->windows < RATIO_MIN || r->m <= 0)
		return -ENODATA;
	m = r->m / (double)r->windows;
	ratio__add(&less, 0, m);
	ratio__add(&more, most > ratio__value(r) ? most * m : r->y / r->m * m, m);
	*low = ratio__value(&less) - ratio__error(&less);
	*high = ratio__value(&more) + ratio__error(&more);
	if (*low < 0)
		*low = 0;
	return 0;
}

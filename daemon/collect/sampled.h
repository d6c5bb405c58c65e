/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a row says of a function that was not watched exactly all the time: its coverage, the
 * estimate of its calls, and how far off its quantiles may be.
 */
#ifndef COLLECT_SAMPLED_H
#define COLLECT_SAMPLED_H

#include "attach/governor.h"
#include "snapshot/snapshot.h"

/* The rest of the row is filled. 0 or -ENOMEM. */
int sampled__fill(const struct governor_row *row, struct snapshot_fn *fn);

#endif

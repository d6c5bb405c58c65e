/* SPDX-License-Identifier: BSD-2-Clause */
/* The plan as text for people: what `roletrace list` prints. Not made to be parsed. */
#ifndef PLAN_LIST_H
#define PLAN_LIST_H

#include <stdio.h>

struct plan;
struct rt_prices;

/* prices: of this machine, for ns in place of words; or NULL. */
void plan__print(const struct plan *plan, const struct rt_prices *prices, FILE *out);

/* Only the allocators that were found. */
void plan__print_allocators(const struct plan *plan, FILE *out);

#endif

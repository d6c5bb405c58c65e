/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads what programs have taken by their own clocks (bpf/spent.bpf.h). */
#ifndef ATTACH_SPENT_H
#define ATTACH_SPENT_H

#include <stdint.h>

struct bpf_map;

/* Of the first program_cnt programs of a map together, ns; and how often they ran (or NULL). */
uint64_t spent__ns(const struct bpf_map *map, unsigned int program_cnt, uint64_t *runs);

#endif

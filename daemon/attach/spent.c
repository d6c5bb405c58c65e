/* SPDX-License-Identifier: BSD-2-Clause */
#include "attach/spent.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <stdlib.h>

#include "roletrace/spent.h"

/*
 * Of a program's own time: the way into it and back, and what it took from the caches, which the
 * code behind it pays. Measured on a ping-pong by its own CPU time (docs/design/0005).
 */
#define WITH_THE_WAY 1.2

static struct rt_spent sum_of(const struct rt_spent *by_cpu, int cpus)
{
	struct rt_spent sum = {};

	for (int cpu = 0; cpu < cpus; cpu++) {
		sum.cnt += by_cpu[cpu].cnt;
		sum.timed += by_cpu[cpu].timed;
		sum.ns += by_cpu[cpu].ns;
	}
	return sum;
}

uint64_t spent__ns(const struct bpf_map *map, unsigned int program_cnt, uint64_t *runs)
{
	int cpus = libbpf_num_possible_cpus();
	struct rt_spent *by_cpu = cpus > 0 ? calloc((size_t)cpus, sizeof(*by_cpu)) : NULL;
	uint64_t cnt = 0;
	double ns = 0;

	for (rt_u32 p = 0; by_cpu && p < program_cnt; p++) {
		struct rt_spent sum;

		if (bpf_map_lookup_elem(bpf_map__fd(map), &p, by_cpu))
			continue;
		sum = sum_of(by_cpu, cpus);
		cnt += sum.cnt;
		if (sum.timed)
			ns += WITH_THE_WAY * (double)sum.ns / (double)sum.timed * (double)sum.cnt;
	}
	free(by_cpu);
	if (runs)
		*runs = cnt;
	return (uint64_t)ns;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Allocators of a library that was mapped after the plan was made. The layer stays what it is: one
 * above or below would count the same blocks again.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "plan/plan.h"

static bool fits(const struct plan *plan, const struct plan_allocator *a)
{
	for (size_t i = 0; i < plan->allocator_cnt; i++)
		if (plan->allocators[i].totals && plan->allocators[i].rust == a->rust)
			return true;
	return false;
}

static int grow(struct plan *plan, const struct plan *late)
{
	void *objects = reallocarray(plan->objects, plan->object_cnt + 1, sizeof(*plan->objects));
	void *allocators, *sites;

	if (!objects)
		return -ENOMEM;
	plan->objects = objects;
	allocators = reallocarray(plan->allocators, plan->allocator_cnt + late->allocator_cnt,
				  sizeof(*plan->allocators));
	if (!allocators)
		return -ENOMEM;
	plan->allocators = allocators;
	sites = reallocarray(plan->mem_sites, plan->mem_site_cnt + late->mem_site_cnt,
			     sizeof(*plan->mem_sites));
	if (!sites)
		return -ENOMEM;
	plan->mem_sites = sites;
	return 0;
}

int plan__adopt(struct plan *plan, struct plan *late, uint32_t source)
{
	size_t first = plan->allocator_cnt;

	if (!late->allocator_cnt || first + late->allocator_cnt > RT_MEM_MAX_FAMILIES)
		return late->allocator_cnt ? -ENOSPC : 0;
	if (grow(plan, late))
		return -ENOMEM;
	for (size_t i = 0; i < late->mem_site_cnt; i++) {
		struct plan_mem_site *s = &plan->mem_sites[plan->mem_site_cnt++];

		*s = late->mem_sites[i];
		s->allocator += (uint32_t)first;
	}
	for (size_t i = 0; i < late->allocator_cnt; i++) {
		struct plan_allocator *a = &late->allocators[i];

		a->object = (uint32_t)plan->object_cnt;
		a->late = true;
		a->chosen = !a->why && fits(plan, a);
		a->totals = a->chosen;
	}
	memcpy(&plan->allocators[first], late->allocators,
	       late->allocator_cnt * sizeof(*late->allocators));
	plan->allocator_cnt += late->allocator_cnt;
	late->allocator_cnt = 0;
	plan->objects[plan->object_cnt] = late->objects[0];
	plan->objects[plan->object_cnt++].source = source;
	memset(&late->objects[0], 0, sizeof(late->objects[0]));
	return 0;
}

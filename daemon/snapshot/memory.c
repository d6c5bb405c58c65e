/* SPDX-License-Identifier: BSD-2-Clause */
#include "snapshot/memory.h"

#include <stdlib.h>

#include "base/vec.h"
#include "snapshot/profile.h"

const char *const memory_mode_names[] = {
	[MEMORY_GROWTH] = "growth", [MEMORY_LIVE] = "live", [MEMORY_STACKS] = "stacks"
};
const char *const memory_verdict_names[] = {
	[VERDICT_STEADY] = "steady", [VERDICT_GROWING] = "growing"
};

struct snapshot_memory *snapshot_memory__new(void)
{
	return calloc(1, sizeof(struct snapshot_memory));
}

void snapshot_memory__free(struct snapshot_memory *m)
{
	if (!m)
		return;
	for (size_t i = 0; m->allocators && i < m->allocator_cnt; i++)
		free(m->allocators[i].classes);
	free(m->allocators);
	free(m->growth);
	free(m->native_growth);
	free(m->native_growth_lost);
	free(m->native);
	vec__free(&m->native_refs);
	free(m);
}

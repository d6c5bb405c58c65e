/* SPDX-License-Identifier: BSD-2-Clause */
#include "attach/verify.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BREAKPOINT 0xcc

static int maps_of(const struct target *t, const struct plan *plan, rt_u32 object,
		   struct target_map **maps, size_t *cnt)
{
	uint32_t source = plan->objects[object].source;

	return source ? target__object_maps(t, &t->objects[source - 1], maps, cnt)
		      : target__exe_maps(t, maps, cnt);
}

static int look_at(int mem, uint64_t addr, const struct plan_site *s, struct verify_result *res)
{
	unsigned char byte;

	if (!addr) {
		res->unmapped++;
		return 0;
	}
	if (pread(mem, &byte, 1, (off_t)addr) != 1)
		return errno ? -errno : -EIO;
	if (byte == BREAKPOINT) {
		res->armed++;
		return 0;
	}
	if (!res->disarmed++)
		res->first_fn = s->fn;
	if (res->gaps)
		res->gaps[s->fn] = true;
	return 0;
}

int verify__sites(const struct target *t, const struct plan *plan, const bool *skip,
		  struct verify_result *out)
{
	struct verify_result res = { .unreached = out->unreached, .gaps = out->gaps };
	struct target_map *maps = NULL;
	size_t map_cnt = 0, armed_before = 0;
	int mem, err = 0;

	mem = target__open_mem(t);
	if (mem < 0)
		return mem;
	for (size_t i = 0; i < plan->site_cnt && !err; i++) {
		const struct plan_site *s = &plan->sites[i];

		if (!i || s->object != s[-1].object) {
			free(maps);
			maps = NULL;
			armed_before = res.armed;
			err = maps_of(t, plan, s->object, &maps, &map_cnt);
		}
		if (err || skip[s->fn])
			continue;
		err = look_at(mem, target__address(maps, map_cnt, s->offset), s, &res);
		if (res.unreached)
			res.unreached[s->object] = res.armed == armed_before;
	}
	free(maps);
	close(mem);
	if (!err)
		*out = res;
	return err;
}

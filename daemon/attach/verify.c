/* SPDX-License-Identifier: BSD-2-Clause */
#include "attach/verify.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BREAKPOINT 0xcc

int verify__sites(const struct target *t, const struct plan *plan, const bool *skip,
		  struct verify_result *out)
{
	struct verify_result res = {};
	struct target_map *maps = NULL;
	size_t map_cnt = 0;
	int mem, err;

	mem = target__open_mem(t);
	if (mem < 0)
		return mem;
	err = target__exe_maps(t, &maps, &map_cnt);
	for (size_t i = 0; i < plan->site_cnt && !err; i++) {
		const struct plan_site *s = &plan->sites[i];
		uint64_t addr;
		unsigned char byte;

		if (skip[s->fn])
			continue;
		addr = target__address(maps, map_cnt, s->offset);
		if (!addr) {
			res.unmapped++;
		} else if (pread(mem, &byte, 1, (off_t)addr) != 1) {
			err = errno ? -errno : -EIO;
		} else if (byte == BREAKPOINT) {
			res.armed++;
		} else {
			if (!res.disarmed++)
				res.first_fn = s->fn;
		}
	}
	free(maps);
	close(mem);
	if (!err)
		*out = res;
	return err;
}

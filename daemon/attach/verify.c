/* SPDX-License-Identifier: BSD-2-Clause */
#include "attach/verify.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BREAKPOINT 0xcc
#define PAGE_BYTES 4096u

/* The target's memory, a page at a time: sites are in order, many to a page, and what a read costs
 * is the way there. */
struct page {
	int mem;
	uint64_t address; /* 0: none was read yet */
	unsigned char bytes[PAGE_BYTES];
};

static int maps_of(const struct target *t, const struct plan *plan, rt_u32 object,
		   struct target_map **maps, size_t *cnt)
{
	uint32_t source = plan->objects[object].source;

	return source ? target__object_maps(t, &t->objects[source - 1], maps, cnt)
		      : target__exe_maps(t, maps, cnt);
}

static int read_byte(struct page *p, uint64_t addr, unsigned char *out)
{
	uint64_t begin = addr & ~(uint64_t)(PAGE_BYTES - 1);
	ssize_t n;

	if (begin != p->address) {
		p->address = 0;
		n = pread(p->mem, p->bytes, PAGE_BYTES, (off_t)begin);
		if (n != PAGE_BYTES)
			return n < 0 && errno ? -errno : -EIO;
		p->address = begin;
	}
	*out = p->bytes[addr - begin];
	return 0;
}

static int look_at(struct page *page, uint64_t addr, const struct plan_site *s,
		   struct verify_result *res)
{
	unsigned char byte = 0;
	int err;

	if (!addr) {
		res->unmapped++;
		return 0;
	}
	err = read_byte(page, addr, &byte);
	if (err)
		return err;
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

static bool is_armed(const struct links *links, const struct plan_site *s)
{
	return links__mode(links, s->fn) >=
	       (s->kind == RT_SITE_ENTRY ? LINKS_COUNTED : LINKS_TIMED);
}

int verify__sites(const struct target *t, const struct plan *plan, const struct links *links,
		  struct verify_result *out)
{
	struct verify_result res = { .unreached = out->unreached, .gaps = out->gaps };
	struct target_map *maps = NULL;
	size_t map_cnt = 0, armed_before = 0;
	struct page page = { .mem = target__open_mem(t) };
	int err = 0;

	if (page.mem < 0)
		return page.mem;
	for (size_t i = 0; i < plan->site_cnt && !err; i++) {
		const struct plan_site *s = &plan->sites[i];

		if (!i || s->object != s[-1].object) {
			free(maps);
			maps = NULL;
			armed_before = res.armed;
			err = maps_of(t, plan, s->object, &maps, &map_cnt);
		}
		if (err || !is_armed(links, s))
			continue;
		err = look_at(&page, target__address(maps, map_cnt, s->offset), s, &res);
		if (res.unreached)
			res.unreached[s->object] = res.armed == armed_before;
	}
	free(maps);
	close(page.mem);
	if (!err)
		*out = res;
	return err;
}

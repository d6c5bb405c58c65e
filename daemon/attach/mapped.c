/* SPDX-License-Identifier: BSD-2-Clause */
#include "attach/mapped.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

static size_t bytes_of(const struct bpf_map *map)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t len = (size_t)bpf_map__max_entries(map) * bpf_map__value_size(map);

	return (len + page - 1) / page * page;
}

static int map_it(const struct bpf_map *map, int prot, void *out)
{
	void *p = mmap(NULL, bytes_of(map), prot, MAP_SHARED, bpf_map__fd(map), 0);

	if (p == MAP_FAILED)
		return -errno;
	*(void **)out = p;
	return 0;
}

int mapped__new(const struct bpf_map *map, void *out)
{
	return map_it(map, PROT_READ | PROT_WRITE, out);
}

int mapped__new_readonly(const struct bpf_map *map, void *out)
{
	return map_it(map, PROT_READ, out);
}

void mapped__free(const struct bpf_map *map, const void *p)
{
	if (p)
		munmap((void *)p, bytes_of(map));
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "attach/doorbell.h"

#include <bpf/libbpf.h>

/* It is nothing but that. */
static struct ring_buffer *ring_of(const struct doorbell *d)
{
	return (struct ring_buffer *)d;
}

static int forget(void *ctx, void *data, size_t size)
{
	return 0;
}

struct doorbell *doorbell__new(const struct bpf_map *map)
{
	return (struct doorbell *)ring_buffer__new(bpf_map__fd(map), forget, NULL, NULL);
}

void doorbell__free(struct doorbell *d)
{
	ring_buffer__free(ring_of(d));
}

int doorbell__fd(const struct doorbell *d)
{
	return ring_buffer__epoll_fd(ring_of(d));
}

void doorbell__answer(struct doorbell *d)
{
	(void)ring_buffer__consume(ring_of(d));
}

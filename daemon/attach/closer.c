/* SPDX-License-Identifier: BSD-2-Clause */
#include "attach/closer.h"

#include <bpf/libbpf.h>
#include <pthread.h>

#include "base/vec.h"

#define THREADS 32

void closer__add(struct closer *c, struct bpf_link *link)
{
	struct bpf_link **slot;

	if (!link)
		return;
	slot = vec__push(c);
	if (slot)
		*slot = link;
	else
		bpf_link__destroy(link);
}

void closer__move(struct closer *to, struct closer *from)
{
	for (size_t i = 0; i < from->cnt; i++)
		closer__add(to, from->data[i]);
	vec__free(from);
}

struct work {
	const struct closer *c;
	size_t next;
};

static void *close_some(void *arg)
{
	struct work *w = arg;
	size_t i;

	while ((i = __atomic_fetch_add(&w->next, 1, __ATOMIC_RELAXED)) < w->c->cnt)
		bpf_link__destroy(w->c->data[i]);
	return NULL;
}

void closer__run(struct closer *c)
{
	struct work w = { .c = c };
	pthread_t threads[THREADS];
	size_t n = 0;

	while (n < THREADS && n + 1 < c->cnt && !pthread_create(&threads[n], NULL, close_some, &w))
		n++;
	close_some(&w);
	while (n)
		pthread_join(threads[--n], NULL);
	vec__free(c);
}

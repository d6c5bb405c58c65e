/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES 65536u
#define ALIGN _Alignof(max_align_t)

struct block {
	struct block *next;
	size_t used, bytes;
	_Alignas(ALIGN) char data[];
};

/* The first block is the one being filled; what is bigger than a block has one of its own. */
struct arena {
	struct block *blocks;
};

struct arena *arena__new(void)
{
	return calloc(1, sizeof(struct arena));
}

void arena__free(struct arena *a)
{
	struct block *next;

	if (!a)
		return;
	for (struct block *b = a->blocks; b; b = next) {
		next = b->next;
		free(b);
	}
	free(a);
}

static struct block *add_block(struct arena *a, size_t bytes)
{
	struct block *b = calloc(1, sizeof(*b) + bytes);

	if (!b)
		return NULL;
	b->bytes = bytes;
	if (a->blocks && bytes > BLOCK_BYTES) {
		b->next = a->blocks->next;
		a->blocks->next = b;
	} else {
		b->next = a->blocks;
		a->blocks = b;
	}
	return b;
}

void *arena__alloc(struct arena *a, size_t bytes)
{
	struct block *b = a->blocks;
	void *p;

	if (bytes > SIZE_MAX / 2)
		return NULL;
	bytes = (bytes + ALIGN - 1) & ~(ALIGN - 1);
	if (!b || b->bytes - b->used < bytes)
		b = add_block(a, bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES);
	if (!b)
		return NULL;
	p = b->data + b->used;
	b->used += bytes;
	return p;
}

char *arena__strdup(struct arena *a, const char *s)
{
	size_t bytes = strlen(s) + 1;
	char *copy = arena__alloc(a, bytes);

	return copy ? memcpy(copy, s, bytes) : NULL;
}

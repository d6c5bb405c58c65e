/* SPDX-License-Identifier: BSD-2-Clause */
/* A mmap-able BPF array as memory: polling it is reading it. */
#ifndef ATTACH_MAPPED_H
#define ATTACH_MAPPED_H

struct bpf_map;

/* The whole array, at *(void **)out; 0 or -errno. */
int mapped__new(const struct bpf_map *map, void *out);
int mapped__new_readonly(const struct bpf_map *map, void *out);
/* p NULL: nothing. */
void mapped__free(const struct bpf_map *map, const void *p);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* What programs wake the daemon by (bpf/doorbell.bpf.h): a descriptor that becomes readable. */
#ifndef ATTACH_DOORBELL_H
#define ATTACH_DOORBELL_H

struct bpf_map;
struct doorbell;

/* NULL with errno. */
struct doorbell *doorbell__new(const struct bpf_map *map);
void doorbell__free(struct doorbell *d);

int doorbell__fd(const struct doorbell *d);
/* Takes note: the descriptor is quiet until the next ring. */
void doorbell__answer(struct doorbell *d);

#endif

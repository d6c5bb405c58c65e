/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A snapshot from its file's text (docs/snapshot.md). The text may come from anywhere: what is no
 * such document is refused, and memory stays within some 20 times its length.
 */
#ifndef SNAPSHOT_READ_H
#define SNAPSHOT_READ_H

#include <stddef.h>

struct snapshot;
struct strbuf;

/*
 * Members that are not known are ignored; those that are must be there and make sense. A document
 * that roletrace wrote comes out of export/json byte for byte the same. 0, or -EINVAL with one
 * line in reason, -ENOMEM.
 */
int snapshot__read(const char *text, size_t len, struct snapshot **out, struct strbuf *reason);

#endif

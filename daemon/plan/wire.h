/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A plan as bytes, for the way out of the process that parses the file. The reader trusts nothing:
 * it comes from a process that has seen a hostile file. Same program on both sides: no versions.
 */
#ifndef PLAN_WIRE_H
#define PLAN_WIRE_H

#include <stddef.h>

struct plan;
struct strbuf;

void wire__write(const struct plan *plan, struct strbuf *out);
/* 0; -EPROTO when the bytes are no sound plan, -ENOMEM. */
int wire__read(const void *data, size_t len, struct plan **out);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* What the parts of the memory section share. Private to them. */
#ifndef UI_MEMORY_PARTS_H
#define UI_MEMORY_PARTS_H

#include "base/strbuf.h"
#include "ui/memory.h"
#include "ui/text.h"

struct snapshot;

#define MEMORY_NATIVES_SHOWN 3

/* Like memory__bytes, with a plus. */
void memory__signed_bytes(char *out, double bytes);
/* A line; all lines of a text, which is freed. What cannot be printed is escaped. */
void memory__line(struct strbuf *out, const struct memory_view *v, enum text_style style,
		  const char *text);
void memory__lines(struct strbuf *out, const struct memory_view *v, enum text_style style,
		   struct strbuf *text);
void memory__cell(struct strbuf *out, const struct memory_view *v, const char *text, int width);
/* What a table's other columns leave for names, as far as they need it. */
int memory__name_width(const struct memory_view *v, unsigned int numbers);
/* A native stack, frames of memory->native_refs: the innermost ones, without std's above the role's
 * own and with a few behind the last of them. */
void memory__native_path(struct strbuf *out, const struct memory_view *v, const struct snapshot *s,
			 uint32_t first, uint32_t depth);

/* The whole part. */
void memory__growth(struct strbuf *out, const struct memory_view *v, const struct snapshot *s);

#endif

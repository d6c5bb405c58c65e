/* SPDX-License-Identifier: BSD-2-Clause */
#include "ui/place.h"

#include <string.h>

#include "base/rust_name.h"
#include "base/strbuf.h"
#include "snapshot/snapshot.h"
#include "ui/text.h"

static bool is_scaffold(const struct snapshot_frame *f)
{
	return f->kind == FRAME_STD || f->kind == FRAME_LIB || f->kind == FRAME_KERNEL ||
	       f->kind == FRAME_UNKNOWN || rust_name__is_runtime(f->name);
}

/* Code of the program that has no name. Other files' code without one is FRAME_LIB. */
static bool is_nameless(const struct snapshot_frame *f)
{
	return f->kind == FRAME_UNKNOWN && f->module;
}

uint32_t place__depth(const struct snapshot_profiles *p, const uint32_t *refs, uint32_t depth)
{
	uint32_t other = 0, nameless = 0;

	for (uint32_t i = depth; i; i--) {
		const struct snapshot_frame *f = &p->frames.data[refs[i - 1]];

		if (f->kind == FRAME_OWN)
			return i;
		if (!other && !is_scaffold(f))
			other = i;
		if (!nameless && is_nameless(f))
			nameless = i;
	}
	return other ?: nameless;
}

const char *place__name(const struct snapshot_profiles *p, const uint32_t *refs, uint32_t depth)
{
	uint32_t at = place__depth(p, refs, depth);

	return at ? p->frames.data[refs[at - 1]].name : NULL;
}

void place__put(struct strbuf *out, const char *name, size_t columns)
{
	static const char none[] = "(std, runtime or system alone)",
			  narrow[] = "(runtime or system)";

	if (name)
		text__name(out, name, columns);
	else
		strbuf__adds(out, columns < sizeof(none) - 1 ? narrow : none);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Folded stacks, as stackcollapse writes and flamegraph.pl, inferno and speedscope read them: a
 * line for each stack, "root;...;leaf VALUE"; of a difference "root;...;leaf OLD NEW". Names are
 * whole. What would end a frame or a line is written as \xHH, a backslash as \\, so distinct names
 * stay distinct. Stacks of no value are left out.
 */
#include "export/export.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/strbuf.h"
#include "base/utf8.h"
#include "export/flame.h"

static void add_name(struct strbuf *out, const char *name)
{
	size_t len = strlen(name), bytes;

	for (; len; name += bytes, len -= bytes) {
		uint32_t c = utf8__decode(name, len, &bytes);

		if (c == '\\')
			strbuf__adds(out, "\\\\");
		else if (c == ';' || c < 0x20 || c == 0x7f)
			strbuf__addf(out, "\\x%02x", (unsigned int)c);
		else
			utf8__encode(out, c);
	}
}

static int render(const struct flame_ask *ask, struct strbuf *out)
{
	struct flames *f = flames__new(ask);
	struct flame_rows rows;

	if (!f || flames__rows(f, f->ask.kind, FLAME_NAMES, &rows)) {
		flames__free(f);
		return -ENOMEM;
	}
	for (size_t i = 0; i < rows.cnt; i++) {
		const struct flame_row *r = &rows.rows[i];
		double old = (double)r->old * flames__old_scale(f, f->ask.kind);

		if (!r->value && !r->old)
			continue;
		for (uint32_t at = 0; at < r->depth; at++) {
			if (at)
				strbuf__addc(out, ';');
			add_name(out, rows.texts[r->ids[at]]);
		}
		if (ask->old)
			strbuf__addf(out, " %.0f", round(old));
		strbuf__addf(out, " %llu\n", (unsigned long long)r->value);
	}
	flame_rows__free(&rows);
	flames__free(f);
	return out->oom ? -ENOMEM : 0;
}

const struct exporter export_folded = { .name = "folded", .suffix = ".folded", .flame = render };

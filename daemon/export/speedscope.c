/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * speedscope's own format (its file-format-schema.json): one table of frames, a "sampled" profile
 * for each kind. The address in $schema names the format; nothing is fetched from it.
 */
#include "export/export.h"

#include <errno.h>
#include <string.h>

#include "base/strbuf.h"
#include "base/version.h"
#include "export/flame.h"
#include "export/json.h"
#include "snapshot/snapshot.h"

static void frames(struct jsonw *w, const struct flames *f)
{
	jsonw__key(w, "shared");
	jsonw__open(w, '{');
	jsonw__key(w, "frames");
	jsonw__open(w, '[');
	for (size_t i = 0; i < f->pool->frames.cnt; i++) {
		const struct snapshot_frame *frame = &f->pool->frames.data[i];

		jsonw__line(w);
		jsonw__open(w, '{');
		put_string(w, "name", frame->name);
		if (frame->file)
			put_string(w, "file", frame->file);
		if (frame->file && frame->line)
			put_uint(w, "line", frame->line);
		jsonw__close(w, '}');
	}
	jsonw__close(w, ']');
	jsonw__close(w, '}');
}

static void samples(struct jsonw *w, const struct flame_graph *g)
{
	jsonw__key(w, "samples");
	jsonw__open(w, '[');
	for (size_t i = 0; i < g->stacks.cnt; i++) {
		jsonw__line(w);
		jsonw__open(w, '[');
		for (uint32_t at = 0; at < g->stacks.data[i].depth; at++)
			jsonw__uint(w, g->refs.data[g->stacks.data[i].first + at]);
		jsonw__close(w, ']');
	}
	jsonw__close(w, ']');
	jsonw__key(w, "weights");
	jsonw__open(w, '[');
	for (size_t i = 0; i < g->stacks.cnt; i++)
		jsonw__uint(w, g->stacks.data[i].value);
	jsonw__close(w, ']');
}

static void profile(struct jsonw *w, const struct flames *f, enum flame_kind kind)
{
	const char *unit = flame_infos[kind].unit;
	struct strbuf title = STRBUF_INIT;

	flames__title(f, kind, &title);
	jsonw__line(w);
	jsonw__open(w, '{');
	put_string(w, "type", "sampled");
	put_string(w, "name", title.s);
	put_string(w, "unit",
		   !strcmp(unit, "ns")	    ? "nanoseconds"
		   : !strcmp(unit, "bytes") ? "bytes"
					    : "none");
	put_uint(w, "startValue", 0);
	put_uint(w, "endValue", f->now[kind].total);
	samples(w, &f->now[kind]);
	jsonw__close(w, '}');
	strbuf__free(&title);
}

static int render(const struct flame_ask *ask, struct strbuf *out)
{
	struct flames *f = flames__new(ask);
	struct jsonw w = { .out = out };

	if (!f)
		return -ENOMEM;
	jsonw__open(&w, '{');
	put_string(&w, "$schema", "https://www.speedscope.app/file-format-schema.json");
	put_string(&w, "exporter", version__tool);
	put_string(&w, "name", ask->s->target.comm ?: "?");
	put_uint(&w, "activeProfileIndex", 0);
	frames(&w, f);
	jsonw__key(&w, "profiles");
	jsonw__open(&w, '[');
	for (int kind = 0; kind < FLAME_CNT; kind++)
		if (f->kinds & 1u << kind && (ask->kind == FLAME_ANY || (int)ask->kind == kind))
			profile(&w, f, (enum flame_kind)kind);
	jsonw__close(&w, ']');
	jsonw__close(&w, '}');
	strbuf__addc(out, '\n');
	flames__free(f);
	return out->oom ? -ENOMEM : 0;
}

const struct exporter export_speedscope = {
	.name = "speedscope", .suffix = ".speedscope.json", .flame = render, .no_diff = true
};

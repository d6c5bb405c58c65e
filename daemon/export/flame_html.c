/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A flamegraph as one page that needs nothing else: export/flame/page.{html,css,js} with the data
 * as JSON in it. All kinds that the snapshot has are in the page. The page draws; here its data is
 * put together. page.html has marks where the parts go: @TITLE@ @CSS@ @DATA@ @JS@.
 */
#include "export/export.h"

#include <errno.h>
#include <string.h>

#include "base/strbuf.h"
#include "base/version.h"
#include "export/flame.h"
#include "export/flame_page.h"
#include "export/json.h"
#include "snapshot/snapshot.h"

/* n name, s label and g folded where they differ from the one before, k kind, r runtime */
static void frames(struct jsonw *w, const struct flames *f)
{
	jsonw__key(w, "frames");
	jsonw__open(w, '[');
	for (size_t i = 0; i < f->pool->frames.cnt; i++) {
		const struct snapshot_frame *frame = &f->pool->frames.data[i];
		const struct flame_frame *text = &f->frames[i];

		jsonw__line(w);
		jsonw__open(w, '{');
		put_string(w, "n", frame->name);
		if (strcmp(text->label, frame->name) != 0)
			put_string(w, "s", text->label);
		if (strcmp(text->folded, text->label) != 0)
			put_string(w, "g", text->folded);
		put_string(w, "k", frame_kind_names[frame->kind]);
		if (frame->module)
			put_string(w, "m", frame->module);
		if (frame->file)
			put_string(w, "f", frame->file);
		if (frame->file && frame->line)
			put_uint(w, "l", frame->line);
		if (frame->inlined)
			put_uint(w, "i", 1);
		if (text->runtime)
			put_uint(w, "r", 1);
		jsonw__close(w, '}');
	}
	jsonw__close(w, ']');
}

/* [[frames], value, count] */
static void stacks(struct jsonw *w, const char *key, const struct flame_graph *g)
{
	jsonw__key(w, key);
	jsonw__open(w, '[');
	for (size_t i = 0; i < g->stacks.cnt; i++) {
		const struct flame_stack *stack = &g->stacks.data[i];

		jsonw__line(w);
		jsonw__open(w, '[');
		jsonw__open(w, '[');
		for (uint32_t at = 0; at < stack->depth; at++)
			jsonw__uint(w, g->refs.data[stack->first + at]);
		jsonw__close(w, ']');
		jsonw__uint(w, stack->value);
		jsonw__uint(w, stack->count);
		jsonw__close(w, ']');
	}
	jsonw__close(w, ']');
}

static void graph(struct jsonw *w, const struct flames *f, enum flame_kind kind)
{
	const struct flame_info *info = &flame_infos[kind];
	struct strbuf text = STRBUF_INIT;

	jsonw__line(w);
	jsonw__open(w, '{');
	put_string(w, "kind", info->word);
	flames__title(f, kind, &text);
	put_string(w, "title", text.s);
	put_string(w, "unit", info->unit);
	put_string(w, "count", info->count);
	jsonw__key(w, "adds_up");
	jsonw__bool(w, info->adds_up);
	put_real(w, "old_scale", flames__old_scale(f, kind));
	strbuf__reset(&text);
	flames__notes(f, kind, &text);
	put_string(w, "notes", text.s);
	stacks(w, "stacks", &f->now[kind]);
	if (f->ask.old)
		stacks(w, "old", &f->old[kind]);
	jsonw__close(w, '}');
	w->out->oom |= text.oom;
	strbuf__free(&text);
}

static void data(const struct flames *f, struct strbuf *out)
{
	const struct snapshot *s = f->ask.s;
	struct jsonw w = { .out = out };

	jsonw__open(&w, '{');
	put_string(&w, "version", version__number);
	put_string(&w, "comm", s->target.comm);
	put_uint(&w, "window_ns", s->window.duration_ns);
	put_uint(&w, "start_unix_ns", s->window.start_unix_ns);
	put_uint(&w, "hz",
		 s->profiles && s->profiles->of[PROFILE_CPU] ? s->profiles->of[PROFILE_CPU]->hz
							     : 0);
	put_string(&w, "first", flame_infos[f->ask.kind].word);
	frames(&w, f);
	jsonw__key(&w, "graphs");
	jsonw__open(&w, '[');
	for (int kind = 0; kind < FLAME_CNT; kind++)
		if (f->kinds & 1u << kind)
			graph(&w, f, (enum flame_kind)kind);
	jsonw__close(&w, ']');
	jsonw__close(&w, '}');
}

/* In JSON '<' stands in strings alone; so nothing in them can end the element they lie in. */
static void add_data(const struct flames *f, struct strbuf *out)
{
	struct strbuf json = STRBUF_INIT;

	data(f, &json);
	for (const char *s = json.s, *lt; *s; s = lt) {
		lt = strchrnul(s, '<');
		strbuf__add(out, s, (size_t)(lt - s));
		if (*lt) {
			strbuf__adds(out, "\\u003c");
			lt++;
		}
	}
	out->oom |= json.oom;
	strbuf__free(&json);
}

static void add_title(const struct flames *f, struct strbuf *out)
{
	struct strbuf title = STRBUF_INIT;

	flames__title(f, f->ask.kind, &title);
	for (const char *c = title.s; *c; c++)
		strbuf__adds(out, *c == '<' ? "&lt;" : *c == '&' ? "&amp;" : (char[]){ *c, '\0' });
	strbuf__free(&title);
}

/* A mark of the page; how long it is, 0 when there is none at s. */
static size_t add_part(const struct flames *f, const char *s, size_t len, struct strbuf *out)
{
	static const char *const marks[] = { "@TITLE@", "@CSS@", "@DATA@", "@JS@" };
	struct flame_file file;
	size_t i = 0;

	while (i < 4 && (len < strlen(marks[i]) || memcmp(s, marks[i], strlen(marks[i])) != 0))
		i++;
	switch (i) {
	case 0:
		add_title(f, out);
		break;
	case 1:
		file = flame_page__css();
		strbuf__add(out, file.data, file.len);
		break;
	case 2:
		add_data(f, out);
		break;
	case 3:
		file = flame_page__js();
		strbuf__add(out, file.data, file.len);
		break;
	default:
		return 0;
	}
	return strlen(marks[i]);
}

static int render(const struct flame_ask *ask, struct strbuf *out)
{
	struct flame_file page = flame_page__html();
	struct flames *f = flames__new(ask);

	if (!f)
		return -ENOMEM;
	for (size_t at = 0; at < page.len;) {
		size_t mark = add_part(f, page.data + at, page.len - at, out);

		if (!mark)
			strbuf__addc(out, page.data[at]);
		at += mark ?: 1;
	}
	flames__free(f);
	return out->oom ? -ENOMEM : 0;
}

const struct exporter export_html = { .name = "html", .suffix = ".html", .flame = render };

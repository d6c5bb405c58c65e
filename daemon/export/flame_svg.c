/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A flamegraph as a picture: no script, tooltips by <title>, light or dark as the viewer is. The
 * roots are at the top; a frame is as wide as its value, of a difference its new value, and then
 * red where it grew and blue where it shrank.
 */
#include "export/export.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "base/utf8.h"
#include "export/flame.h"
#include "snapshot/snapshot.h"

#define WIDTH 1200.0
#define MARGIN 10.0
#define ROW 18.0
#define COLUMN 7.3     /* of text */
#define MIN_WIDTH 0.25 /* what is narrower is not drawn, and neither is what it called */
#define MAX_ROWS 1000u

static const char style[] =
	"<style>\n"
	"text{font:12px ui-monospace,'DejaVu Sans Mono',monospace;fill:#1b1b1b}\n"
	".page{fill:#fff}.head{font-size:15px;font-weight:600}.note{fill:#555}\n"
	".own{fill:#f2a25c}.dep{fill:#f3d27a}.std{fill:#cfd2d6}.lib{fill:#9fc5e8}\n"
	".kernel{fill:#c9b3e6}.unknown{fill:#e3dccf}.all{fill:#e8eaed}\n"
	"rect{stroke:#fff;stroke-width:.5}g:hover rect{stroke:#000;stroke-width:1}\n"
	"@media(prefers-color-scheme:dark){text{fill:#f0f0f0}.page{fill:#17181b}"
	".note{fill:#aaa}.own{fill:#a85a1c}.dep{fill:#80661f}.std{fill:#4a4e54}"
	".lib{fill:#2f5f8c}.kernel{fill:#5d4588}.unknown{fill:#55503f}.all{fill:#33363b}"
	"rect{stroke:#17181b}g:hover rect{stroke:#fff}}\n"
	"</style>\n";

/* An open frame of the row that the pen is in. */
struct box {
	uint32_t id;
	uint64_t from, old_from; /* sums of what is left of it */
	uint64_t count;		 /* the same, where counts add up; else its own */
};

struct drawing {
	const struct flames *f;
	const struct flame_rows *rows;
	enum flame_kind kind;
	uint64_t total, old_total; /* of all */
	uint64_t at, old_at, count_at;
	struct strbuf *out;
	double top, scale; /* scale: of old values */
	struct box *open;
	size_t open_cnt;
	uint32_t deepest;
	bool hidden; /* something was too narrow or too deep */
};

/* ---- text ---- */

static void add_xml(struct strbuf *out, const char *s)
{
	struct strbuf text = STRBUF_INIT;

	utf8__add_printable(&text, s);
	for (const char *c = text.s; *c; c++) {
		if (*c == '<')
			strbuf__adds(out, "&lt;");
		else if (*c == '>')
			strbuf__adds(out, "&gt;");
		else if (*c == '&')
			strbuf__adds(out, "&amp;");
		else
			strbuf__addc(out, *c);
	}
	out->oom |= text.oom;
	strbuf__free(&text);
}

/* The end of a path says more than its beginning. */
static const char *shorten_path(const char *s, unsigned int columns)
{
	const char *at;

	while (utf8__width(s) > columns && (at = strstr(s, "::")) && at > s &&
	       !memchr(s, '<', (size_t)(at - s)) && !memchr(s, '(', (size_t)(at - s)) && at[2])
		s = at + 2;
	return s;
}

/* As much of s as has room, the end of it replaced by an ellipsis. */
static void add_fitting(struct strbuf *out, const char *s, unsigned int columns)
{
	struct strbuf text = STRBUF_INIT, cut = STRBUF_INIT;
	size_t len, bytes;
	unsigned int used = 0;

	utf8__add_printable(&text, s);
	if (utf8__width(text.s) <= columns) {
		add_xml(out, text.s);
		strbuf__free(&text);
		return;
	}
	len = text.len;
	for (const char *c = text.s; len; c += bytes, len -= bytes) {
		uint32_t ch = utf8__decode(c, len, &bytes);

		used += utf8__columns(ch);
		if (used + 1 > columns)
			break;
		utf8__encode(&cut, ch);
	}
	add_xml(out, cut.s);
	strbuf__adds(out, "…");
	strbuf__free(&text);
	strbuf__free(&cut);
}

static double share(uint64_t value, double total)
{
	return total > 0 ? (double)value / total * 100 : 0;
}

static void add_figures(struct drawing *d, uint64_t value, uint64_t old, const uint64_t *count)
{
	const struct flame_info *info = &flame_infos[d->kind];
	double old_scaled = (double)old * d->scale;

	flame__add_value(d->out, d->kind, (double)value);
	strbuf__addf(d->out, " (%.2f %%)", share(value, (double)d->total));
	if (info->count && count)
		strbuf__addf(d->out, ", %llu %s", (unsigned long long)*count, info->count);
	if (!d->f->ask.old)
		return;
	strbuf__adds(d->out, ", was ");
	flame__add_value(d->out, d->kind, old_scaled);
	strbuf__adds(d->out, (double)value >= old_scaled ? ", +" : ", -");
	flame__add_value(d->out, d->kind, fabs((double)value - old_scaled));
}

/* ---- frames ---- */

/* How much of everything a frame grew or shrank decides how red or blue it is. */
static void add_difference_colour(struct drawing *d, uint64_t value, uint64_t old)
{
	double was = (double)old * d->scale, is = (double)value;
	double all = fmax((double)d->total, (double)d->old_total * d->scale);
	double change = all > 0 ? (is - was) / all : 0;
	int faded = 235 - (int)(fmin(1, sqrt(fabs(change) * 4)) * 150);

	if (change >= 0)
		strbuf__addf(d->out, " style=\"fill:rgb(235,%d,%d)\"", faded, faded);
	else
		strbuf__addf(d->out, " style=\"fill:rgb(%d,%d,235)\"", faded, faded);
}

static void add_box(struct drawing *d, uint32_t depth, const char *label, const char *name,
		    const char *class, const struct box *box)
{
	uint64_t value = d->at - box->from, old = d->old_at - box->old_from;
	bool adds_up = flame_infos[d->kind].adds_up;
	uint64_t count = adds_up ? d->count_at - box->count : box->count;
	double unit = d->total ? (WIDTH - 2 * MARGIN) / (double)d->total : 0;
	double x = MARGIN + (double)box->from * unit, width = (double)value * unit;
	double y = d->top + depth * ROW;
	unsigned int columns;

	if (width < MIN_WIDTH || depth >= MAX_ROWS) {
		d->hidden |= value != 0;
		return;
	}
	if (depth > d->deepest)
		d->deepest = depth;
	strbuf__adds(d->out, "<g><title>");
	add_xml(d->out, name);
	strbuf__adds(d->out, "\n");
	add_figures(d, value, old, adds_up || depth ? &count : NULL);
	strbuf__addf(d->out,
		     "</title><rect class=\"%s\" x=\"%.2f\" y=\"%.0f\" width=\"%.2f\" "
		     "height=\"%.0f\" rx=\"1\"",
		     class, x, y, width, ROW - 1);
	if (d->f->ask.old)
		add_difference_colour(d, value, old);
	strbuf__adds(d->out, "/>");
	if (width > 3 * COLUMN) {
		strbuf__addf(d->out, "<text x=\"%.2f\" y=\"%.0f\"%s>", x + 3, y + 13,
			     d->f->ask.old ? " style=\"fill:#111\"" : "");
		columns = (unsigned int)((fmin(width, WIDTH) - 4) / COLUMN);
		add_fitting(d->out, shorten_path(label, columns), columns);
		strbuf__adds(d->out, "</text>");
	}
	strbuf__adds(d->out, "</g>\n");
}

static void close_to(struct drawing *d, size_t depth)
{
	while (d->open_cnt > depth) {
		const struct box *box = &d->open[--d->open_cnt];
		uint32_t frame = d->rows->frames[box->id];
		const struct snapshot_frame *s = &d->f->pool->frames.data[frame];
		const char *class = d->f->frames[frame].runtime ? "std" : frame_kind_names[s->kind];

		add_box(d, (uint32_t)d->open_cnt + 1, d->rows->texts[box->id], s->name, class, box);
	}
}

static void draw_row(struct drawing *d, const struct flame_row *r)
{
	bool adds_up = flame_infos[d->kind].adds_up;
	size_t same = 0;

	while (same < d->open_cnt && same < r->depth && d->open[same].id == r->ids[same])
		same++;
	close_to(d, same);
	for (; d->open_cnt < r->depth; d->open_cnt++)
		d->open[d->open_cnt] = (struct box){ r->ids[d->open_cnt], d->at, d->old_at,
						     adds_up ? d->count_at : 0 };
	if (!adds_up && r->depth)
		d->open[r->depth - 1].count += r->count;
	d->at += r->value;
	d->old_at += r->old;
	d->count_at += r->count;
}

static int draw_rows(struct drawing *d)
{
	uint32_t depth = 0;

	for (size_t i = 0; i < d->rows->cnt; i++) {
		d->total += d->rows->rows[i].value;
		d->old_total += d->rows->rows[i].old;
		if (d->rows->rows[i].depth > depth)
			depth = d->rows->rows[i].depth;
	}
	d->open = calloc(depth + 1, sizeof(*d->open));
	if (!d->open)
		return -ENOMEM;
	for (size_t i = 0; i < d->rows->cnt; i++)
		draw_row(d, &d->rows->rows[i]);
	close_to(d, 0);
	if (d->total)
		add_box(d, 0, "all", "all", "all", &(struct box){ .count = 0 });
	free(d->open);
	return 0;
}

/* ---- the page ---- */

static void add_line(struct strbuf *out, double y, const char *class, const char *text)
{
	strbuf__addf(out, "<text class=\"%s\" x=\"%.0f\" y=\"%.0f\">", class, MARGIN, y);
	add_fitting(out, text, (unsigned int)((WIDTH - 2 * MARGIN) / COLUMN));
	strbuf__adds(out, "</text>\n");
}

/* Title and notes; where the graph begins. */
static double add_head(const struct flames *f, struct strbuf *out)
{
	struct strbuf text = STRBUF_INIT;
	char *line, *rest;
	double y = 44;

	flames__title(f, f->ask.kind, &text);
	add_line(out, 24, "head", text.s);
	strbuf__reset(&text);
	flames__notes(f, f->ask.kind, &text);
	rest = text.s;
	while ((line = strsep(&rest, "\n")))
		if (*line) {
			add_line(out, y, "note", line);
			y += ROW;
		}
	out->oom |= text.oom;
	strbuf__free(&text);
	return y;
}

static int draw(const struct flames *f, const struct flame_rows *rows, struct strbuf *out)
{
	struct strbuf head = STRBUF_INIT, body = STRBUF_INIT;
	struct drawing d = { .f = f, .rows = rows, .kind = f->ask.kind, .out = &body };
	double height;
	int err;

	d.scale = flames__old_scale(f, d.kind);
	d.top = add_head(f, &head);
	err = draw_rows(&d);
	height = d.top + (d.deepest + 2) * ROW + 10;
	if (d.hidden)
		add_line(&body, height - 12, "note",
			 "What is narrower than a fourth of a pixel is not drawn.");
	strbuf__addf(out,
		     "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		     "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" "
		     "width=\"%.0f\" height=\"%.0f\">\n%s<rect class=\"page\" width=\"100%%\" "
		     "height=\"100%%\"/>\n",
		     WIDTH, height, WIDTH, height, style);
	strbuf__adds(out, head.s);
	strbuf__adds(out, body.s);
	strbuf__adds(out, "</svg>\n");
	if (head.oom || body.oom || out->oom)
		err = -ENOMEM;
	strbuf__free(&head);
	strbuf__free(&body);
	return err;
}

static int render(const struct flame_ask *ask, struct strbuf *out)
{
	struct flames *f = flames__new(ask);
	struct flame_rows rows;
	int err = -ENOMEM;

	if (f && !flames__rows(f, f->ask.kind, FLAME_FOLDED, &rows)) {
		err = draw(f, &rows, out);
		flame_rows__free(&rows);
	}
	flames__free(f);
	return err;
}

const struct exporter export_svg = { .name = "svg", .suffix = ".svg", .flame = render };

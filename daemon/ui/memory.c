/* SPDX-License-Identifier: BSD-2-Clause */
#include "ui/memory.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "base/utf8.h"
#include "snapshot/snapshot.h"
#include "ui/text.h"

#define ROWS_SHOWN 8
#define GROWTH_SHOWN 4
#define FRAMES_SHOWN 6u
#define NATIVES_SHOWN 2
#define NATIVES_ALONE 3
#define NATIVE_FRAMES_SHOWN 12u
#define FRAMES_BEHIND_OWN 2u
#define SPARKS 30u
#define NUMBERS_WIDTH 56 /* of a table's columns behind the name */
#define GROWTH_WIDTH 40

void memory__bytes(char *out, double bytes)
{
	static const char *const units[] = { "B", "KB", "MB", "GB", "TB", "PB" };
	size_t unit = 0;
	double v = fabs(bytes);

	for (; v >= 999.5 && unit + 1 < sizeof(units) / sizeof(units[0]); unit++)
		v /= 1024;
	snprintf(out, TEXT_CELL - 1, "%s%.*f%s", bytes < 0 ? "-" : "",
		 !unit || v >= 99.95 ? 0
		 : v >= 9.995	     ? 1
				     : 2,
		 v, units[unit]);
}

static void signed_bytes(char *out, double bytes)
{
	if (bytes > 0)
		*out++ = '+';
	memory__bytes(out, bytes);
}

static void line(struct strbuf *out, const struct memory_view *v, enum text_style style,
		 const char *text)
{
	struct strbuf safe = STRBUF_INIT;

	utf8__add_printable(&safe, text);
	text__cell(out, safe.s ? safe.s : "", 0, style, v->colour);
	strbuf__addc(out, '\n');
	strbuf__free(&safe);
}

/* ---- the whole ---- */

static void spark(struct strbuf *out, double value, double lo, double hi)
{
	static const char *const bars[] = { "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
	double at = hi > lo ? (value - lo) / (hi - lo) * 7 : 0;

	strbuf__adds(out, bars[(unsigned int)lround(at)]);
}

/* The last of each few samples, from the lowest to the highest. */
static void sparkline(struct strbuf *out, const struct snapshot_memory *m)
{
	uint32_t step = (m->history_cnt + SPARKS - 1) / SPARKS;
	double lo = INFINITY, hi = -INFINITY;

	for (uint32_t i = 0; i < m->history_cnt; i++) {
		double v = m->source ? (double)m->live_history[i] : (double)m->rss_history[i];

		lo = v < lo ? v : lo;
		hi = v > hi ? v : hi;
	}
	for (uint32_t i = step ? step - 1 : 0; step && i < m->history_cnt; i += step)
		spark(out, m->source ? (double)m->live_history[i] : (double)m->rss_history[i], lo,
		      hi);
}

/* A space, or another line where what comes does not fit on the last one. */
static void fit(struct strbuf *text, const struct memory_view *v, size_t columns)
{
	const char *last = strrchr(text->s, '\n');
	size_t taken = utf8__width(last ? last + 1 : text->s);

	strbuf__adds(text, taken + 1 + columns > v->width ? "\n  " : " ");
}

static void process(const struct snapshot_memory *m, const struct memory_view *v,
		    struct strbuf *text)
{
	char rss[TEXT_CELL], growth[TEXT_CELL], anon[TEXT_CELL], mapped[TEXT_CELL];

	memory__bytes(rss, (double)m->rss_bytes);
	signed_bytes(growth, (double)(int64_t)(m->rss_bytes - m->rss_start_bytes));
	memory__bytes(anon, (double)m->anon_bytes);
	memory__bytes(mapped, (double)m->mapped_bytes);
	strbuf__addf(text, "Memory: %s resident (%s since the attach), %s of it anonymous;", rss,
		     growth, anon);
	fit(text, v, strlen(mapped) + strlen(" mapped"));
	strbuf__addf(text, "%s mapped", mapped);
	if (!m->source && m->history_cnt > 2) {
		fit(text, v, SPARKS);
		sparkline(text, m);
	}
}

static void sampled(const struct snapshot_memory *m, struct strbuf *text)
{
	char bytes[TEXT_CELL];

	memory__bytes(bytes, (double)m->sample_bytes);
	strbuf__addf(text, "\nOf blocks a sample is remembered, one of about %s: ~ is estimated",
		     bytes);
	/* else it is made of the sample, which has blocks of this time only */
	if (!m->estimated)
		strbuf__adds(text, "\nThe total is exact, and net: frees of blocks from before the "
				   "attach are in it");
}

static void live(const struct snapshot_memory *m, struct strbuf *text)
{
	char bytes[TEXT_CELL], made[TEXT_CELL], freed[TEXT_CELL], error[TEXT_CELL];
	const char *about = m->estimated ? "~" : "";

	signed_bytes(bytes, (double)sums__live_bytes(&m->sums));
	memory__bytes(made, (double)m->sums.alloc_bytes);
	memory__bytes(freed, (double)m->sums.freed_bytes);
	memory__bytes(error, (double)m->live_error_bytes);
	strbuf__addf(text, "Live: %s%s", about, bytes);
	if (m->estimated)
		strbuf__addf(text, " ± %s", error);
	strbuf__addf(text, " in %s%+" PRId64 " blocks since the attach (%s, %s bytes) ", about,
		     sums__live_count(&m->sums), m->source, m->basis);
	sparkline(text, m);
	strbuf__addf(text, "\nAllocated %s in %" PRIu64 " blocks, freed %s%s in %s%" PRIu64, made,
		     m->sums.alloc_count, about, freed, about, m->sums.freed_count);
	if (m->unknown_frees)
		strbuf__addf(text, "; %" PRIu64 " frees of blocks from before", m->unknown_frees);
	if (m->failed)
		strbuf__addf(text, "; %" PRIu64 " allocations failed", m->failed);
	if (m->sampled)
		sampled(m, text);
}

static void lines(struct strbuf *out, const struct memory_view *v, enum text_style style,
		  struct strbuf *text)
{
	char *save = NULL;

	for (char *l = strtok_r(text->s, "\n", &save); l; l = strtok_r(NULL, "\n", &save))
		line(out, v, style, l);
	strbuf__free(text);
}

/* ---- who allocates ---- */

static int by_live(const void *a, const void *b, void *arg)
{
	const struct snapshot *s = arg;
	const struct snapshot_sums *x = &s->fns[*(const uint32_t *)a].alloc;
	const struct snapshot_sums *y = &s->fns[*(const uint32_t *)b].alloc;
	int64_t lx = sums__live_bytes(x), ly = sums__live_bytes(y);

	if (lx != ly)
		return lx < ly ? 1 : -1;
	return x->alloc_bytes < y->alloc_bytes ? 1 : x->alloc_bytes > y->alloc_bytes ? -1 : 0;
}

static void cell(struct strbuf *out, const struct memory_view *v, const char *text, int width)
{
	text__cell(out, text, width, STYLE_PLAIN, v->colour);
}

/* What a table's other columns leave for names, as far as they need it. */
static int name_width(const struct memory_view *v, unsigned int numbers)
{
	unsigned int room = v->width > numbers + 20 ? v->width - numbers : 20;

	return (int)(v->longest < room ? v->longest : room);
}

/* Of functions that allocate or make it grow; no less than the tables' heads. */
static unsigned int longest_name(const struct snapshot *s)
{
	const struct snapshot_memory *m = s->memory;
	size_t longest = 20, width;

	for (size_t i = 0; i < s->fn_cnt; i++) {
		width = s->fns[i].has_alloc ? utf8__width(s->fns[i].name) : 0;
		longest = width > longest ? width : longest;
	}
	for (size_t i = 0; i < m->growth_cnt; i++) {
		const struct snapshot_growth *g = &m->growth[i];

		width = g->thread ? strlen("[thread ]") + utf8__width(g->thread)
				  : utf8__width(g->frames[g->depth - 1]);
		longest = width > longest ? width : longest;
	}
	return (unsigned int)(longest < 10000 ? longest : 10000);
}

static void head(struct strbuf *out, const struct memory_view *v)
{
	struct strbuf row = STRBUF_INIT;

	text__cell(&row, "Allocating function", -name_width(v, NUMBERS_WIDTH), STYLE_PLAIN, false);
	strbuf__addf(&row, " %9s %8s %9s %9s %8s %7s", "Live", "Blocks", "Allocated", "Allocs",
		     "Each", "Freed");
	strbuf__addc(out, '\n');
	line(out, v, STYLE_BOLD, row.s);
	strbuf__free(&row);
}

static void row(struct strbuf *out, const struct memory_view *v, const struct snapshot_fn *fn)
{
	const struct snapshot_sums *a = &fn->alloc;
	struct strbuf name = STRBUF_INIT;
	char text[TEXT_CELL + 1] = "~";
	int about = fn->alloc_estimated;

	text__name(&name, fn->name, (size_t)name_width(v, NUMBERS_WIDTH));
	cell(out, v, name.s, -name_width(v, NUMBERS_WIDTH));
	memory__bytes(text + about, (double)sums__live_bytes(a));
	cell(out, v, text, 10);
	text[0] = '~';
	snprintf(text + about, sizeof(text) - 1, "%" PRId64, sums__live_count(a));
	cell(out, v, text, 9);
	memory__bytes(text, (double)a->alloc_bytes);
	cell(out, v, text, 10);
	text__count(text, a->alloc_count, 9);
	cell(out, v, text, 10);
	memory__bytes(text, (double)a->alloc_bytes / (double)a->alloc_count);
	cell(out, v, text, 9);
	text[0] = '~';
	text__percent(text + about, (double)a->freed_count / (double)a->alloc_count);
	cell(out, v, text, 8);
	strbuf__addc(out, '\n');
	strbuf__free(&name);
}

static void functions(struct strbuf *out, const struct memory_view *v, const struct snapshot *s)
{
	uint32_t *order = malloc((s->fn_cnt + 1) * sizeof(*order));
	size_t n = 0, limit = v->limit ? v->limit : ROWS_SHOWN;
	struct strbuf more = STRBUF_INIT;

	if (!order) {
		out->oom = true;
		return;
	}
	for (uint32_t i = 0; i < s->fn_cnt; i++)
		if (s->fns[i].alloc.alloc_count)
			order[n++] = i;
	qsort_r(order, n, sizeof(*order), by_live, (void *)s);
	if (n)
		head(out, v);
	for (size_t i = 0; i < n && i < limit; i++)
		row(out, v, &s->fns[order[i]]);
	if (n > limit) {
		strbuf__addf(&more, "... and %zu more", n - limit);
		lines(out, v, STYLE_DIM, &more);
	}
	free(order);
}

/* ---- by call path ---- */

/* The innermost frames, the function that allocates last. */
static void path(struct strbuf *out, const struct memory_view *v, const char *const *frames,
		 uint32_t depth, uint32_t most)
{
	for (uint32_t i = depth > most ? depth - most : 0; i < depth; i++) {
		struct strbuf text = STRBUF_INIT;

		strbuf__adds(&text, i ? "  → " : "    ");
		text__name(&text, frames[i], v->width > 24 ? v->width - 4 : 20);
		lines(out, v, STYLE_PLAIN, &text);
	}
}

/* The last frame of the role's own; without any the innermost. */
static uint32_t last_own(const struct snapshot *s, const uint32_t *refs, uint32_t depth)
{
	for (uint32_t i = depth; i; i--)
		if (s->profiles->frames.data[refs[i - 1]].kind == FRAME_OWN)
			return i - 1;
	return depth ? depth - 1 : 0;
}

/* The innermost frames, without std's above the role's own and with a few behind the last of them.
 */
static void native_path(struct strbuf *out, const struct memory_view *v, const struct snapshot *s,
			const struct snapshot_native *n)
{
	const uint32_t *refs = s->memory->native_refs.data + n->first;
	const char *names[NATIVE_FRAMES_SHOWN];
	uint32_t last = last_own(s, refs, n->depth), cnt = 0;
	uint32_t at =
		last + 1 + FRAMES_BEHIND_OWN < n->depth ? last + 1 + FRAMES_BEHIND_OWN : n->depth;

	for (; at && cnt < NATIVE_FRAMES_SHOWN; at--) {
		const struct snapshot_frame *f = &s->profiles->frames.data[refs[at - 1]];

		if (f->kind != FRAME_STD || at - 1 > last)
			names[NATIVE_FRAMES_SHOWN - ++cnt] = f->name;
	}
	path(out, v, names + NATIVE_FRAMES_SHOWN - cnt, cnt, NATIVE_FRAMES_SHOWN);
}

/* Without traced functions they are all there is to tell who allocates. */
static void top_natives(struct strbuf *out, const struct memory_view *v, const struct snapshot *s)
{
	const struct snapshot_memory *m = s->memory;
	size_t limit = v->limit ? v->limit : NATIVES_ALONE;
	const char *about = m->sample_bytes > 1 ? "~" : "";

	for (size_t i = 0; i < m->native_cnt && i < limit && s->profiles; i++) {
		const struct snapshot_native *n = &m->native[i];
		char live[TEXT_CELL], error[TEXT_CELL], made[TEXT_CELL];
		struct strbuf text = STRBUF_INIT;

		memory__bytes(live, (double)n->live_bytes);
		memory__bytes(error, (double)n->live_error_bytes);
		memory__bytes(made, (double)n->alloc_bytes);
		strbuf__addf(&text, "Live: %s%s", about, live);
		if (n->live_error_bytes)
			strbuf__addf(&text, " ± %s", error);
		strbuf__addf(&text, " in %s%" PRIu64 " blocks, of %s%s allocated in", about,
			     n->live_count, about, made);
		lines(out, v, STYLE_PLAIN, &text);
		native_path(out, v, s, n);
	}
}

static int by_old(const void *a, const void *b)
{
	const struct snapshot_native *x = *(const struct snapshot_native *const *)a;
	const struct snapshot_native *y = *(const struct snapshot_native *const *)b;

	return x->old_bytes < y->old_bytes ? 1 : x->old_bytes > y->old_bytes ? -1 : 0;
}

/* The native stacks of what a call path holds that is old, most first. */
static void natives(struct strbuf *out, const struct memory_view *v, const struct snapshot *s,
		    const struct snapshot_alloc_stack *a)
{
	const struct snapshot_memory *m = s->memory;
	const struct snapshot_native **all = calloc(m->native_cnt + 1, sizeof(*all));
	size_t cnt = 0;

	if (!all) {
		out->oom = true;
		return;
	}
	for (size_t i = 0; i < m->native_cnt && s->profiles; i++)
		if (m->native[i].stack == (uint32_t)(a - s->alloc_stacks) && m->native[i].old_count)
			all[cnt++] = &m->native[i];
	qsort(all, cnt, sizeof(*all), by_old);
	for (size_t i = 0; i < cnt && i < NATIVES_SHOWN; i++) {
		char bytes[TEXT_CELL], error[TEXT_CELL];
		struct strbuf text = STRBUF_INIT;

		memory__bytes(bytes, (double)all[i]->old_bytes);
		memory__bytes(error, (double)all[i]->old_error_bytes);
		strbuf__addf(&text, "  native stack, %s%s", m->sample_bytes > 1 ? "~" : "", bytes);
		if (all[i]->old_error_bytes)
			strbuf__addf(&text, " ± %s", error);
		strbuf__addf(&text,
			     " of it%s:", all[i]->truncated ? " (not followed to its root)" : "");
		lines(out, v, STYLE_DIM, &text);
		native_path(out, v, s, all[i]);
	}
	free(all);
}

static void suspect(struct strbuf *out, const struct memory_view *v,
		    const struct snapshot_alloc_stack *a, double leak_after_s)
{
	const char *about = a->estimated ? "~" : "";
	char rate[TEXT_CELL], error[TEXT_CELL], bytes[TEXT_CELL], age[TEXT_CELL];
	struct strbuf text = STRBUF_INIT;

	memory__bytes(rate, a->old_slope);
	memory__bytes(error, a->old_slope_error);
	memory__bytes(bytes, (double)a->old_bytes);
	text__duration(age, a->oldest_ns);
	strbuf__addf(&text,
		     "Perhaps a leak: %s%s/s ± %s stay, %s%s in %s%" PRIu64
		     " blocks older than %gs "
		     "(the oldest %s), allocated in",
		     about, rate, error, about, bytes, about, a->old_count, leak_after_s, age);
	lines(out, v, STYLE_WARM, &text);
	path(out, v, a->frames, a->depth, FRAMES_SHOWN);
}

static int by_old_slope(const void *a, const void *b)
{
	const struct snapshot_alloc_stack *x = *(const struct snapshot_alloc_stack *const *)a;
	const struct snapshot_alloc_stack *y = *(const struct snapshot_alloc_stack *const *)b;

	return x->old_slope < y->old_slope ? 1 : x->old_slope > y->old_slope ? -1 : 0;
}

/* "None" only where enough was seen to say so. */
static void no_suspects(struct strbuf *out, const struct memory_view *v, const struct snapshot *s)
{
	const struct snapshot_memory *m = s->memory;
	struct strbuf text = STRBUF_INIT;

	if (m->leaks_why)
		strbuf__addf(&text, "%s: %s.",
			     m->leaks == VERDICT_GROWING ? "There may be more"
							 : "Cannot tell whether there are leaks",
			     m->leaks_why);
	else if (s->alloc_stack_cnt && m->leaks == VERDICT_STEADY)
		strbuf__addf(&text, "No call path looks like a leak%s.",
			     m->sampled ? ", as far as the sample shows" : "");
	if (text.len)
		line(out, v, m->reliable && !m->unowned_count ? STYLE_DIM : STYLE_WARM, text.s);
	strbuf__free(&text);
}

static void suspects(struct strbuf *out, const struct memory_view *v, const struct snapshot *s)
{
	const struct snapshot_alloc_stack **all = calloc(s->alloc_stack_cnt + 1, sizeof(*all));
	size_t n = 0;

	if (!all) {
		out->oom = true;
		return;
	}
	for (size_t i = 0; i < s->alloc_stack_cnt; i++)
		if (s->alloc_stacks[i].verdict == VERDICT_GROWING)
			all[n++] = &s->alloc_stacks[i];
	qsort(all, n, sizeof(*all), by_old_slope);
	for (size_t i = 0; i < n && i < ROWS_SHOWN; i++) {
		suspect(out, v, all[i], s->memory->leak_after_s);
		natives(out, v, s, all[i]);
	}
	no_suspects(out, v, s);
	free(all);
}

/* ---- who makes the process larger ---- */

static void growth_head(struct strbuf *out, const struct memory_view *v,
			const struct snapshot_memory *m)
{
	struct strbuf row = STRBUF_INIT;

	text__cell(&row, "Grows in", -name_width(v, GROWTH_WIDTH), STYLE_PLAIN, false);
	strbuf__addf(&row, " %9s", "Faults");
	if (m->has_maps)
		strbuf__addf(&row, " %9s %9s %9s", "Data", "Mapped", "Unmapped");
	strbuf__addc(out, '\n');
	line(out, v, STYLE_BOLD, row.s);
	strbuf__free(&row);
}

static void growth_name(struct strbuf *out, const struct memory_view *v,
			const struct snapshot_growth *g)
{
	struct strbuf name = STRBUF_INIT, full = STRBUF_INIT;

	if (g->thread) {
		strbuf__adds(&full, "[thread ");
		utf8__add_printable(&full, g->thread);
		strbuf__addc(&full, ']');
	} else {
		strbuf__adds(&full, g->frames[g->depth - 1]);
	}
	text__name(&name, full.s ? full.s : "", (size_t)name_width(v, GROWTH_WIDTH));
	cell(out, v, name.s, -name_width(v, GROWTH_WIDTH));
	strbuf__free(&name);
	strbuf__free(&full);
}

static void growth_row(struct strbuf *out, const struct memory_view *v,
		       const struct snapshot_memory *m, const struct snapshot_growth *g)
{
	char text[TEXT_CELL];

	growth_name(out, v, g);
	text__count(text, g->page_faults, 9);
	cell(out, v, text, 10);
	if (m->has_maps) {
		signed_bytes(text, (double)g->data_bytes);
		cell(out, v, text, 10);
		memory__bytes(text, (double)g->mapped_bytes);
		cell(out, v, text, 10);
		memory__bytes(text, (double)g->unmapped_bytes);
		cell(out, v, text, 10);
	}
	strbuf__addc(out, '\n');
}

static bool is_same_growth(const struct snapshot_growth *a, const struct snapshot_growth *b)
{
	if (!a->thread != !b->thread)
		return false;
	if (a->thread)
		return !strcmp(a->thread, b->thread);
	return !strcmp(a->frames[a->depth - 1], b->frames[b->depth - 1]);
}

static void add_growth(struct snapshot_growth *to, const struct snapshot_growth *g)
{
	to->page_faults += g->page_faults;
	to->mapped_bytes += g->mapped_bytes;
	to->unmapped_bytes += g->unmapped_bytes;
	to->data_bytes += g->data_bytes;
}

static int by_growth(const void *a, const void *b)
{
	const struct snapshot_growth *x = a, *y = b;
	int64_t gx = x->data_bytes + (int64_t)x->page_faults * 4096;
	int64_t gy = y->data_bytes + (int64_t)y->page_faults * 4096;

	return gx < gy ? 1 : gx > gy ? -1 : 0;
}

/* By function: two paths to one would look alike here, the file has them apart. NULL: no memory. */
static struct snapshot_growth *merge_growth(const struct snapshot_memory *m, size_t *cnt)
{
	struct snapshot_growth *all = calloc(m->growth_cnt + 1, sizeof(*all));

	*cnt = 0;
	for (size_t i = 0; all && i < m->growth_cnt; i++) {
		size_t at = 0;

		while (at < *cnt && !is_same_growth(&all[at], &m->growth[i]))
			at++;
		if (at < *cnt)
			add_growth(&all[at], &m->growth[i]);
		else
			all[(*cnt)++] = m->growth[i];
	}
	if (*cnt)
		qsort(all, *cnt, sizeof(*all), by_growth);
	return all;
}

static void growth(struct strbuf *out, const struct memory_view *v, const struct snapshot_memory *m)
{
	size_t limit = v->limit ? v->limit : GROWTH_SHOWN, cnt;
	struct snapshot_growth *all = merge_growth(m, &cnt);
	struct strbuf more = STRBUF_INIT;

	if (!all)
		out->oom = true;
	if (cnt)
		growth_head(out, v, m);
	for (size_t i = 0; i < cnt && i < limit; i++)
		growth_row(out, v, m, &all[i]);
	if (cnt > limit) {
		strbuf__addf(&more, "... and %zu more", cnt - limit);
		lines(out, v, STYLE_DIM, &more);
	}
	free(all);
	if (m->maps_why)
		line(out, v, STYLE_DIM, m->maps_why);
}

void memory__section(const struct snapshot *s, const struct memory_view *of, struct strbuf *out)
{
	const struct snapshot_memory *m = s->memory;
	struct memory_view fitted = *of, *view = &fitted;
	struct strbuf text = STRBUF_INIT;

	if (!m)
		return;
	fitted.longest = longest_name(s);
	text__gap(out);
	process(m, view, &text);
	lines(out, view, STYLE_PLAIN, &text);
	if (m->source) {
		live(m, &text);
		lines(out, view, STYLE_PLAIN, &text);
		functions(out, view, s);
		if (!s->fn_cnt)
			top_natives(out, view, s);
		if (m->mode == MEMORY_STACKS)
			suspects(out, view, s);
	} else {
		growth(out, view, m);
	}
}

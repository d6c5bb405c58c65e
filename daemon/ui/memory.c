/* SPDX-License-Identifier: BSD-2-Clause */
#include "ui/memory.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/plural.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "snapshot/snapshot.h"
#include "ui/memory_parts.h"
#include "ui/text.h"

#define ROWS_SHOWN 8
#define FRAMES_SHOWN 6u
#define NATIVES_SHOWN 2
#define NATIVE_FRAMES_SHOWN 12u
#define FRAMES_BEHIND_OWN 2u
#define SPARKS 30u
#define PAST_BYTES (1 << 20)
#define NUMBERS_WIDTH 56 /* of a table's columns behind the name */

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

void memory__signed_bytes(char *out, double bytes)
{
	if (bytes > 0)
		*out++ = '+';
	memory__bytes(out, bytes);
}

void memory__line(struct strbuf *out, const struct memory_view *v, enum text_style style,
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
	memory__signed_bytes(growth, (double)(int64_t)(m->rss_bytes - m->rss_start_bytes));
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
	int64_t count = sums__live_count(&m->sums);

	memory__signed_bytes(bytes, (double)sums__live_bytes(&m->sums));
	memory__bytes(made, (double)m->sums.alloc_bytes);
	memory__bytes(freed, (double)m->sums.freed_bytes);
	memory__bytes(error, (double)m->live_error_bytes);
	strbuf__addf(text, "Live: %s%s", about, bytes);
	if (m->estimated)
		strbuf__addf(text, " ± %s", error);
	strbuf__addf(text, " in %s%+" PRId64 " block%s since the attach (%s, %s bytes) ", about,
		     count, plural__s((uint64_t)(count < 0 ? -count : count)), m->source, m->basis);
	sparkline(text, m);
	strbuf__addf(text, "\nAllocated %s in %" PRIu64 " block%s, freed %s%s in %s%" PRIu64, made,
		     m->sums.alloc_count, plural__s(m->sums.alloc_count), about, freed, about,
		     m->sums.freed_count);
	if (m->unknown_frees)
		strbuf__addf(text, "; %" PRIu64 " free%s of blocks from before", m->unknown_frees,
			     plural__s(m->unknown_frees));
	if (m->failed)
		strbuf__addf(text, "; %" PRIu64 " allocation%s failed", m->failed,
			     plural__s(m->failed));
	if (m->unowned_count) {
		memory__bytes(made, (double)m->unowned_bytes);
		strbuf__addf(text,
			     "\nNot remembered (--max-blocks): %" PRIu64
			     " block%s, %s: in the totals, in no row below",
			     m->unowned_count, plural__s(m->unowned_count), made);
	}
	if (m->sampled)
		sampled(m, text);
}

void memory__lines(struct strbuf *out, const struct memory_view *v, enum text_style style,
		   struct strbuf *text)
{
	char *save = NULL;

	for (char *l = strtok_r(text->s, "\n", &save); l; l = strtok_r(NULL, "\n", &save))
		memory__line(out, v, style, l);
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

void memory__cell(struct strbuf *out, const struct memory_view *v, const char *text, int width)
{
	text__cell(out, text, width, STYLE_PLAIN, v->colour);
}

/* What a table's other columns leave for names, as far as they need it. */
int memory__name_width(const struct memory_view *v, unsigned int numbers)
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

	text__cell(&row, "Allocating function", -memory__name_width(v, NUMBERS_WIDTH), STYLE_PLAIN,
		   false);
	strbuf__addf(&row, " %9s %8s %9s %9s %8s %7s", "Live", "Blocks", "Allocated", "Allocs",
		     "Each", "Freed");
	strbuf__addc(out, '\n');
	memory__line(out, v, STYLE_BOLD, row.s);
	strbuf__free(&row);
}

static void row(struct strbuf *out, const struct memory_view *v, const struct snapshot_fn *fn)
{
	const struct snapshot_sums *a = &fn->alloc;
	struct strbuf name = STRBUF_INIT;
	char text[TEXT_CELL + 1] = "~";
	int about = fn->alloc_estimated;

	text__name(&name, fn->name, (size_t)memory__name_width(v, NUMBERS_WIDTH));
	memory__cell(out, v, name.s, -memory__name_width(v, NUMBERS_WIDTH));
	memory__bytes(text + about, (double)sums__live_bytes(a));
	memory__cell(out, v, text, 10);
	text[0] = '~';
	snprintf(text + about, sizeof(text) - 1, "%" PRId64, sums__live_count(a));
	memory__cell(out, v, text, 9);
	memory__bytes(text, (double)a->alloc_bytes);
	memory__cell(out, v, text, 10);
	text__count(text, a->alloc_count, 9);
	memory__cell(out, v, text, 10);
	memory__bytes(text, (double)a->alloc_bytes / (double)a->alloc_count);
	memory__cell(out, v, text, 9);
	text[0] = '~';
	text__percent(text + about, (double)a->freed_count / (double)a->alloc_count);
	memory__cell(out, v, text, 8);
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
		memory__lines(out, v, STYLE_DIM, &more);
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
		memory__lines(out, v, STYLE_PLAIN, &text);
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
void memory__native_path(struct strbuf *out, const struct memory_view *v, const struct snapshot *s,
			 uint32_t first, uint32_t depth)
{
	const uint32_t *refs = s->memory->native_refs.data + first;
	const char *names[NATIVE_FRAMES_SHOWN];
	uint32_t last = last_own(s, refs, depth), cnt = 0;
	uint32_t at = last + 1 + FRAMES_BEHIND_OWN < depth ? last + 1 + FRAMES_BEHIND_OWN : depth;

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
	size_t limit = v->limit ? v->limit : MEMORY_NATIVES_SHOWN;
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
		strbuf__addf(&text, " in %s%" PRIu64 " block%s, of %s%s allocated in", about,
			     n->live_count, plural__s(n->live_count), about, made);
		memory__lines(out, v, STYLE_PLAIN, &text);
		memory__native_path(out, v, s, n->first, n->depth);
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

		/* an estimate; what is old in all is known */
		memory__bytes(bytes, fmin((double)all[i]->old_bytes, (double)a->old_bytes));
		memory__bytes(error, (double)all[i]->old_error_bytes);
		strbuf__addf(&text, "  native stack, %s%s", m->sample_bytes > 1 ? "~" : "", bytes);
		if (all[i]->old_error_bytes)
			strbuf__addf(&text, " ± %s", error);
		strbuf__addf(&text,
			     " of it%s:", all[i]->truncated ? " (not followed to its root)" : "");
		memory__lines(out, v, STYLE_DIM, &text);
		memory__native_path(out, v, s, all[i]->first, all[i]->depth);
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
		     " block%s older than %gs "
		     "(the oldest %s), allocated in",
		     about, rate, error, about, bytes, about, a->old_count, plural__s(a->old_count),
		     leak_after_s, age);
	memory__lines(out, v, STYLE_WARM, &text);
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
		memory__line(out, v, m->reliable && !m->unowned_count ? STYLE_DIM : STYLE_WARM,
			     text.s);
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

/* What the process grew by, and its allocators' live blocks do not explain. */
static double unexplained(const struct snapshot_memory *m)
{
	int64_t live = sums__live_bytes(&m->sums);
	int64_t grown =
		m->has_maps ? m->data_growth_bytes : (int64_t)(m->rss_bytes - m->rss_start_bytes);

	return (double)(grown - (live > 0 ? live : 0));
}

/* Who maps memory past the allocators is told in all modes, where it is much. */
static void past_allocators(struct strbuf *out, const struct memory_view *v,
			    const struct snapshot *s)
{
	double bytes = unexplained(s->memory);
	char text[TEXT_CELL];
	struct strbuf words = STRBUF_INIT;

	if (bytes < PAST_BYTES || !s->memory->growth_cnt)
		return;
	memory__bytes(text, bytes);
	strbuf__addf(&words, "The process grew by %s more than the blocks that are live:", text);
	memory__lines(out, v, STYLE_PLAIN, &words);
	memory__growth(out, v, s);
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
	memory__lines(out, view, STYLE_PLAIN, &text);
	if (m->source) {
		live(m, &text);
		memory__lines(out, view, STYLE_PLAIN, &text);
		functions(out, view, s);
		if (!s->fn_cnt)
			top_natives(out, view, s);
		if (m->mode == MEMORY_STACKS)
			suspects(out, view, s);
		past_allocators(out, view, s);
	} else {
		memory__growth(out, view, s);
	}
}

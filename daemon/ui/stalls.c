/* SPDX-License-Identifier: BSD-2-Clause */
#include "ui/stalls.h"

#include <inttypes.h>
#include <limits.h>
#include <string.h>

#include "base/rust_name.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "ui/text.h"

#define SHOWN_FRAMES 12u
#define WRAP_INDENT 4u
#define ENDED_THREADS 4u

/* How much of a line fits in so many columns: up to a space, or as much as there is. */
static size_t fitting(const char *line, size_t len, unsigned int columns)
{
	size_t fits = 0, n;

	for (size_t at = 0, width = 0; at < len; at += n) {
		width += utf8__columns(utf8__decode(line + at, len - at, &n));
		if (width > columns)
			return fits ?: at;
		if (at + n == len || line[at + n] == ' ')
			fits = at + n;
	}
	return len;
}

/* What does not fit goes on below, further in. */
static void add_line(struct strbuf *out, struct strbuf *line, unsigned int width,
		     enum text_style style, bool colour)
{
	unsigned int columns = width ? width : UINT_MAX, indent = 0;
	const char *s = line->s;
	size_t left = line->len, n;

	for (; left; s += n, left -= n) {
		struct strbuf part = STRBUF_INIT;

		/* the spaces at the beginning are no place to break */
		n = strspn(s, " ");
		n += fitting(s + n, left - n, columns - (indent ?: (unsigned int)n));
		strbuf__addf(&part, "%*s%.*s", (int)indent, "", (int)n, s);
		text__cell(out, part.s, 0, style, colour);
		strbuf__addc(out, '\n');
		strbuf__free(&part);
		if (!indent)
			indent = columns > 2 * WRAP_INDENT
					 ? (unsigned int)strspn(s, " ") + WRAP_INDENT
					 : 0;
		while (n < left && s[n] == ' ')
			n++;
	}
	strbuf__reset(line);
}

/* "%s" is who, and for how long. */
static const char *words_of(const struct snapshot_stall *s)
{
	switch (s->kind) {
	case STALL_DEADLOCK:
		if (!s->proven)
			return "suspected deadlock: %s for locks that nobody has freed";
		return s->thread_cnt == 1 ? "deadlock (proven): %s for a lock of its own"
					  : "deadlock (proven): %s for each other's locks";
	case STALL_LOCK_WAIT:
		return "suspected: %s for a lock that nobody has freed";
	case STALL_BLOCKED_POLL:
		return s->proven ? "%s in a poll that does not return"
				 : "suspected: %s, a worker blocked inside a poll";
	case STALL_DISK:
		return "%s for a disk";
	default:
		return "no progress: %s, nothing runs";
	}
}

static bool runs(const struct stall_thread *t)
{
	return t->state < THREAD_FUTEX;
}

/* A poll that is open need not wait. */
static const char *verb_of(const struct snapshot_stall *s)
{
	bool one = s->thread_cnt + s->more_threads == 1;

	if (s->kind != STALL_BLOCKED_POLL || !s->proven)
		return one ? "has waited" : "have waited";
	if (s->thread_cnt && runs(&s->threads[0]))
		return one ? "has been running" : "have been running";
	return one ? "has been" : "have been";
}

static void add_headline(const struct snapshot_stall *s, struct strbuf *line)
{
	size_t cnt = s->thread_cnt + s->more_threads;
	const char *words = words_of(s), *who = strstr(words, "%s");
	bool older = s->thread_cnt && s->threads[0].wait_older;
	char age[TEXT_CELL];

	text__duration(age, s->age_ns);
	strbuf__add(line, words, (size_t)(who - words));
	strbuf__addf(line, "%zu thread%s %s %s%s", cnt, cnt == 1 ? "" : "s", verb_of(s),
		     older ? "at least " : "", age);
	strbuf__adds(line, who + 2);
}

/* What hung went on, or ended. */
static void add_over(const struct snapshot_stall *s, struct strbuf *line)
{
	uint64_t later_ns =
		s->over_unix_ns > s->seen_unix_ns ? s->over_unix_ns - s->seen_unix_ns : 0;
	bool older = s->thread_cnt && s->threads[0].wait_older;
	char after[TEXT_CELL];

	text__duration(after, s->age_ns + later_ns);
	strbuf__addf(line, "over after %s%s", older ? "at least " : "", after);
}

static void add_who(const struct stall_thread *t, struct strbuf *line)
{
	strbuf__addf(line, "  %d (", t->tid);
	utf8__add_printable(line, t->name);
	strbuf__addf(line, "): ");
}

/* ---- traced calls ---- */

/* Where in the native stack the traced calls are: index + 1 of a frame, 0: nowhere. */
struct traced {
	uint32_t at[STALL_FRAMES];
};

/* A traced function may have a tag behind its name, to be unique. */
static bool is_function(const char *traced, const char *frame)
{
	size_t len = strlen(frame);

	return !strncmp(traced, frame, len) && (!traced[len] || traced[len] == ' ');
}

/* From the innermost on, both ways: either list may lack the other's outer part. */
static struct traced find_traced(const struct stall_thread *t)
{
	struct traced traced = {};
	uint32_t end = t->stack.frames ? t->stack.depth : 0;

	for (size_t i = t->frame_cnt; i-- > 0;) {
		uint32_t at = end;

		while (at && !is_function(t->frames[i].name, t->stack.frames[at - 1].name))
			at--;
		traced.at[i] = at;
		end = at ? at - 1 : end;
	}
	return traced;
}

/* How long the call of a frame has been open; 0: it is not traced. */
static uint64_t age_of(const struct stall_thread *t, const struct traced *traced, uint32_t frame)
{
	for (size_t i = 0; i < t->frame_cnt; i++)
		if (traced->at[i] == frame + 1)
			return t->frames[i].age_ns;
	return 0;
}

static void add_wait(const struct stall_thread *t, struct strbuf *line)
{
	char took[TEXT_CELL];

	text__duration(took, t->wait_ns);
	if (t->state == THREAD_RUNNING || t->state == THREAD_EXITED)
		strbuf__adds(line, thread_state_names[t->state]);
	else if (runs(t))
		strbuf__addf(line, "running, without a CPU for %s", took);
	else
		strbuf__addf(line, "%s %s%s", thread_state_names[t->state],
			     t->wait_older ? "at least " : "", took);
	if (t->holder_tid)
		strbuf__addf(line, ", %sheld by %d", t->holder_proven ? "" : "perhaps ",
			     t->holder_tid);
	if (t->address)
		strbuf__addf(line, ", %s 0x%" PRIx64, lock_kind_names[t->lock], t->address);
	else if (t->wchan[0]) {
		strbuf__adds(line, ", in ");
		utf8__add_printable(line, t->wchan);
	}
	if (!t->holder_tid && t->address && lock__is_lock(t->lock))
		strbuf__adds(line, ", holder unknown");
}

/* Traced calls that the native stack does not show. Innermost first: that is where it hangs. */
static void add_frames(const struct stall_thread *t, const struct traced *traced,
		       unsigned int width, struct strbuf *out)
{
	struct strbuf line = STRBUF_INIT;
	char age[TEXT_CELL];

	for (size_t i = t->frame_cnt; i-- > 0;) {
		if (traced->at[i])
			continue;
		text__duration(age, t->frames[i].age_ns);
		strbuf__addf(&line, "      in ");
		text__name(&line, t->frames[i].name, width > 40 ? width - 24 : 80);
		strbuf__addf(&line, " for %s", age);
		add_line(out, &line, width, STYLE_PLAIN, false);
	}
	strbuf__free(&line);
}

/* ---- native stacks ---- */

/* What is not the role's or its crates' work: there the reader learns how it waits, not why. */
static bool is_scaffold(const struct snapshot_frame *f)
{
	return f->kind == FRAME_STD || f->kind == FRAME_LIB || f->kind == FRAME_KERNEL ||
	       rust_name__is_runtime(f->name) || !strcmp(f->name, "_start");
}

static bool has_own(const struct snapshot_backtrace *b)
{
	for (uint32_t i = 0; i < b->depth; i++)
		if (!is_scaffold(&b->frames[i]))
			return true;
	return false;
}

static void add_frame(const struct snapshot_frame *f, uint64_t age_ns, unsigned int width,
		      struct strbuf *out)
{
	unsigned int taken = age_ns ? 24 : 12;
	struct strbuf line = STRBUF_INIT;
	char age[TEXT_CELL];

	strbuf__adds(&line, "      at ");
	text__name(&line, f->name, width > 40 ? width - taken : 160);
	if (f->inlined)
		strbuf__adds(&line, " (inlined)");
	text__duration(age, age_ns);
	if (age_ns)
		strbuf__addf(&line, " for %s", age);
	add_line(out, &line, width, STYLE_PLAIN, false);
	strbuf__free(&line);
}

static void add_folded(uint32_t cnt, const char *whose, unsigned int width, bool colour,
		       struct strbuf *out)
{
	struct strbuf line = STRBUF_INIT;

	strbuf__addf(&line, "      … %u frame%s %s", cnt, cnt == 1 ? "" : "s", whose);
	if (cnt)
		add_line(out, &line, width, STYLE_DIM, colour);
	strbuf__free(&line);
}

static void add_note(const char *why, unsigned int width, bool colour, struct strbuf *out)
{
	struct strbuf line = STRBUF_INIT;

	strbuf__addf(&line, "      cut off before the thread's start: %s", why);
	add_line(out, &line, width, STYLE_DIM, colour);
	strbuf__free(&line);
}

/*
 * Innermost first, as debuggers do, in full width: the frames of the role and its crates; what lies
 * between them is counted. With nothing of its own, how it waits is all there is to say.
 */
static void add_stack(const struct stall_thread *t, const struct traced *traced, unsigned int width,
		      bool colour, struct strbuf *out)
{
	const struct snapshot_backtrace *b = &t->stack;
	static const char scaffold[] = "of std, runtime or system";
	bool own = has_own(b);
	uint32_t shown = 0, hidden = 0, i = b->depth;

	for (; i && shown < SHOWN_FRAMES; i--) {
		const struct snapshot_frame *f = &b->frames[i - 1];
		uint64_t age_ns = age_of(t, traced, i - 1);

		if (own && is_scaffold(f) && !age_ns) {
			hidden++;
			continue;
		}
		add_folded(hidden, scaffold, width, colour, out);
		hidden = 0;
		add_frame(f, age_ns, width, out);
		shown++;
	}
	if (i)
		add_folded(i, "more", width, colour, out);
	else if (b->truncated && b->frames)
		add_note(b->truncated, width, colour, out);
}

void stalls__describe(const struct snapshot_stall *s, const char *prefix, unsigned int width,
		      bool colour, struct strbuf *out)
{
	struct strbuf line = STRBUF_INIT;
	struct traced traced;

	strbuf__adds(&line, prefix);
	add_headline(s, &line);
	if (s->over_unix_ns) {
		strbuf__adds(&line, "; ");
		add_over(s, &line);
	}
	add_line(out, &line, width, STYLE_HOT, colour);
	for (size_t i = 0; i < s->thread_cnt; i++) {
		add_who(&s->threads[i], &line);
		add_wait(&s->threads[i], &line);
		add_line(out, &line, width, STYLE_PLAIN, false);
		traced = find_traced(&s->threads[i]);
		add_frames(&s->threads[i], &traced, width, out);
		add_stack(&s->threads[i], &traced, width, colour, out);
	}
	if (s->more_threads) {
		strbuf__addf(&line, "  and %zu more threads", s->more_threads);
		add_line(out, &line, width, STYLE_PLAIN, false);
	}
	strbuf__free(&line);
}

static const char *short_words_of(const struct snapshot_stall *s)
{
	switch (s->kind) {
	case STALL_DEADLOCK:
		return s->proven ? "the deadlock of" : "the suspected deadlock of";
	case STALL_LOCK_WAIT:
		return "the wait for a lock of";
	case STALL_BLOCKED_POLL:
		return "the poll of";
	case STALL_DISK:
		return "the wait for a disk of";
	default:
		return "the standstill of";
	}
}

void stalls__describe_end(const struct snapshot_stall *s, struct strbuf *out)
{
	size_t more = s->more_threads;

	add_over(s, out);
	strbuf__addf(out, ": %s", short_words_of(s));
	for (size_t i = 0; i < s->thread_cnt; i++) {
		if (i == ENDED_THREADS) {
			more += s->thread_cnt - i;
			break;
		}
		strbuf__addf(out, "%s %d (", i ? "," : "", s->threads[i].tid);
		utf8__add_printable(out, s->threads[i].name);
		strbuf__addc(out, ')');
	}
	if (more)
		strbuf__addf(out, " and %zu more", more);
	strbuf__addc(out, '\n');
}

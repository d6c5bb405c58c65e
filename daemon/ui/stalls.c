/* SPDX-License-Identifier: BSD-2-Clause */
#include "ui/stalls.h"

#include <inttypes.h>
#include <limits.h>
#include <string.h>

#include "base/strbuf.h"
#include "base/utf8.h"
#include "ui/text.h"

static void add_line(struct strbuf *out, struct strbuf *line, unsigned int width,
		     enum text_style style, bool colour)
{
	struct strbuf clipped = STRBUF_INIT;

	text__clip(&clipped, line->s, line->len, width ? width : UINT_MAX);
	text__cell(out, clipped.s, 0, style, colour);
	strbuf__addc(out, '\n');
	strbuf__reset(line);
	strbuf__free(&clipped);
}

/* "%s" is who, and for how long. */
static const char *words_of(const struct snapshot_stall *s)
{
	switch (s->kind) {
	case STALL_DEADLOCK:
		if (!s->proven)
			return "suspected deadlock: %s for locks nobody frees";
		return s->thread_cnt == 1 ? "deadlock (proven): %s for a lock of its own"
					  : "deadlock (proven): %s for each other's locks";
	case STALL_LOCK_WAIT:
		return "suspected: %s for a lock nobody frees";
	case STALL_BLOCKED_POLL:
		return s->proven ? "%s in a poll that does not return"
				 : "suspected: %s, a worker blocked inside a poll";
	case STALL_DISK:
		return "%s for a disk";
	default:
		return "no progress: %s, nothing runs";
	}
}

static void add_headline(const struct snapshot_stall *s, struct strbuf *line)
{
	size_t cnt = s->thread_cnt + s->more_threads;
	const char *words = words_of(s), *who = strstr(words, "%s");
	char age[TEXT_CELL];

	text__duration(age, s->age_ns);
	strbuf__add(line, words, (size_t)(who - words));
	if (cnt == 1)
		strbuf__addf(line, "1 thread has waited %s", age);
	else
		strbuf__addf(line, "%zu threads have waited %s", cnt, age);
	strbuf__adds(line, who + 2);
}

static void add_who(const struct stall_thread *t, struct strbuf *line)
{
	strbuf__addf(line, "  %d (", t->tid);
	utf8__add_printable(line, t->name);
	strbuf__addf(line, "): ");
}

static void add_wait(const struct stall_thread *t, struct strbuf *line)
{
	char took[TEXT_CELL];

	text__duration(took, t->wait_ns);
	strbuf__addf(line, "%s %s", thread_state_names[t->state], took);
	if (t->holder_tid)
		strbuf__addf(line, ", held by %d", t->holder_tid);
	if (t->address)
		strbuf__addf(line, ", %s 0x%" PRIx64, lock_kind_names[t->lock], t->address);
	else if (t->wchan[0]) {
		strbuf__adds(line, ", in ");
		utf8__add_printable(line, t->wchan);
	}
	if (!t->holder_tid && t->address && lock__is_lock(t->lock))
		strbuf__adds(line, ", holder unknown");
}

/* Innermost first: that is where it hangs. */
static void add_frames(const struct stall_thread *t, unsigned int width, struct strbuf *out)
{
	struct strbuf line = STRBUF_INIT;
	char age[TEXT_CELL];

	for (size_t i = t->frame_cnt; i-- > 0;) {
		text__duration(age, t->frames[i].age_ns);
		strbuf__addf(&line, "      in ");
		text__name(&line, t->frames[i].name, width > 40 ? width - 24 : 80);
		strbuf__addf(&line, " for %s", age);
		add_line(out, &line, width, STYLE_PLAIN, false);
	}
	strbuf__free(&line);
}

void stalls__describe(const struct snapshot_stall *s, const char *prefix, unsigned int width,
		      bool colour, struct strbuf *out)
{
	struct strbuf line = STRBUF_INIT;

	strbuf__adds(&line, prefix);
	add_headline(s, &line);
	if (s->over_unix_ns)
		strbuf__adds(&line, " (over)");
	add_line(out, &line, width, STYLE_HOT, colour);
	for (size_t i = 0; i < s->thread_cnt; i++) {
		add_who(&s->threads[i], &line);
		add_wait(&s->threads[i], &line);
		add_line(out, &line, width, STYLE_PLAIN, false);
		add_frames(&s->threads[i], width, out);
	}
	if (s->more_threads) {
		strbuf__addf(&line, "  and %zu more threads", s->more_threads);
		add_line(out, &line, width, STYLE_PLAIN, false);
	}
	strbuf__free(&line);
}

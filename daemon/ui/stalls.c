/* SPDX-License-Identifier: BSD-2-Clause */
#include "ui/stalls.h"

#include <inttypes.h>
#include <string.h>

#include "base/strbuf.h"
#include "base/utf8.h"
#include "ui/text.h"

static void add_line(struct strbuf *out, struct strbuf *line, unsigned int width)
{
	if (width)
		text__clip(out, line->s, line->len, width);
	else
		strbuf__add(out, line->s, line->len);
	strbuf__addc(out, '\n');
	strbuf__reset(line);
}

static void add_headline(const struct snapshot_stall *s, struct strbuf *line)
{
	static const char *const words[STALL_KIND_CNT][2] = {
		[STALL_DEADLOCK] = { "a suspected deadlock: %s for locks that nobody gives up",
				     "a deadlock (proven): %s for each other's locks" },
		[STALL_LOCK_WAIT] = { "suspected: %s for a lock that nobody gives up",
				      "%s for a lock that nobody gives up" },
		[STALL_BLOCKED_POLL] = { "suspected: %s, a worker blocked inside a poll",
					 "%s inside a poll that does not return" },
		[STALL_DISK] = { "%s for a disk", "%s for a disk" },
		[STALL_NO_PROGRESS] = { "no progress: %s, nothing runs",
					"no progress: %s, nothing runs" },
	};
	size_t cnt = s->thread_cnt + s->more_threads;
	char who[TEXT_CELL * 2], age[TEXT_CELL];

	text__duration(age, s->age_ns);
	if (cnt == 1)
		snprintf(who, sizeof(who), "1 thread has waited %s", age);
	else
		snprintf(who, sizeof(who), "%zu threads have waited %s", cnt, age);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	strbuf__addf(line, words[s->kind][s->proven], who);
#pragma GCC diagnostic pop
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
	strbuf__addf(line, "%s for %s", thread_state_names[t->state], took);
	if (t->address)
		strbuf__addf(line, " at %s 0x%" PRIx64, lock_kind_names[t->lock], t->address);
	if (t->holder_tid)
		strbuf__addf(line, ", held by %d", t->holder_tid);
	else if (t->address && lock__is_lock(t->lock))
		strbuf__adds(line, ", which stores no holder");
	else if (t->wchan[0]) {
		strbuf__adds(line, " in ");
		utf8__add_printable(line, t->wchan);
	}
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
		add_line(out, &line, width);
	}
	strbuf__free(&line);
}

void stalls__describe(const struct snapshot_stall *s, unsigned int width, struct strbuf *out)
{
	struct strbuf line = STRBUF_INIT;

	add_headline(s, &line);
	if (s->over_unix_ns)
		strbuf__adds(&line, " (over)");
	add_line(out, &line, width);
	for (size_t i = 0; i < s->thread_cnt; i++) {
		add_who(&s->threads[i], &line);
		add_wait(&s->threads[i], &line);
		add_line(out, &line, width);
		add_frames(&s->threads[i], width, out);
	}
	if (s->more_threads) {
		strbuf__addf(&line, "  and %zu more threads", s->more_threads);
		add_line(out, &line, width);
	}
	strbuf__free(&line);
}

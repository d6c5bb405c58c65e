/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A verdict needs blocks that were watched for twice --leak-after, and nearly all of them
 * remembered. A path that grows is told in any case, for what is missing hides leaks and makes none
 * up: with probes taken away the verdicts are of then.
 */
#include "collect/leaks.h"

#include <errno.h>
#include <inttypes.h>

#include "base/arena.h"
#include "base/strbuf.h"

/* Of so many remembered blocks one may be missing. */
#define REMEMBERED_PER_MISSING 100

static uint64_t remembered(const struct snapshot *s)
{
	uint64_t n = 0;

	for (size_t i = 0; i < s->alloc_stack_cnt; i++)
		n += s->alloc_stacks[i].live_count;
	return n;
}

/* Estimates are too low already with one. */
static bool forgot(const struct snapshot *s)
{
	uint64_t missing = s->memory->unowned_count;

	return s->memory->sampled ? missing != 0 : missing * REMEMBERED_PER_MISSING > remembered(s);
}

static void too_short(const struct snapshot_memory *m, struct strbuf *why)
{
	strbuf__addf(why, "too short a look: it takes twice --leak-after, %gs",
		     2 * m->leak_after_s);
}

static void of_shed(const struct leaks_seen *seen, const struct snapshot_memory *m,
		    struct strbuf *why)
{
	strbuf__addf(why, "over budget, the allocator's probes were taken away after %.3gs; ",
		     (double)seen->watched_ns / 1e9);
	strbuf__addf(why, "%s--budget allows more",
		     m->sampled ? "" : "--sample-bytes 64k costs less, ");
}

static void of_forgotten(const struct snapshot_memory *m, struct strbuf *why)
{
	strbuf__addf(why, "%" PRIu64 " block%s not remembered, --max-blocks was reached; ",
		     m->unowned_count, m->unowned_count == 1 ? " was" : "s were");
	strbuf__addf(why, "%sa larger one helps", m->sampled ? "" : "--sample-bytes 64k or ");
}

/* Why the paths' verdicts are not the whole story; empty: they are. */
static void find_why(const struct leaks_seen *seen, const struct snapshot *s, bool judged,
		     struct strbuf *why)
{
	const struct snapshot_memory *m = s->memory;

	if (seen->shed)
		of_shed(seen, m, why);
	else if (m->why)
		strbuf__adds(why, m->why);
	else if (forgot(s))
		of_forgotten(m, why);
	else if ((double)seen->watched_ns < 2e9 * m->leak_after_s)
		too_short(m, why);
	else if (!judged && s->alloc_stack_cnt && m->sampled)
		strbuf__adds(why, "too few old blocks are in the sample");
}

int leaks__fill(const struct leaks_seen *seen, struct snapshot *s)
{
	struct snapshot_memory *m = s->memory;
	struct strbuf why = STRBUF_INIT;
	bool judged = false;

	for (size_t i = 0; i < s->alloc_stack_cnt; i++) {
		judged |= s->alloc_stacks[i].verdict != VERDICT_NONE;
		if (s->alloc_stacks[i].verdict == VERDICT_GROWING)
			m->leaks = VERDICT_GROWING;
	}
	find_why(seen, s, judged, &why);
	if (!why.len && m->leaks == VERDICT_NONE)
		m->leaks = VERDICT_STEADY;
	if (why.len) {
		if (!s->arena)
			s->arena = arena__new();
		m->leaks_why = s->arena && !why.oom ? arena__strdup(s->arena, why.s) : NULL;
	}
	strbuf__free(&why);
	return why.len && !m->leaks_why ? -ENOMEM : 0;
}

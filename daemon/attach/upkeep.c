/* SPDX-License-Identifier: BSD-2-Clause */
#include "attach/upkeep.h"

#include "attach/growth.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/strbuf.h"

#define LOOK_NS (NS_PER_SEC / 5)
#define CALM_LOOK_NS (NS_PER_SEC / 2) /* while it is less than CALM of the budget */
#define CALM 0.5
#define LOOKS 3u /* in a row above the budget */

static uint64_t spent_ns(const struct upkeep *u)
{
	const struct growth *growth = tracer__growth(u->tracer);

	return (u->threads ? threads__spent_ns(u->threads, NULL) : 0) +
	       (u->profiler ? profiler__spent_ns(u->profiler, NULL) : 0) +
	       (growth ? growth__spent_ns(growth, NULL) : 0);
}

/* What runs and has no smaller size. */
static void say_whole(const struct upkeep *u, double ratio)
{
	const struct {
		bool runs;
		const char *what, *without;
	} parts[] = {
		{ u->threads, "watching threads", "--no-threads" },
		{ u->profiler, "the profile", "no --off-cpu, no --cpu-profile" },
		{ tracer__growth(u->tracer), "memory growth", "--memory off" },
	};
	struct strbuf what = STRBUF_INIT, without = STRBUF_INIT;

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		if (!parts[i].runs)
			continue;
		strbuf__addf(&what, "%s%s", what.len ? ", " : "", parts[i].what);
		strbuf__addf(&without, "%s%s", without.len ? ", " : "", parts[i].without);
	}
	if (what.len && without.len)
		log_warn("over budget: %s: %.1f%% of a CPU, and can only be left out whole (%s)",
			 what.s, ratio * 100, without.s);
	strbuf__free(&what);
	strbuf__free(&without);
}

/* Stacks of who waits cannot be fewer: how long a wait will be is not known when it begins. Those
 * of growth are fewer already. */
static void shed(struct upkeep *u, double ratio)
{
	bool dropped = u->profiler && profiler__drop_wakers(u->profiler);

	u->over = 0;
	if (dropped) {
		log_warn("over budget: who ends waits is no longer noted (what is no probe takes "
			 "%.1f%% of a CPU; --budget)",
			 ratio * 100);
		return;
	}
	if (!u->said)
		say_whole(u, ratio);
	u->said = true;
}

void upkeep__tick(struct upkeep *u, uint64_t now_ns)
{
	uint64_t spent, took_ns = now_ns - u->look_ns;
	double ratio;

	if (u->budget < 0 || took_ns < (u->calm ? CALM_LOOK_NS : LOOK_NS))
		return;
	spent = spent_ns(u);
	ratio = u->look_ns && spent > u->spent_ns ? (double)(spent - u->spent_ns) / (double)took_ns
						  : 0;
	u->look_ns = now_ns;
	u->spent_ns = spent;
	tracer__reserve(u->tracer, ratio);
	u->calm = ratio < CALM * u->budget;
	if (tracer__growth(u->tracer))
		growth__tick(tracer__growth(u->tracer), took_ns);
	u->over = ratio > u->budget ? u->over + 1 : 0;
	if (u->over >= LOOKS)
		shed(u, ratio);
}

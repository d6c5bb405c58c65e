/* SPDX-License-Identifier: BSD-2-Clause */
#include "collect/trend.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

#define FIRST_INTERVAL_NS (NS_PER_SEC / 2)
#define FIRST_OF_OWNERS_NS (NS_PER_SEC / 4) /* a short run must have enough for a line */
#define MIN_SAMPLES 5u
/* Two-sided 95 % of Student's t for n - 2 degrees of freedom is near 2 from 10 on. */
#define T_95 2.2

struct sample {
	uint64_t rss_bytes;
	int64_t live_bytes;
	int64_t *live; /* by owner; NULL when none are followed */
};

struct trend {
	uint32_t owner_cnt, cnt;
	uint64_t interval_ns, next_ns;
	struct sample samples[SNAPSHOT_HISTORY];
};

struct trend *trend__new(uint32_t owner_cnt)
{
	struct trend *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->owner_cnt = owner_cnt;
	t->interval_ns = owner_cnt ? FIRST_OF_OWNERS_NS : FIRST_INTERVAL_NS;
	return t;
}

void trend__free(struct trend *t)
{
	if (!t)
		return;
	for (uint32_t i = 0; i < t->cnt; i++)
		free(t->samples[i].live);
	free(t);
}

bool trend__due(const struct trend *t, uint64_t now_ns)
{
	return now_ns >= t->next_ns;
}

uint64_t trend__next_ns(const struct trend *t)
{
	return t->next_ns;
}

static void thin_out(struct trend *t)
{
	for (uint32_t i = 0; i < t->cnt; i++) {
		if (i % 2)
			free(t->samples[i].live);
		else
			t->samples[i / 2] = t->samples[i];
	}
	t->cnt /= 2;
	t->interval_ns *= 2;
}

int trend__add(struct trend *t, uint64_t now_ns, uint64_t rss_bytes, int64_t live_bytes,
	       const int64_t *live)
{
	struct sample s = { .rss_bytes = rss_bytes, .live_bytes = live_bytes };

	if (t->owner_cnt) {
		s.live = malloc(t->owner_cnt * sizeof(*s.live));
		if (!s.live)
			return -ENOMEM;
		memcpy(s.live, live, t->owner_cnt * sizeof(*s.live));
	}
	if (t->cnt == SNAPSHOT_HISTORY)
		thin_out(t);
	t->samples[t->cnt++] = s;
	t->next_ns = now_ns + t->interval_ns;
	return 0;
}

void trend__history(const struct trend *t, struct snapshot_memory *out)
{
	out->history_interval_ns = t->interval_ns;
	out->history_cnt = t->cnt;
	for (uint32_t i = 0; i < t->cnt; i++) {
		out->rss_history[i] = t->samples[i].rss_bytes;
		out->live_history[i] = t->samples[i].live_bytes;
	}
}

bool trend__line(const struct trend *t, uint32_t owner, struct trend_line *out)
{
	double n = t->cnt, mid = (n - 1) / 2, mean = 0, xx = 0, xy = 0, rest = 0;
	double step_s = (double)t->interval_ns / 1e9;

	if (t->cnt < MIN_SAMPLES || owner >= t->owner_cnt)
		return false;
	for (uint32_t i = 0; i < t->cnt; i++)
		mean += (double)t->samples[i].live[owner] / n;
	for (uint32_t i = 0; i < t->cnt; i++) {
		xx += (i - mid) * (i - mid);
		xy += (i - mid) * ((double)t->samples[i].live[owner] - mean);
	}
	for (uint32_t i = 0; i < t->cnt; i++) {
		double off = (double)t->samples[i].live[owner] - mean - xy / xx * (i - mid);

		rest += off * off;
	}
	out->slope = xy / xx / step_s;
	out->error = T_95 * sqrt(rest / (n - 2) / xx) / step_s;
	return true;
}

void trend__rate(const double *values, unsigned int cnt, double slice_s, struct trend_line *out)
{
	double mean = 0, rest = 0;

	for (unsigned int i = 0; i < cnt; i++)
		mean += values[i] / cnt;
	for (unsigned int i = 0; i < cnt; i++)
		rest += (values[i] - mean) * (values[i] - mean);
	out->slope = mean / slice_s;
	out->error = T_95 * sqrt(rest / (cnt - 1) / cnt) / slice_s;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Histograms and {stats} of the snapshot file. */
#ifndef EXPORT_JSON_STATS_H
#define EXPORT_JSON_STATS_H

#include "export/json.h"
#include "roletrace/hist.h"
#include "snapshot/stats.h"

/* null unless measured. */
static inline void put_real_if(struct jsonw *w, const char *key, bool measured, double v)
{
	if (measured)
		put_real(w, key, v);
	else
		put_null(w, key);
}

/* offset is OpenTelemetry's: the index of counts[0], one less than its place. */
static inline void put_histogram(struct jsonw *w, const struct snapshot_hist *h)
{
	uint32_t lo = 0, hi = h->counts ? h->cnt : 0;

	while (lo < hi && !h->counts[lo])
		lo++;
	while (hi > lo && !h->counts[hi - 1])
		hi--;
	jsonw__key(w, "histogram");
	jsonw__open(w, '{');
	put_uint(w, "scale", RT_HIST_SCALE);
	put_uint(w, "zero_count", h->zero_cnt);
	jsonw__key(w, "offset");
	jsonw__int(w, lo < hi ? (int64_t)h->first + lo - 1 : 0);
	jsonw__key(w, "counts");
	jsonw__open(w, '[');
	for (; lo < hi; lo++)
		jsonw__uint(w, h->counts[lo]);
	jsonw__close(w, ']');
	jsonw__close(w, '}');
}

static inline void put_stats(struct jsonw *w, const char *key, const struct snapshot_stats *s)
{
	bool some = s->count != 0, spread = hist__count(&s->hist) != 0;

	jsonw__key(w, key);
	jsonw__open(w, '{');
	put_uint(w, "count", s->count);
	put_uint(w, "total_ns", s->total_ns);
	put_uint_if(w, "min_ns", some, s->min_ns);
	put_uint_if(w, "max_ns", some, s->max_ns);
	put_uint_if(w, "mean_ns", some, some ? s->total_ns / s->count : 0);
	put_uint_if(w, "p50_ns", spread, hist__quantile_ns(&s->hist, s->min_ns, s->max_ns, 0.50));
	put_uint_if(w, "p95_ns", spread, hist__quantile_ns(&s->hist, s->min_ns, s->max_ns, 0.95));
	put_uint_if(w, "p99_ns", spread, hist__quantile_ns(&s->hist, s->min_ns, s->max_ns, 0.99));
	put_uint(w, "histogram_lost", s->hist_lost);
	put_histogram(w, &s->hist);
	jsonw__close(w, '}');
}

#endif

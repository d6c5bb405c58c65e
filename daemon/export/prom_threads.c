/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads, locks and stalls for Prometheus. Threads of one name are told apart by their tid; of
 * many, those with the most CPU have series, the rest are counted.
 */
#include "export/prom.h"

#include <inttypes.h>

#include "base/strbuf.h"
#include "snapshot/snapshot.h"

#define MAX_THREADS 50u
#define MAX_LOCKS 20u

static void begin(struct strbuf *out, const char *metric, const struct snapshot_thread *t,
		  const char *origin)
{
	strbuf__addf(out, "%s{", metric);
	prom__label(out, "thread", t->name);
	strbuf__addf(out, ",tid=\"%d\",", t->tid);
	strbuf__adds(out, origin);
}

/* ---- threads ---- */

static void add_census(const struct snapshot *s, const char *origin, struct strbuf *out)
{
	uint64_t cnt[THREAD_STATE_CNT] = {}, ended = 0;
	size_t living = 0;

	for (size_t i = 0; i < s->thread_cnt; i++) {
		if (s->threads[i].tid) {
			cnt[s->threads[i].state]++;
			living++;
		} else {
			ended += s->threads[i].count;
		}
	}
	prom__head(out, "roletrace_threads", "gauge", "Threads by what they do now.");
	for (int i = 0; i < THREAD_STATE_CNT; i++)
		strbuf__addf(out, "roletrace_threads{state=\"%s\",%s} %" PRIu64 "\n",
			     thread_state_names[i], origin, cnt[i]);
	prom__head(out, "roletrace_threads_ended_total", "counter",
		   "Threads that ended in the window.");
	strbuf__addf(out, "roletrace_threads_ended_total{%s} %" PRIu64 "\n", origin, ended);
	prom__head(out, "roletrace_threads_unlisted", "gauge",
		   "Threads without series of their own here: only those with the most CPU have "
		   "some.");
	strbuf__addf(out, "roletrace_threads_unlisted{%s} %zu\n", origin,
		     living > MAX_THREADS ? living - MAX_THREADS : 0);
}

static const struct figure {
	const char *metric, *help;
	size_t at; /* a uint64_t of ns in struct snapshot_thread */
} figures[] = {
#define AT(member) offsetof(struct snapshot_thread, member)
	{ "roletrace_thread_cpu_seconds_total", "Time on a CPU.", AT(cpu_ns) },
	{ "roletrace_thread_stolen_seconds_total",
	  "Time on a CPU that the hypervisor or an interrupt took.", AT(stolen_ns) },
	{ "roletrace_thread_run_queue_seconds_total", "Time ready to run, without a CPU.",
	  AT(run_queue_ns) },
#undef AT
};

/* The dead (tid 0) have a place of their own behind the bound. */
static bool is_listed(const struct snapshot *s, size_t i)
{
	return i < MAX_THREADS || !s->threads[i].tid;
}

static void add_times(const struct snapshot *s, const char *origin, struct strbuf *out)
{
	for (size_t f = 0; f < sizeof(figures) / sizeof(figures[0]); f++) {
		prom__head(out, figures[f].metric, "counter", figures[f].help);
		for (size_t i = 0; i < s->thread_cnt; i++) {
			if (!is_listed(s, i))
				continue;
			begin(out, figures[f].metric, &s->threads[i], origin);
			strbuf__adds(out, "} ");
			prom__seconds(out, *(const uint64_t *)((const char *)&s->threads[i] +
							       figures[f].at));
			strbuf__addc(out, '\n');
		}
	}
}

static void add_off_cpu(const struct snapshot *s, const char *origin, struct strbuf *out)
{
	static const char metric[] = "roletrace_thread_off_cpu_seconds_total";

	prom__head(out, metric, "counter", "Time blocked, by what the thread waited in.");
	for (size_t i = 0; i < s->thread_cnt; i++)
		for (int r = 0; r < THREAD_OFF_CNT && is_listed(s, i); r++) {
			begin(out, metric, &s->threads[i], origin);
			strbuf__addf(out, ",reason=\"%s\"} ", thread_state_names[THREAD_FUTEX + r]);
			prom__seconds(out, s->threads[i].off_ns[r]);
			strbuf__addc(out, '\n');
		}
}

static void add_switches(const struct snapshot *s, const char *origin, struct strbuf *out)
{
	static const char metric[] = "roletrace_thread_switches_total";

	prom__head(out, metric, "counter",
		   "How often the thread left its CPU: by itself, or preempted.");
	for (size_t i = 0; i < s->thread_cnt; i++)
		for (int kind = 0; kind < 2 && is_listed(s, i); kind++) {
			const struct snapshot_thread *t = &s->threads[i];

			begin(out, metric, t, origin);
			strbuf__addf(out, ",kind=\"%s\"} %" PRIu64 "\n",
				     kind ? "involuntary" : "voluntary",
				     kind ? t->involuntary : t->voluntary);
		}
}

/* ---- locks, stalls ---- */

enum lock_figure { LOCK_WAITS, LOCK_SECONDS, LOCK_WAITERS, LOCK_FIGURES };

static void add_lock(const struct snapshot_lock *l, enum lock_figure what, const char *metric,
		     const char *origin, struct strbuf *out)
{
	strbuf__addf(out, "%s{kind=\"%s\",address=\"0x%" PRIx64 "\",%s} ", metric,
		     lock_kind_names[l->kind], l->address, origin);
	if (what == LOCK_SECONDS)
		prom__seconds(out, l->wait.total_ns);
	else
		strbuf__addf(out, "%" PRIu64, what == LOCK_WAITS ? l->wait.count : l->waiters_now);
	strbuf__addc(out, '\n');
}

static void add_locks(const struct snapshot *s, const char *origin, struct strbuf *out)
{
	static const char *const about[LOCK_FIGURES][3] = {
		{ "roletrace_lock_waits_total", "counter", "Waits for the lock that ended." },
		{ "roletrace_lock_wait_seconds_total", "counter", "Time of these waits." },
		{ "roletrace_lock_waiters", "gauge", "Threads that wait for the lock now." },
	};

	for (int f = 0; f < LOCK_FIGURES; f++) {
		size_t cnt = 0;

		prom__head(out, about[f][0], about[f][1], about[f][2]);
		for (size_t i = 0; i < s->lock_cnt && cnt < MAX_LOCKS; i++) {
			if (!lock__is_lock(s->locks[i].kind))
				continue;
			cnt++;
			add_lock(&s->locks[i], (enum lock_figure)f, about[f][0], origin, out);
		}
	}
}

static void add_stalls(const struct snapshot *s, const char *origin, struct strbuf *out)
{
	prom__head(out, "roletrace_stalls", "gauge", "What hangs now, by kind and certainty.");
	for (int kind = 0; kind < STALL_KIND_CNT; kind++)
		for (int proven = 0; proven < 2; proven++) {
			size_t cnt = 0;

			for (size_t i = 0; i < s->stall_cnt; i++)
				cnt += s->stalls[i].kind == (enum stall_kind)kind &&
				       s->stalls[i].proven == proven && !s->stalls[i].over_unix_ns;
			strbuf__addf(out, "roletrace_stalls{kind=\"%s\",certainty=\"%s\",%s} %zu\n",
				     stall_kind_names[kind], proven ? "proven" : "suspected",
				     origin, cnt);
		}
}

void prom__threads(const struct snapshot *s, const char *origin, struct strbuf *out)
{
	if (!s->threads_known)
		return;
	add_census(s, origin, out);
	add_times(s, origin, out);
	add_off_cpu(s, origin, out);
	add_switches(s, origin, out);
	add_locks(s, origin, out);
	add_stalls(s, origin, out);
}

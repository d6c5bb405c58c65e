/* SPDX-License-Identifier: BSD-2-Clause */
#include <criterion/criterion.h>
#include <stdio.h>

#include "base/strbuf.h"
#include "base/utf8.h"
#include "collect/workers.h"
#include "export/export.h"
#include "snapshot/read.h"
#include "synth.h"
#include "synth_threads.h"
#include "ui/report.h"
#include "ui/stalls.h"
#include "ui/threads.h"

static struct snapshot *with_threads(void)
{
	struct snapshot *s = synth__new();

	synth__add_threads(s);
	return s;
}

static void render(const struct exporter *e, const struct snapshot *s, struct strbuf *out)
{
	cr_assert_eq(e->render(s, out), 0);
	cr_assert_not(out->oom);
}

Test(threads, come_back_as_they_were_written)
{
	static const struct exporter *const formats[] = { &export_json, &export_csv_threads,
							  &export_prom };
	struct strbuf doc = STRBUF_INIT, reason = STRBUF_INIT;
	struct snapshot *s = with_threads(), *again;

	render(&export_json, s, &doc);
	cr_assert_eq(snapshot__read(doc.s, doc.len, &again, &reason), 0, "%s", reason.s);
	cr_expect_eq(again->stall_cnt, 2);
	cr_expect_eq(again->stalls[0].threads[0].address, 0xfffffffffffff000);
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		struct strbuf was = STRBUF_INIT, is = STRBUF_INIT;

		render(formats[i], s, &was);
		render(formats[i], again, &is);
		cr_expect_str_eq(is.s, was.s, "%s", formats[i]->name);
		strbuf__free(&was);
		strbuf__free(&is);
	}
	strbuf__free(&doc);
	snapshot__free(again);
	snapshot__free(s);
}

/* What is wrong with a document that says otherwise. */
static void expect_refused(const char *from, const char *to, const char *why)
{
	struct strbuf doc = STRBUF_INIT, bad = STRBUF_INIT, reason = STRBUF_INIT;
	struct snapshot *s = with_threads(), *again = NULL;
	char *at;

	render(&export_json, s, &doc);
	at = strstr(doc.s, from);
	cr_assert(at, "%s", from);
	strbuf__add(&bad, doc.s, (size_t)(at - doc.s));
	strbuf__adds(&bad, to);
	strbuf__adds(&bad, at + strlen(from));
	cr_expect_neq(snapshot__read(bad.s, bad.len, &again, &reason), 0, "%s", to);
	cr_expect(strstr(reason.s, why), "%s: %s", to, reason.s);
	strbuf__free(&doc);
	strbuf__free(&bad);
	strbuf__free(&reason);
	snapshot__free(s);
}

Test(threads, wrong_documents_are_refused_by_place)
{
	expect_refused("\"state\":\"running\"", "\"state\":\"dancing\"", "threads[0].state");
	expect_refused("\"tid\":4242,\"ns_tid\"", "\"tid\":-1,\"ns_tid\"", "threads[0].tid");
	expect_refused("\"off_cpu_ns\":{\"futex\":0", "\"off_cpu_ns\":{\"futex\":\"\"", "futex");
	expect_refused("\"0x7ffd12345678\"", "\"7ffd12345678\"", "threads[1].wait_address");
	expect_refused("\"kind\":\"std_mutex\"", "\"kind\":\"spoon\"", "locks[3].kind");
	expect_refused("\"certainty\":\"proven\"", "\"certainty\":1", "stalls[0].certainty");
}

Test(threads, x1_each_line_of_csv_has_all_columns)
{
	struct strbuf out = STRBUF_INIT;
	struct snapshot *s = with_threads();
	size_t columns = 0, lines = 0;
	char *save;

	render(&export_csv_threads, s, &out);
	for (char *line = strtok_r(out.s, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		bool quoted = false;
		size_t cnt = 1;

		for (const char *c = line; *c; c++) {
			quoted ^= *c == '"';
			cnt += *c == ',' && !quoted;
		}
		columns = columns ? columns : cnt;
		cr_expect_eq(cnt, columns, "%zu of %zu: %s", cnt, columns, line);
		lines++;
	}
	cr_expect_eq(lines, SYNTH_THREADS + 1);
	snapshot__free(s);
	strbuf__free(&out);
}

Test(threads, x1_series_of_one_name_are_told_apart)
{
	struct strbuf out = STRBUF_INIT;
	struct snapshot *s = with_threads();

	render(&export_prom, s, &out);
	cr_expect(strstr(out.s, "roletrace_thread_cpu_seconds_total{thread=\"tokio-rt-worker\","
				"tid=\"4242\",comm=\"translator_sv2\",pid=\"4242\"} 5.000000000"));
	cr_expect(strstr(out.s, "{thread=\"tokio-rt-worker\",tid=\"4243\""));
	cr_expect(strstr(out.s, "{thread=\"say \\\"hi\\\"\\\\n, yes\""));
	cr_expect(strstr(out.s, "roletrace_stalls{kind=\"deadlock\",certainty=\"proven\","
				"comm=\"translator_sv2\",pid=\"4242\"} 1"));
	cr_expect(strstr(out.s, "roletrace_stalls{kind=\"no_progress\",certainty=\"suspected\","
				"comm=\"translator_sv2\",pid=\"4242\"} 0"),
		  "what is over hangs no more");
	cr_expect_null(strchr(out.s, '\x1b'));
	snapshot__free(s);
	strbuf__free(&out);
}

static char *report_of(const struct snapshot *s, unsigned int width, size_t limit)
{
	struct report_opts opts = { .width = width, .limit = limit };
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	cr_assert_eq(report__print(s, &opts, f), 0);
	fclose(f);
	return text;
}

Test(threads, tables_fit)
{
	struct snapshot *s = with_threads();

	for (unsigned int width = 80; width < 140; width += 7) {
		char *text = report_of(s, width, 0), *at = strstr(text, "\nThread "), *save;

		cr_assert(at, "%s", text);
		for (char *line = strtok_r(at, "\n", &save); line;
		     line = strtok_r(NULL, "\n", &save)) {
			if (!strncmp(line, "Lost", 4))
				break;
			cr_expect_leq(utf8__width(line), width, "%s", line);
		}
		free(text);
	}
	snapshot__free(s);
}

Test(threads, report_tells_the_dead_the_locks_and_what_hangs)
{
	struct snapshot *s = with_threads();
	char *text = report_of(s, 80, 3);

	cr_expect(strstr(text, "Stall: deadlock (proven): 5 threads have waited 1.10s"), "%s",
		  text);
	cr_expect(strstr(text, "held by 4243, pthread_mutex 0xfffff"), "%s", text);
	cr_expect(strstr(text, "in translator_sv2::main for 1.20s"), "%s", text);
	cr_expect(strstr(text, "exited"), "the dead are the last row of a limited table: %s", text);
	cr_expect(strstr(text, "x1234"), "%s", text);
	cr_expect(strstr(text, "... and 3 more"), "%s", text);
	cr_expect(strstr(text, "Tokio, 2 threads: CPU "), "%s", text);
	cr_expect(strstr(text, "std_mutex"), "%s", text);
	cr_expect(strstr(text, "P95     Max  Now Oldest  Holder\n"), "%s", text);
	cr_expect(strstr(text, "    1  100ns    4242\n"), "how long it is waited for: %s", text);
	cr_expect_null(strstr(text, "park  "), "a parked thread is no lock: %s", text);
	cr_expect_null(strchr(text, '\x1b'), "%s", text);
	free(text);
	snapshot__free(s);
}

Test(threads, live_line_counts_what_they_do)
{
	struct snapshot *s = with_threads();
	struct strbuf out = STRBUF_INIT;

	threads__line(s, false, &out);
	cr_expect_str_eq(out.s, "5 threads, CPU 122%: running 1 futex 1 sleep 1 pipe 1 exited 1\n",
			 "%s", out.s);
	strbuf__free(&out);
	snapshot__free(s);
}

Test(threads, delta_is_what_happened_in_between)
{
	struct snapshot *prev = with_threads(), *now = with_threads(), *d;
	struct snapshot_thread *t = &now->threads[1];

	now->window.end_unix_ns += 1000000000;
	now->window.duration_ns += 1000000000;
	t->cpu_ns += 250;
	t->off_ns[2] += 750;
	t->observed_ns += 1000;
	t->voluntary += 2;
	t->queue.count += 4;
	t->queue.hist.counts[2] += 4;
	now->locks[LOCK_STD].wait.count += 9;
	/* a thread that ended, and a new one with the same id: nothing of the old one is in it */
	now->threads[2].observed_ns = 10;
	now->threads[2].cpu_ns = 10;
	d = snapshot__delta(now, prev);
	cr_assert(d);
	cr_expect_eq(d->threads[1].cpu_ns, 250);
	cr_expect_eq(d->threads[1].off_ns[2], 750);
	cr_expect_eq(d->threads[1].observed_ns, 1000);
	cr_expect_eq(d->threads[1].voluntary, 2);
	cr_expect_eq(d->threads[1].queue.count, 4);
	cr_expect_eq(hist__count(&d->threads[1].queue.hist), 4);
	cr_expect_eq(d->threads[0].cpu_ns, 0);
	cr_expect_eq(d->threads[2].cpu_ns, 10);
	cr_expect_eq(d->locks[LOCK_STD].wait.count, 9);
	cr_expect_eq(d->stall_cnt, 2, "a state, not a difference");
	snapshot__free(d);
	snapshot__free(now);
	snapshot__free(prev);
}

Test(threads, stacks_of_what_hangs)
{
	struct snapshot_stall s = {};
	struct strbuf out = STRBUF_INIT;
	static const struct snapshot_frame std_only[] = {
		{ .name = "clone3", .kind = FRAME_LIB },
		{ .name = "std::thread::park", .kind = FRAME_STD },
	};

	synth__stall(&s);
	stalls__describe(&s, "", 0, false, &out);
	/* innermost first; what is not the role's is counted, what is above its first frame too */
	cr_expect(strstr(out.s, "      … 2 frames of std, runtime or system\n"
				"      at role::Ledger::add (inlined)\n"
				"      at role::Pool::submit\n"),
		  "%s", out.s);
	cr_expect(!strstr(out.s, "tokio::") && !strstr(out.s, "\x1b"), "%s", out.s);

	s.thread_cnt = 1;
	s.threads[0].stack = (struct snapshot_backtrace){ std_only, 2, "no_unwind_rows" };
	strbuf__reset(&out);
	stalls__describe(&s, "", 0, false, &out);
	cr_expect(strstr(out.s, "      at std::thread::park\n      at clone3\n"), "%s", out.s);
	cr_expect(strstr(out.s, "cut off before the thread's start: no_unwind_rows"), "%s", out.s);
	strbuf__free(&out);
}

Test(threads, traced_calls_are_told_in_the_native_stack)
{
	static const struct snapshot_frame frames[] = {
		{ .name = "role::main", .kind = FRAME_OWN },
		{ .name = "role::lock", .kind = FRAME_OWN },
		{ .name = "role::lock", .kind = FRAME_OWN },
		{ .name = "std::sync::lock", .kind = FRAME_STD },
	};
	struct snapshot_stall s = { .kind = STALL_LOCK_WAIT,
				    .thread_cnt = 1,
				    .age_ns = 3000000000,
				    .seen_unix_ns = 10000000000,
				    .over_unix_ns = 11500000000 };
	struct stall_thread *t = &s.threads[0];
	struct strbuf out = STRBUF_INIT;

	t->stack = (struct snapshot_backtrace){ frames, 4, NULL };
	t->frames[0] = (struct stall_frame){ "role::gone", 4000000000 };
	t->frames[1] = (struct stall_frame){ "role::lock", 3600000000 };
	t->frames[2] = (struct stall_frame){ "role::lock #ab12cd", 3500000000 };
	t->frame_cnt = 3;
	stalls__describe(&s, "", 80, false, &out);
	/* recursion: each call has its own time; the stack lacks one, which has a line of its own
	 */
	cr_expect(strstr(out.s, "      in role::gone for 4.00s\n"
				"      … 1 frame of std, runtime or system\n"
				"      at role::lock for 3.50s\n"
				"      at role::lock for 3.60s\n"
				"      at role::main\n"),
		  "%s", out.s);
	cr_expect(strstr(out.s, "; over\n    after 4.50s\n"), "%s", out.s);
	strbuf__free(&out);
}

Test(threads, what_hangs_in_words)
{
	struct snapshot_stall s = { .kind = STALL_DEADLOCK, .proven = true, .age_ns = 1000000000 };
	struct strbuf out = STRBUF_INIT;

	s.thread_cnt = 1;
	stalls__describe(&s, "", 0, false, &out);
	cr_expect(strstr(out.s, "for a lock of its own"), "%s", out.s);
	for (int kind = 0; kind < STALL_KIND_CNT; kind++)
		for (int proven = 0; proven < 2; proven++) {
			struct snapshot_stall any = { .kind = (enum stall_kind)kind,
						      .proven = proven,
						      .thread_cnt = 2 };

			strbuf__reset(&out);
			stalls__describe(&any, "", 80, false, &out);
			cr_expect(
				strstr(out.s, kind == STALL_BLOCKED_POLL && proven
						      ? "2 threads have been running 0ns in a poll"
						      : "2 threads have waited"),
				"%s", out.s);
			cr_expect(kind == STALL_DISK || kind == STALL_NO_PROGRESS ||
					  (strstr(out.s, "suspected") == NULL) == proven ||
					  kind == STALL_LOCK_WAIT,
				  "%s", out.s);
		}
	strbuf__free(&out);
}

/* A call may be open and its thread run; how long the last slice of a CPU took is no matter. */
Test(threads, a_poll_that_runs_does_not_wait)
{
	struct snapshot_stall s = {
		.kind = STALL_BLOCKED_POLL, .proven = true, .thread_cnt = 1, .age_ns = 3500000000
	};
	struct stall_thread *t = &s.threads[0];
	struct strbuf out = STRBUF_INIT;

	*t = (struct stall_thread){ .tid = 7, .state = THREAD_RUNNING, .wait_ns = 18300000 };
	stalls__describe(&s, "", 0, false, &out);
	cr_expect_str_eq(out.s, "1 thread has been running 3.50s in a poll that does not return\n"
				"  7 (): running\n");
	strbuf__reset(&out);
	t->state = THREAD_PREEMPTED;
	stalls__describe(&s, "", 0, false, &out);
	cr_expect(strstr(out.s, "has been running 3.50s"), "%s", out.s);
	cr_expect(strstr(out.s, "  7 (): running, without a CPU for 18.3ms\n"), "%s", out.s);
	strbuf__reset(&out);
	*t = (struct stall_thread){
		.tid = 7, .state = THREAD_SLEEP, .wait_ns = 3500000000, .wait_older = true
	};
	stalls__describe(&s, "", 0, false, &out);
	cr_expect(strstr(out.s, "1 thread has been at least 3.50s in a poll"), "%s", out.s);
	cr_expect(strstr(out.s, "  7 (): sleep at least 3.50s\n"), "%s", out.s);
	strbuf__free(&out);
}

Test(threads, what_is_over_is_one_line)
{
	struct snapshot_stall s = { .kind = STALL_LOCK_WAIT,
				    .age_ns = 3440000000,
				    .seen_unix_ns = 10000000000,
				    .over_unix_ns = 12900000000 };
	struct strbuf out = STRBUF_INIT;

	for (; s.thread_cnt < 6; s.thread_cnt++) {
		s.threads[s.thread_cnt].tid = 10 + (int)s.thread_cnt;
		strcpy(s.threads[s.thread_cnt].name, "w");
	}
	stalls__describe_end(&s, &out);
	cr_expect_str_eq(out.s, "over after 6.34s: the wait for a lock of 10 (w), 11 (w), 12 (w), "
				"13 (w) and 2 more\n");
	strbuf__free(&out);
}

/* No word is lost, and the lines below are further in than the first one. */
Test(threads, stalls_are_wrapped)
{
	struct snapshot_stall s = { .kind = STALL_LOCK_WAIT,
				    .thread_cnt = 1,
				    .age_ns = 3440000000,
				    .seen_unix_ns = 10000000000,
				    .over_unix_ns = 12900000000 };
	struct strbuf whole = STRBUF_INIT, out = STRBUF_INIT;

	s.threads[0] = (struct stall_thread){ .tid = 4242,
					      .state = THREAD_LOCK,
					      .wait_ns = 3440000000,
					      .address = 0x7fffffffffff,
					      .lock = LOCK_PTHREAD_RWLOCK };
	strcpy(s.threads[0].name, "tokio-rt-worker");
	stalls__describe(&s, "Stall: ", 0, false, &whole);
	for (unsigned int width = 30; width < 100; width += 5) {
		char *line, *save, *last = NULL;
		struct strbuf again = STRBUF_INIT;

		strbuf__reset(&out);
		stalls__describe(&s, "Stall: ", width, false, &out);
		for (line = strtok_r(out.s, "\n", &save); line;
		     line = strtok_r(NULL, "\n", &save)) {
			size_t in = strspn(line, " ");

			cr_expect_leq(utf8__width(line), width, "%s", line);
			if (last && in > 2)
				strbuf__addf(&again, " %s", line + in);
			else
				strbuf__addf(&again, "%s%s", last ? "\n" : "", line);
			last = line;
		}
		strbuf__addc(&again, '\n');
		cr_expect_str_eq(again.s, whole.s);
		strbuf__free(&again);
	}
	strbuf__free(&whole);
	strbuf__free(&out);
}

/* A worker that is known to sit in a poll is not idle, wherever it waits. */
Test(threads, blocked_workers_are_not_idle)
{
	struct snapshot *s = snapshot__new();
	struct strbuf out = STRBUF_INIT;
	struct snapshot_stall stall = { .kind = STALL_BLOCKED_POLL,
					.proven = true,
					.seen_unix_ns = 14000000000,
					.age_ns = 3000000000,
					.over_unix_ns = 16000000000,
					.thread_cnt = 1 };

	s->window.start_unix_ns = 10000000000;
	s->window.duration_ns = 10000000000;
	s->threads_known = true;
	s->threads = calloc(1, sizeof(*s->threads));
	s->thread_cnt = 1;
	s->threads[0] = (struct snapshot_thread){
		.tid = 7, .tokio = true, .observed_ns = 10000000000, .off_ns = { 10000000000 }
	};
	stall.threads[0] =
		(struct stall_thread){ .tid = 7, .state = THREAD_FUTEX, .wait_ns = 3000000000 };
	threads__report(s, 80, 0, false, &out);
	cr_expect(strstr(out.s, "in epoll or futex 100%\n"), "%s", out.s);
	s->stalls = calloc(1, sizeof(*s->stalls));
	s->stalls[0] = stall;
	s->stall_cnt = 1;
	strbuf__reset(&out);
	threads__report(s, 80, 0, false, &out);
	cr_expect(strstr(out.s, "in epoll or futex 50.0%\n  blocked inside polls, which stop other "
				"tasks, 50.0%\n"),
		  "%s", out.s);
	s->stalls[0].over_unix_ns = 0;
	s->stalls[0].threads[0].state = THREAD_SLEEP;
	strbuf__reset(&out);
	threads__report(s, 80, 0, false, &out);
	cr_expect(strstr(out.s, "in epoll or futex 100%\n"), "%s", out.s);
	cr_expect(strstr(out.s, "tasks, 90.0%\n"), "until the end: %s", out.s);
	snapshot__free(s);
	strbuf__free(&out);
}

#define STACK(...)                                                                                 \
	((struct snapshot_backtrace){ (const struct snapshot_frame[]){ __VA_ARGS__ },              \
				      sizeof((const struct snapshot_frame[]){ __VA_ARGS__ }) /     \
					      sizeof(struct snapshot_frame),                       \
				      NULL })
#define POOL                                                                                       \
	{                                                                                          \
		.name = "tokio::runtime::blocking::pool::Inner::run"                               \
	}
#define POLL                                                                                       \
	{                                                                                          \
		.name = "tokio::runtime::task::raw::poll"                                          \
	}
#define RUN                                                                                        \
	{                                                                                          \
		.name = "tokio::runtime::scheduler::multi_thread::worker::run"                     \
	}
#define RUN_TASK                                                                                   \
	{                                                                                          \
		.name = "<tokio::runtime::scheduler::multi_thread::worker::Context>::run_task"     \
	}
#define PARK                                                                                       \
	{                                                                                          \
		.name = "tokio::runtime::scheduler::multi_thread::worker::Context::park_internal"  \
	}
#define CONDVAR                                                                                    \
	{                                                                                          \
		.name = "std::sys::sync::condvar::futex::Condvar::wait"                            \
	}
#define OWN                                                                                        \
	{                                                                                          \
		.name = "role::submit::{{closure}}"                                                \
	}
#define IN_PLACE                                                                                   \
	{                                                                                          \
		.name = "tokio::task::blocking::block_in_place"                                    \
	}

Test(threads, workers_by_their_stacks)
{
	struct snapshot_backtrace job = STACK(POOL, POLL, OWN, CONDVAR),
				  idle = STACK(POOL, POLL, RUN, PARK, CONDVAR),
				  blocked = STACK(POOL, POLL, RUN, RUN_TASK, OWN, CONDVAR),
				  inlined = STACK(POOL, POLL, RUN, POLL, OWN),
				  handed_on = STACK(POOL, POLL, RUN, RUN_TASK, POLL, OWN, IN_PLACE),
				  unnamed = STACK({ .name = "role+0x1234" }, CONDVAR),
				  cut = STACK(POLL, OWN, CONDVAR);

	cut.truncated = "no_unwind_rows";
	cr_expect_eq(workers__judge(&job), WORKER_FREE);
	cr_expect_eq(workers__judge(&idle), WORKER_FREE);
	cr_expect_eq(workers__judge(&blocked), WORKER_IN_POLL);
	cr_expect_eq(workers__judge(&inlined), WORKER_IN_POLL);
	cr_expect_eq(workers__judge(&handed_on), WORKER_FREE);
	cr_expect_eq(workers__judge(&unnamed), WORKER_UNCLEAR);
	cr_expect_eq(workers__judge(&cut), WORKER_UNCLEAR, "of a worker or a job");
}

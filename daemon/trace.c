/* SPDX-License-Identifier: BSD-2-Clause */
#include "trace.h"

#include "choose.h"
#include "codes.h"
#include "machine.h"
#include "options.h"
#include "outputs.h"
#include "run.h"
#include "session.h"
#include "several.h"

/* Whether a next process is to be looked for, after one that ended like this. */
static bool goes_on(const struct session *s, const struct last_run *last, int code)
{
	const struct options *o = s->opts;

	if (!o->follow || session__is_over(s))
		return false;
	/* the first one tells whether it makes sense at all; one that is gone again is none */
	if (last->end == RUN_FAILED && code != CODE_NO_PROCESS && !s->start_ns)
		return false;
	return o->name || o->exe || last->end == RUN_EXECED;
}

/* The worst code of all; of those processes that had ended before they were traced, none. */
static int run_all(struct session *s, const struct machine *machine)
{
	struct last_run last = { .end = RUN_NONE };
	int code, worst = CODE_OK, pid;
	bool again;

	do {
		code = choose__process(s, &last, &pid);
		if (code || !pid)
			break;
		last.pid = pid;
		code = run__one(s, machine, &last);
		again = goes_on(s, &last, code);
		if (again && code == CODE_NO_PROCESS)
			code = CODE_OK;
		if (code > worst)
			worst = code;
		code = CODE_OK;
	} while (again);
	if (s->child && !s->held)
		worst = session__wait_child(s) ?: worst;
	return code ?: worst;
}

static int trace_one(const struct options *opts)
{
	struct machine machine;
	struct session session;
	int code = session__open(&session, opts);

	/* wrong input is said before anything is looked at */
	code = code ?: outputs__check(opts, &session.stdout_taken);
	code = code ?: machine__probe(opts, false, &machine);
	code = code ?: machine__check(&machine);
	if (!code)
		machine__say_mode(&machine);
	code = code ?: run_all(&session, &machine);
	session__close(&session);
	return code;
}

int trace__run(const struct options *opts)
{
	bool on_stdout;
	int code;

	if (opts->pids.cnt < 2)
		return trace_one(opts);
	code = outputs__check(opts, &on_stdout);
	return code ?: several__run(opts, trace_one);
}

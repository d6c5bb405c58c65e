/* SPDX-License-Identifier: BSD-2-Clause */
#include "choose.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "codes.h"
#include "options.h"
#include "session.h"
#include "target/find.h"
#include "target/spawn.h"

#define FIND_INTERVAL_MS 50

static int nobody_came(const struct last_run *last)
{
	if (last->end != RUN_NONE)
		return CODE_OK;
	return code__say(CODE_NO_PROCESS, NULL, "no such process came");
}

static const char *kind_of(const struct find_request *req)
{
	return req->comm ? "name" : "executable";
}

static void say_waiting(const struct options *o, const struct find_request *req)
{
	log_info("waiting for a process of %s '%s'%s", kind_of(req), req->comm ?: req->exe,
		 o->duration_s > 0 ? ", however long (--duration counts from the attach)" : "");
}

static void say_found(const struct find_request *req, int pid, unsigned int cnt)
{
	if (cnt > 1)
		log_info("%u processes of %s '%s': taking the youngest, %d (--pid names another)",
			 cnt, kind_of(req), req->comm ?: req->exe, pid);
}

/* Until a process fits, a signal ends the waiting, or the time is up. */
static int wait_for_process(struct session *s, const struct last_run *last, int *pid)
{
	struct find_request req = { .comm = s->opts->name, .exe = s->opts->exe };
	struct pollfd p = { .fd = s->signal_fd, .events = POLLIN };
	unsigned int cnt;
	bool said = false;

	if (last->end == RUN_FAILED)
		req.not_pid = last->pid;
	while (!session__is_over(s)) {
		int found = find__process(&req, &cnt);

		if (found < 0)
			return code__say(CODE_FAILED, NULL, strerror(-found));
		if (found) {
			*pid = found;
			say_found(&req, found, cnt);
			return CODE_OK;
		}
		if (!said)
			say_waiting(s->opts, &req);
		said = true;
		if (poll(&p, 1, FIND_INTERVAL_MS) > 0)
			session__take_signal(s);
	}
	return nobody_came(last);
}

static int start_command(struct session *s, int *pid)
{
	struct spawn_opts so = { .mask = &s->old_mask, .no_stdout = s->stdout_taken };
	char *reason = NULL;
	int err = spawn__held(s->opts->argv, &so, &s->child, &reason), code;

	code = !reason ? CODE_FAILED : err == -ENOENT ? CODE_NO_COMMAND : CODE_BAD_COMMAND;
	if (err)
		return code__say(code, reason, strerror(-err));
	s->held = true;
	*pid = s->child;
	return CODE_OK;
}

int choose__process(struct session *s, const struct last_run *last, int *pid)
{
	const struct options *o = s->opts;

	*pid = 0;
	if (o->name || o->exe)
		return wait_for_process(s, last, pid);
	if (last->end == RUN_NONE && o->argv)
		return start_command(s, pid);
	if (last->end == RUN_NONE)
		*pid = o->pid;
	else if (last->end == RUN_EXECED)
		*pid = last->pid;
	return CODE_OK;
}

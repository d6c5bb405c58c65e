/* SPDX-License-Identifier: BSD-2-Clause */
#include "choose.h"

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

/* Until a process fits, a signal ends the waiting, or the time is up. */
static int wait_for_process(struct session *s, const struct last_run *last, int *pid)
{
	struct find_request req = { .comm = s->opts->name, .exe = s->opts->exe };
	struct pollfd p = { .fd = s->signal_fd, .events = POLLIN };
	bool said = false;

	if (last->end == RUN_FAILED)
		req.not_pid = last->pid;
	while (!session__is_over(s)) {
		int found = find__process(&req);

		if (found < 0)
			return code__say(CODE_FAILED, NULL, strerror(-found));
		if (found) {
			*pid = found;
			return CODE_OK;
		}
		if (!said)
			log_info("waiting for a process of %s '%s'",
				 req.comm ? "name" : "executable", req.comm ?: req.exe);
		said = true;
		if (poll(&p, 1, FIND_INTERVAL_MS) > 0)
			session__take_signal(s);
	}
	return nobody_came(last);
}

static int start_command(struct session *s, int *pid)
{
	char *reason = NULL;
	int err = spawn__held(s->opts->argv, &s->old_mask, &s->child, &reason);

	if (err)
		return code__say(CODE_FAILED, reason, strerror(-err));
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

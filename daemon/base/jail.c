// SPDX-License-Identifier: BSD-2-Clause
#include "base/jail.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/strbuf.h"

#define NOBODY 65534
#define TIME_LIMIT_NS (60 * NS_PER_SEC)
#define MEMORY_LIMIT_BYTES (4ull << 30) /* of address space: the file is mapped whole */

/* What the child sends: this, then the reason or the reply. */
struct verdict {
	int err;
	bool has_reason;
};

/* For good: no user, no group, no capability, no way to get one. */
static int drop_rights(void)
{
	struct rlimit none = { 0, 0 };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_PDEATHSIG, SIGKILL) ||
	    setrlimit(RLIMIT_CORE, &none) || setrlimit(RLIMIT_FSIZE, &none))
		return -errno;
#ifndef __SANITIZE_ADDRESS__ /* it reserves terabytes of address space */
	struct rlimit memory = { MEMORY_LIMIT_BYTES, MEMORY_LIMIT_BYTES };

	if (setrlimit(RLIMIT_AS, &memory))
		return -errno;
#endif
	if (geteuid() == 0 && (setgroups(0, NULL) || setresgid(NOBODY, NOBODY, NOBODY) ||
			       setresuid(NOBODY, NOBODY, NOBODY)))
		return -errno;
	return prctl(PR_SET_DUMPABLE, 0) ? -errno : 0;
}

static void child_main(jail_fn work, void *arg, int out)
{
	struct verdict verdict = {};
	struct strbuf body = STRBUF_INIT, whole = STRBUF_INIT;
	char *reason = NULL;
	sigset_t all;

	/* signals are the parent's business */
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	verdict.err = drop_rights();
	if (!verdict.err)
		verdict.err = work(arg, &body, &reason);
	verdict.has_reason = reason != NULL;
	strbuf__add(&whole, &verdict, sizeof(verdict));
	if (reason)
		strbuf__adds(&whole, reason);
	else
		strbuf__add(&whole, body.s, body.len);
	_exit(body.oom || whole.oom || fs__write_all(out, whole.s, whole.len) ? 1 : 0);
}

/* All the child writes until it closes its end. */
static int receive(int fd, struct strbuf *reply)
{
	uint64_t deadline = clock__mono_ns() + TIME_LIMIT_NS;
	struct pollfd p = { .fd = fd, .events = POLLIN };
	char buf[65536];
	ssize_t n;

	for (;;) {
		uint64_t now = clock__mono_ns();

		if (now >= deadline)
			return -ETIMEDOUT;
		if (poll(&p, 1, (int)((deadline - now) / NS_PER_MS) + 1) <= 0)
			continue;
		n = read(fd, buf, sizeof(buf));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			return reply->oom ? -ENOMEM : 0;
		strbuf__add(reply, buf, (size_t)n);
	}
}

/* Leaves the child's reply in the buffer. */
static int take(struct strbuf *reply, char **reason)
{
	struct verdict verdict;

	if (reply->len < sizeof(verdict))
		return -EPROTO;
	memcpy(&verdict, reply->s, sizeof(verdict));
	reply->len -= sizeof(verdict);
	memmove(reply->s, reply->s + sizeof(verdict), reply->len);
	if (verdict.has_reason)
		*reason = strndup(reply->s, reply->len);
	if (verdict.err)
		return verdict.err < 0 ? verdict.err : -EPROTO;
	return 0;
}

static void say(char **reason, const char *what, const char *how)
{
	if (asprintf(reason, "%s %s", what, how) < 0)
		*reason = NULL;
}

int jail__run(jail_fn work, void *arg, const char *what, struct strbuf *reply, char **reason)
{
	const struct jail_meanwhile nothing = {};

	return jail__run_while(work, arg, &nothing, what, reply, reason);
}

int jail__run_while(jail_fn work, void *arg, const struct jail_meanwhile *meanwhile,
		    const char *what, struct strbuf *reply, char **reason)
{
	int ends[2], status = 0, err;
	pid_t child;

	if (pipe2(ends, O_CLOEXEC))
		return -errno;
	child = fork();
	if (child < 0) {
		err = -errno;
		close(ends[0]);
		close(ends[1]);
		return err;
	}
	if (!child) {
		close(ends[0]);
		child_main(work, arg, ends[1]);
	}
	close(ends[1]);
	if (meanwhile->fn)
		meanwhile->fn(meanwhile->arg);
	err = receive(ends[0], reply);
	close(ends[0]);
	if (err)
		kill(child, SIGKILL);
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	if (err == -ETIMEDOUT) {
		say(reason, what, "took more than a minute: given up");
	} else if (!err && (!WIFEXITED(status) || WEXITSTATUS(status))) {
		err = -ENOEXEC;
		say(reason, what, "failed: the file is corrupt");
	} else if (!err) {
		err = take(reply, reason);
	}
	return err;
}

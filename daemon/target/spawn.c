/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fail.h"

static void child_main(char *const argv[], const struct spawn_opts *opts, int failure)
{
	int err;

	if (opts->no_stdout)
		dup2(STDERR_FILENO, STDOUT_FILENO);
	signal(SIGPIPE, SIG_DFL);
	sigprocmask(SIG_SETMASK, opts->mask, NULL);
	if (!ptrace(PTRACE_TRACEME, 0, NULL, NULL))
		execvp(argv[0], argv);
	err = errno;
	if (write(failure, &err, sizeof(err)) != sizeof(err))
		_exit(126);
	_exit(127);
}

static int wait_for(pid_t pid, int *status)
{
	pid_t got;

	do {
		got = waitpid(pid, status, 0);
	} while (got < 0 && errno == EINTR);
	return got < 0 ? -errno : 0;
}

int spawn__held(char *const argv[], const struct spawn_opts *opts, pid_t *pid, char **reason)
{
	int failure[2], err = 0, status = 0;
	pid_t child;

	*reason = NULL;
	if (pipe2(failure, O_CLOEXEC))
		return -errno;
	child = fork();
	if (child < 0) {
		err = errno;
		close(failure[0]);
		close(failure[1]);
		return -err;
	}
	if (!child)
		child_main(argv, opts, failure[1]);
	close(failure[1]);
	/* closed by a good exec: nothing to read */
	if (read(failure[0], &err, sizeof(err)) != sizeof(err))
		err = 0;
	close(failure[0]);
	if (!err) {
		err = -wait_for(child, &status);
		if (!err && !WIFSTOPPED(status))
			err = ECHILD;
	} else {
		wait_for(child, &status);
	}
	if (err)
		return fail(reason, -err, "cannot start '%s': %s", argv[0], strerror(err));
	*pid = child;
	return 0;
}

int spawn__release(pid_t pid)
{
	return ptrace(PTRACE_DETACH, pid, NULL, NULL) ? -errno : 0;
}

void spawn__kill(pid_t pid)
{
	int status;

	kill(pid, SIGKILL);
	wait_for(pid, &status);
}

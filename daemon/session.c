/* SPDX-License-Identifier: BSD-2-Clause */
#include "session.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "codes.h"
#include "options.h"
#include "target/spawn.h"

int session__open(struct session *s, const struct options *opts)
{
	sigset_t set;

	memset(s, 0, sizeof(*s));
	s->opts = opts;
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, &s->old_mask);
	signal(SIGPIPE, SIG_IGN);
	s->signal_fd = signalfd(-1, &set, SFD_CLOEXEC);
	if (s->signal_fd < 0)
		return code__say(CODE_FAILED, NULL, strerror(errno));
	return CODE_OK;
}

void session__close(struct session *s)
{
	if (s->held)
		spawn__kill(s->child);
	s->held = false;
	if (s->signal_fd >= 0)
		close(s->signal_fd);
	s->signal_fd = -1;
}

void session__start(struct session *s, uint64_t now_ns)
{
	if (s->start_ns)
		return;
	s->start_ns = now_ns;
	if (s->opts->duration_s > 0)
		s->stop_ns = now_ns + (uint64_t)llround(s->opts->duration_s * 1e9);
}

bool session__is_over(const struct session *s)
{
	return s->stopped || (s->stop_ns && clock__mono_ns() >= s->stop_ns);
}

/* The terminal's Ctrl-C reaches the child by itself; what was sent to us alone is passed on. */
void session__take_signal(struct session *s)
{
	struct signalfd_siginfo info;

	if (read(s->signal_fd, &info, sizeof(info)) != sizeof(info))
		return;
	if (!s->child)
		s->stopped = true;
	else if (info.ssi_code != SI_KERNEL)
		kill(s->child, (int)info.ssi_signo);
}

int session__release_child(struct session *s)
{
	bool held = s->held;

	s->held = false;
	return held ? spawn__release(s->child) : 0;
}

int session__wait_child(struct session *s)
{
	struct pollfd fds[] = {
		{ .fd = s->signal_fd, .events = POLLIN },
		{ .fd = (int)syscall(SYS_pidfd_open, s->child, 0), .events = POLLIN },
	};
	int status;

	while (fds[1].fd >= 0 && (poll(fds, 2, -1) < 0 || !fds[1].revents))
		if (fds[0].revents)
			session__take_signal(s);
	if (fds[1].fd >= 0)
		close(fds[1].fd);
	while (waitpid(s->child, &status, 0) < 0)
		if (errno != EINTR)
			return CODE_FAILED;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "several.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "codes.h"
#include "options.h"

struct tracer_child {
	pid_t pid;
	int target;
	int out; /* what it prints; -1 once it has ended */
	struct strbuf text;
};

struct several {
	struct tracer_child *children;
	size_t cnt;
	int signal_fd;
	sigset_t old_mask;
	bool wrote; /* a report is out: the next one keeps its distance */
};

static void child_main(const struct several *s, const struct options *opts, int target, int out,
		       pid_t parent, int (*trace)(const struct options *opts))
{
	struct options own = *opts;
	int code;

	/* what was measured by then is written, what was attached is taken away */
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(CODE_FAILED);
	sigprocmask(SIG_SETMASK, &s->old_mask, NULL);
	close(s->signal_fd);
	for (size_t i = 0; i < s->cnt; i++)
		if (s->children[i].out >= 0)
			close(s->children[i].out);
	if (dup2(out, STDOUT_FILENO) < 0)
		_exit(CODE_FAILED);
	own.pid = target;
	log__set_scope(target);
	code = trace(&own);
	fflush(NULL);
	_exit(code);
}

static int start_child(struct several *s, const struct options *opts, size_t i,
		       int (*trace)(const struct options *opts))
{
	struct tracer_child *c = &s->children[i];
	pid_t parent = getpid();
	int out[2];

	if (pipe2(out, O_CLOEXEC))
		return -errno;
	fflush(NULL);
	c->target = opts->pids.data[i];
	c->pid = fork();
	if (!c->pid)
		child_main(s, opts, c->target, out[1], parent, trace);
	close(out[1]);
	if (c->pid < 0) {
		int err = -errno;

		close(out[0]);
		return err;
	}
	c->out = out[0];
	return 0;
}

static void pass_signal_on(struct several *s)
{
	struct signalfd_siginfo info;

	if (read(s->signal_fd, &info, sizeof(info)) != sizeof(info))
		return;
	/* the terminal has told them itself */
	for (size_t i = 0; i < s->cnt && info.ssi_code != SI_KERNEL; i++)
		if (s->children[i].out >= 0)
			kill(s->children[i].pid, (int)info.ssi_signo);
}

static void give_out(struct several *s, struct tracer_child *c)
{
	if (!c->text.len)
		return;
	if (s->wrote)
		(void)fs__write_all(STDOUT_FILENO, "\n", 1);
	(void)fs__write_all(STDOUT_FILENO, c->text.s, c->text.len);
	s->wrote = true;
}

static void take_output(struct several *s, struct tracer_child *c)
{
	char piece[4096];
	ssize_t n = read(c->out, piece, sizeof(piece));

	if (n > 0) {
		strbuf__add(&c->text, piece, (size_t)n);
		return;
	}
	if (n < 0 && errno == EINTR)
		return;
	close(c->out);
	c->out = -1;
	give_out(s, c);
	strbuf__free(&c->text);
}

/* Until all have closed their output: they do when they end. */
static void loop(struct several *s)
{
	struct pollfd *fds = calloc(s->cnt + 1, sizeof(*fds));
	size_t open;

	do {
		open = 0;
		for (size_t i = 0; i < s->cnt; i++) {
			fds[i] = (struct pollfd){ .fd = s->children[i].out, .events = POLLIN };
			open += fds[i].fd >= 0;
		}
		fds[s->cnt] = (struct pollfd){ .fd = s->signal_fd, .events = POLLIN };
		if (!open || poll(fds, s->cnt + 1, -1) < 0)
			continue;
		for (size_t i = 0; i < s->cnt; i++)
			if (fds[i].revents)
				take_output(s, &s->children[i]);
		if (fds[s->cnt].revents)
			pass_signal_on(s);
	} while (open);
	free(fds);
}

static int worst_code(struct several *s)
{
	int worst = CODE_OK;

	for (size_t i = 0; i < s->cnt; i++) {
		int status, code;

		if (s->children[i].pid <= 0)
			continue;
		while (waitpid(s->children[i].pid, &status, 0) < 0 && errno == EINTR)
			;
		code = WIFEXITED(status) ? WEXITSTATUS(status) : CODE_FAILED;
		if (WIFSIGNALED(status))
			log_error("the tracer of process %d was ended by signal %d",
				  s->children[i].target, WTERMSIG(status));
		worst = code > worst ? code : worst;
	}
	return worst;
}

static int open_signals(struct several *s)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, &s->old_mask);
	signal(SIGPIPE, SIG_IGN);
	s->signal_fd = signalfd(-1, &set, SFD_CLOEXEC);
	return s->signal_fd < 0 ? -errno : 0;
}

int several__run(const struct options *opts, int (*trace)(const struct options *opts))
{
	struct several s = { .cnt = opts->pids.cnt };
	int err, worst;

	s.children = calloc(s.cnt, sizeof(*s.children));
	if (!s.children)
		return code__say(CODE_FAILED, NULL, "out of memory");
	for (size_t i = 0; i < s.cnt; i++)
		s.children[i] = (struct tracer_child){ .out = -1, .text = STRBUF_INIT };
	err = open_signals(&s);
	for (size_t i = 0; i < s.cnt && !err; i++)
		err = start_child(&s, opts, i, trace);
	if (err) {
		log_error("cannot start the tracers: %s", strerror(-err));
		for (size_t i = 0; i < s.cnt; i++)
			if (s.children[i].pid > 0)
				kill(s.children[i].pid, SIGTERM);
	}
	loop(&s);
	worst = worst_code(&s);
	close(s.signal_fd);
	free(s.children);
	return err && !worst ? CODE_FAILED : worst;
}

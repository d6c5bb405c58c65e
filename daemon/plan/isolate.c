/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/isolate.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
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
#include "plan/build.h"
#include "plan/profile.h"
#include "plan/sources.h"
#include "plan/wire.h"

#define NOBODY 65534
#define TIME_LIMIT_NS (60 * NS_PER_SEC)
#define MEMORY_LIMIT_BYTES (4ull << 30) /* of address space: the file is mapped whole */

/* What the child does; what it makes goes into reply. 0, or -errno with *reason. */
typedef int (*work_fn)(void *arg, struct strbuf *reply, char **reason);

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

static void child_main(work_fn work, void *arg, int out)
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

static int run(work_fn work, void *arg, struct strbuf *reply, char **reason)
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
	err = receive(ends[0], reply);
	close(ends[0]);
	if (err)
		kill(child, SIGKILL);
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	if (err == -ETIMEDOUT) {
		*reason = strdup(
			"reading the executable's symbols took more than a minute: given up");
	} else if (!err && (!WIFEXITED(status) || WEXITSTATUS(status))) {
		err = -ENOEXEC;
		*reason = strdup("reading the executable's symbols failed: the file is corrupt");
	} else if (!err) {
		err = take(reply, reason);
	}
	return err;
}

/* ---- first: what the files say of themselves ---- */

static int read_wishes(void *arg, struct strbuf *reply, char **reason)
{
	const struct plan_input *in = arg;
	struct debug_wish wish;

	for (size_t i = 0; i < in->source_cnt; i++) {
		debug_wish__read(in->sources[i].fd, &wish);
		strbuf__add(reply, &wish, sizeof(wish));
	}
	return 0;
}

/* The child may have been taken over by the file: what it says are strings, and no paths. */
static bool is_sound(const struct debug_wish *w)
{
	return memchr(w->build_id, '\0', sizeof(w->build_id)) &&
	       memchr(w->link, '\0', sizeof(w->link)) &&
	       memchr(w->soname, '\0', sizeof(w->soname)) && !strchr(w->link, '/') &&
	       strspn(w->build_id, "0123456789abcdef") == strlen(w->build_id);
}

static int get_wishes(const struct plan_input *in, struct debug_wish **out, char **reason)
{
	struct strbuf reply = STRBUF_INIT;
	struct debug_wish *wishes = calloc(in->source_cnt, sizeof(*wishes));
	int err = wishes ? run(read_wishes, (void *)in, &reply, reason) : -ENOMEM;

	if (!err && reply.len != in->source_cnt * sizeof(*wishes))
		err = -EPROTO;
	if (!err)
		memcpy(wishes, reply.s, reply.len);
	for (size_t i = 0; i < in->source_cnt && !err; i++)
		err = is_sound(&wishes[i]) ? 0 : -EPROTO;
	strbuf__free(&reply);
	if (err) {
		free(wishes);
		return err;
	}
	*out = wishes;
	return 0;
}

/* ---- then: the plan ---- */

struct planning {
	const struct sources *sources;
	const struct plan_request *req;
	const struct profile *profile;
};

static int make_plan(void *arg, struct strbuf *reply, char **reason)
{
	const struct planning *p = arg;
	struct plan *plan;
	int err = plan__build(p->sources, p->req, p->profile, &plan, reason);

	if (!err)
		wire__write(plan, reply);
	return err;
}

static int get_plan(const struct sources *sources, const struct plan_request *req,
		    const struct profile *profile, struct plan **out, char **reason)
{
	struct planning p = { sources, req, profile };
	struct strbuf reply = STRBUF_INIT;
	int err = run(make_plan, &p, &reply, reason);

	if (!err)
		err = wire__read(reply.s, reply.len, out);
	strbuf__free(&reply);
	return err;
}

int plan__new_isolated(const struct plan_input *in, const struct plan_request *req,
		       struct plan **out, char **reason)
{
	struct debug_wish *wishes = NULL;
	struct profile *profile = NULL;
	struct sources sources = {};
	int err;

	*reason = NULL;
	/* before rights are dropped: profiles may lie where only the user can read */
	err = profile__load(req->profile, req->profile_dir, req->exe_name, &profile, reason);
	if (!err)
		err = get_wishes(in, &wishes, reason);
	if (!err)
		err = sources__choose(in, wishes, req, &sources, reason);
	if (!err)
		err = sources__find_debug(in, &sources, reason);
	if (!err)
		err = get_plan(&sources, req, profile, out, reason);
	sources__free(&sources);
	free(wishes);
	profile__free(profile);
	if (err && !*reason)
		*reason = strdup(strerror(-err));
	return err;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "attach/hands.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/singles.h"
#include "base/fs.h"
#include "base/strbuf.h"
#include "base/vec.h"

#define THREADS 32

static void wait_for(pid_t child)
{
	while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
		;
}

static int create(const struct hands_request *req)
{
	LIBBPF_OPTS(bpf_link_create_opts, opts, .uprobe_multi.path = req->path,
		    .uprobe_multi.offsets = req->offsets,
		    .uprobe_multi.cookies = (const __u64 *)req->cookies,
		    .uprobe_multi.cnt = (__u32)req->cnt, .uprobe_multi.pid = (__u32)req->pid,
		    .uprobe_multi.flags = req->retprobe ? BPF_F_UPROBE_MULTI_RETURN : 0);

	return bpf_link_create(req->prog_fd, 0, BPF_TRACE_UPROBE_MULTI, &opts);
}

/* ---- a file descriptor, or an error, through a socket ---- */

static int send_result(int sock, int result)
{
	char control[CMSG_SPACE(sizeof(int))] = {};
	struct iovec iov = { &result, sizeof(result) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct cmsghdr *c;

	if (result >= 0) {
		msg.msg_control = control;
		msg.msg_controllen = sizeof(control);
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &result, sizeof(result));
	}
	return sendmsg(sock, &msg, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static int receive_result(int sock)
{
	char control[CMSG_SPACE(sizeof(int))] = {};
	int result = 0, fd = -EPROTO;
	struct iovec iov = { &result, sizeof(result) };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control,
			      .msg_controllen = sizeof(control) };
	struct cmsghdr *c;
	ssize_t n;

	do {
		n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	if (n != sizeof(result))
		return n < 0 ? -errno : -EPROTO;
	if (result < 0)
		return result;
	c = CMSG_FIRSTHDR(&msg);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
		memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	return fd;
}

int hands__attach(const struct hands_request *req)
{
	int ends[2], result;
	pid_t child;

	if (req->single)
		return singles__attach(req);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		return -errno;
	child = fork();
	if (child < 0) {
		result = -errno;
		close(ends[0]);
		close(ends[1]);
		return result;
	}
	if (!child) {
		setsid();
		close(ends[0]);
		result = create(req);
		/* not sent, the link ends with this process, which nobody kills */
		send_result(ends[1], result);
		if (result >= 0)
			close(result);
		_exit(0);
	}
	close(ends[1]);
	result = receive_result(ends[0]);
	close(ends[0]);
	wait_for(child);
	return result;
}

int hands__own_offset(const void *addr, unsigned long *out)
{
	struct strbuf sb = STRBUF_INIT;
	int err = fs__read("/proc/self/maps", &sb);
	char *line, *save;

	if (err)
		return err;
	err = -ENOENT;
	for (line = strtok_r(sb.s, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		unsigned long start, end, offset;

		if (sscanf(line, "%lx-%lx %*s %lx", &start, &end, &offset) != 3)
			continue;
		if ((unsigned long)addr >= start && (unsigned long)addr < end) {
			*out = (unsigned long)addr - start + offset;
			err = 0;
			break;
		}
	}
	strbuf__free(&sb);
	return err;
}

/* ---- closing ---- */

void hands__put(struct hands_pile *pile, int link_fd)
{
	int *slot;

	if (link_fd < 0)
		return;
	slot = vec__push(pile);
	if (slot)
		*slot = link_fd;
	else
		close(link_fd);
}

void hands__move(struct hands_pile *to, struct hands_pile *from)
{
	for (size_t i = 0; i < from->cnt; i++)
		hands__put(to, from->data[i]);
	vec__free(from);
}

struct work {
	const struct hands_pile *pile;
	size_t next;
};

static void *close_some(void *arg)
{
	struct work *w = arg;
	size_t i;

	while ((i = __atomic_fetch_add(&w->next, 1, __ATOMIC_RELAXED)) < w->pile->cnt)
		singles__close(w->pile->data[i]);
	return NULL;
}

static void close_side_by_side(const struct hands_pile *pile)
{
	struct work w = { .pile = pile };
	pthread_t threads[THREADS];
	size_t n = 0;

	while (n < THREADS && n + 1 < pile->cnt &&
	       !pthread_create(&threads[n], NULL, close_some, &w))
		n++;
	close_some(&w);
	while (n)
		pthread_join(threads[--n], NULL);
}

void hands__begin_closing(const struct hands_pile *pile)
{
	for (size_t i = 0; i < pile->cnt; i++)
		singles__begin_closing(pile->data[i]);
}

void hands__close(struct hands_pile *pile)
{
	int go[2], piped;
	pid_t child;
	char c;

	if (!pile->cnt)
		return;
	piped = pipe(go);
	child = piped ? -1 : fork();
	if (!child) {
		setsid();
		close(go[1]);
		/* our copies keep the links until the parent has let go of its own */
		while (read(go[0], &c, 1) < 0 && errno == EINTR)
			;
		close_side_by_side(pile);
		_exit(0);
	}
	for (size_t i = 0; i < pile->cnt; i++)
		close(pile->data[i]);
	if (!piped) {
		close(go[0]);
		close(go[1]);
	}
	if (child > 0)
		wait_for(child);
	vec__free(pile);
}

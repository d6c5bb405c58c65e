/* SPDX-License-Identifier: BSD-2-Clause */
#include "attach/singles.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/hands.h"
#include "roletrace/abi.h"

#define PMU "/sys/bus/event_source/devices/uprobe/"

/* ---- one probe ---- */

struct pmu {
	unsigned int type;
	unsigned int retprobe_bit;
};

static int read_number(const char *path, const char *fmt, unsigned int *out)
{
	FILE *f = fopen(path, "re");
	int n;

	if (!f)
		return -errno;
	n = fscanf(f, fmt, out);
	fclose(f);
	return n == 1 ? 0 : -EPROTO;
}

static int find_pmu(struct pmu *out)
{
	int err = read_number(PMU "type", "%u", &out->type);

	return err ?: read_number(PMU "format/retprobe", "config:%u", &out->retprobe_bit);
}

int singles__known(void)
{
	struct pmu pmu;

	return find_pmu(&pmu);
}

/* The link keeps the event: one descriptor each. */
static int attach_one(const struct hands_request *req, size_t i, const struct pmu *pmu)
{
	LIBBPF_OPTS(bpf_link_create_opts, opts, .perf_event.bpf_cookie = req->cookies[i]);
	struct perf_event_attr attr = { .size = sizeof(attr),
					.type = pmu->type,
					.config = (__u64)req->retprobe << pmu->retprobe_bit,
					.uprobe_path = (__u64)(unsigned long)req->path,
					.probe_offset = req->offsets[i] };
	/* limited to a process the kernel places it in that process' memory alone, for all threads;
	 * else in all that map the file, and the CPU means nothing */
	int event = (int)syscall(SYS_perf_event_open, &attr, req->pid ?: -1, req->pid ? -1 : 0, -1,
				 PERF_FLAG_FD_CLOEXEC);
	int link;

	if (event < 0)
		return -errno;
	link = bpf_link_create(req->prog_fd, event, BPF_PERF_EVENT, &opts);
	close(event);
	return link;
}

/* ---- the keeper ---- */

struct keeper {
	const struct hands_request *req;
	int *links; /* by site; negative: none */
	bool *refused;
};

/* Errors that say something about the site, and nothing about the others. */
static bool is_refusal(int err)
{
	return err == -EINVAL || err == -EOPNOTSUPP || err == -524 /* ENOTSUPP */ || err == -EIO;
}

static int attach_all(struct keeper *k)
{
	struct pmu pmu;
	int err = find_pmu(&pmu);

	for (size_t i = 0; i < k->req->cnt && !err; i++) {
		k->links[i] = attach_one(k->req, i, &pmu);
		if (k->links[i] < 0 && !(k->req->refused && is_refusal(k->links[i])))
			err = k->links[i];
		k->refused[i] = k->links[i] < 0;
	}
	return err;
}

/* A function is probed whole or not at all. */
static void drop_halves(struct keeper *k)
{
	const unsigned long long *cookies = k->req->cookies;

	for (size_t i = 0; i < k->req->cnt; i++) {
		for (size_t j = 0; j < k->req->cnt && k->links[i] < 0; j++) {
			if (RT_COOKIE_FN(cookies[j]) != RT_COOKIE_FN(cookies[i]))
				continue;
			k->refused[j] = true;
			if (k->links[j] >= 0)
				close(k->links[j]);
			k->links[j] = -1;
		}
	}
}

/* What else we inherited belongs to others: they would wait for its end. */
static void close_the_rest(const struct keeper *k, int sock)
{
	int max = sock;

	for (size_t i = 0; i < k->req->cnt; i++)
		max = k->links[i] > max ? k->links[i] : max;
	for (int fd = 0; fd < max; fd++) {
		bool ours = fd == sock;

		for (size_t i = 0; i < k->req->cnt && !ours; i++)
			ours = k->links[i] == fd;
		if (!ours)
			close(fd);
	}
	close_range((unsigned int)max + 1, ~0u, 0);
}

static void keep(const struct hands_request *req, int sock)
{
	struct keeper k = { .req = req,
			    .links = calloc(req->cnt, sizeof(*k.links)),
			    .refused = calloc(req->cnt, sizeof(*k.refused)) };
	size_t bytes = req->cnt * sizeof(*k.refused);
	int err = -ENOMEM;
	char c;

	for (size_t i = 0; i < req->cnt && k.links; i++)
		k.links[i] = -1;
	if (k.links && k.refused)
		err = attach_all(&k);
	if (!err) {
		drop_halves(&k);
		close_the_rest(&k, sock);
	}
	if (send(sock, &err, sizeof(err), MSG_NOSIGNAL) == sizeof(err) && !err &&
	    send(sock, k.refused, bytes, MSG_NOSIGNAL) == (ssize_t)bytes)
		while (read(sock, &c, 1) < 0 && errno == EINTR)
			;
	for (size_t i = 0; i < req->cnt && k.links; i++)
		if (k.links[i] >= 0)
			close(k.links[i]);
	_exit(0);
}

/* ---- our side ---- */

/* A grandchild: init is its parent, we need not wait for it. */
static int start_keeper(const struct hands_request *req, int ends[2])
{
	pid_t child = fork();

	if (child < 0)
		return -errno;
	if (!child) {
		setsid();
		close(ends[0]);
		if (fork())
			_exit(0);
		keep(req, ends[1]);
	}
	while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
		;
	return 0;
}

static int receive(int sock, void *data, size_t bytes)
{
	ssize_t n;

	do {
		n = recv(sock, data, bytes, MSG_WAITALL);
	} while (n < 0 && errno == EINTR);
	return n == (ssize_t)bytes ? 0 : n < 0 ? -errno : -EPROTO;
}

int singles__attach(const struct hands_request *req)
{
	bool *refused = calloc(req->cnt, sizeof(*refused));
	int ends[2], err, said;

	if (!refused)
		return -ENOMEM;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends)) {
		err = -errno;
		free(refused);
		return err;
	}
	err = start_keeper(req, ends);
	close(ends[1]);
	err = err ?: receive(ends[0], &said, sizeof(said));
	err = err ?: said;
	err = err ?: receive(ends[0], refused, req->cnt * sizeof(*refused));
	for (size_t i = 0; i < req->cnt && !err && req->refused; i++)
		req->refused[i] = refused[i];
	free(refused);
	if (!err)
		return ends[0];
	singles__close(ends[0]);
	return err;
}

bool singles__begin_closing(int fd)
{
	return !shutdown(fd, SHUT_WR);
}

void singles__close(int fd)
{
	ssize_t n;
	char c;

	/* we read the keeper's end */
	if (singles__begin_closing(fd))
		do {
			n = read(fd, &c, 1);
		} while (n > 0 || (n < 0 && errno == EINTR));
	close(fd);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "attach/iter.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/strbuf.h"

#define READ_BYTES 32768u

int iter__read(const struct bpf_link *link, struct strbuf *out)
{
	int fd = bpf_iter_create(bpf_link__fd(link)), err = 0;
	char part[READ_BYTES];
	ssize_t n;

	if (fd < 0)
		return fd;
	while ((n = read(fd, part, sizeof(part))) != 0) {
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n < 0) {
			err = -errno;
			break;
		}
		strbuf__add(out, part, (size_t)n);
	}
	close(fd);
	return err ?: out->oom ? -ENOMEM : 0;
}

/*
 * Not by LIBBPF_OPTS: this struct ends in padding, which an initializer may leave as it was (gcc
 * without optimization does), and libbpf refuses options it does not know.
 */
struct bpf_link *iter__attach(const struct bpf_program *prog, int pid)
{
	union bpf_iter_link_info info = { .task.pid = (__u32)pid };
	struct bpf_iter_attach_opts opts;

	memset(&opts, 0, sizeof(opts));
	opts.sz = sizeof(opts);
	opts.link_info = &info;
	opts.link_info_len = sizeof(info);
	return bpf_program__attach_iter(prog, &opts);
}

int iter__run(const struct bpf_program *prog, int pid, struct strbuf *out)
{
	struct bpf_link *link = iter__attach(prog, pid);
	int err;

	if (!link)
		return -errno;
	err = iter__read(link, out);
	bpf_link__destroy(link);
	return err;
}

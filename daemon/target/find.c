/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/find.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/strbuf.h"
#include "target/process.h"

static bool has_comm(int pid, const char *comm)
{
	struct strbuf sb = STRBUF_INIT;
	char path[64];
	bool same = false;

	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	if (!fs__read(path, &sb)) {
		if (sb.len && sb.s[sb.len - 1] == '\n')
			sb.s[--sb.len] = '\0';
		/* the kernel keeps 15 bytes of a name */
		same = !strncmp(sb.s, comm, 15) && strlen(sb.s) == strnlen(comm, 15);
	}
	strbuf__free(&sb);
	return same;
}

static bool has_exe(int pid, const char *exe)
{
	char path[64], link[PATH_MAX];
	struct stat want, got;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	if (!stat(exe, &want) && !stat(path, &got))
		return want.st_dev == got.st_dev && want.st_ino == got.st_ino;
	n = readlink(path, link, sizeof(link) - 1);
	if (n < 0)
		return false;
	link[n] = '\0';
	return !strcmp(link, exe);
}

/* A zombie keeps its name; a process without its main thread looks like one, and is none. */
static bool has_ended(int pid)
{
	struct pollfd p = { .fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN };
	bool ended = p.fd < 0 || poll(&p, 1, 0) != 0;

	if (p.fd >= 0)
		close(p.fd);
	return ended;
}

int find__process(const struct find_request *req, unsigned int *cnt)
{
	DIR *proc = opendir("/proc");
	uint64_t youngest = 0;
	struct dirent *ent;
	int found = 0;

	*cnt = 0;
	if (!proc)
		return -errno;
	while ((ent = readdir(proc))) {
		int pid = isdigit((unsigned char)ent->d_name[0]) ? atoi(ent->d_name) : 0;
		uint64_t start;

		if (pid <= 0 || pid == req->not_pid || pid == getpid())
			continue;
		if ((req->comm && !has_comm(pid, req->comm)) ||
		    (req->exe && !has_exe(pid, req->exe)))
			continue;
		if (has_ended(pid) || target__start_ticks(pid, &start))
			continue;
		++*cnt;
		if (!found || start > youngest) {
			found = pid;
			youngest = start;
		}
	}
	closedir(proc);
	return found;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/process.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/fs.h"
#include "base/strbuf.h"
#include "target/maps.h"

/* Fields of /proc/PID/stat after the command name, which may itself hold spaces and brackets. */
struct stat_line {
	char state;
	uint64_t start_ticks;
};

static int read_stat(const char *path, struct stat_line *out)
{
	struct strbuf sb = STRBUF_INIT;
	unsigned long long start;
	char *p;
	int err = fs__read(path, &sb);

	if (err)
		goto out;
	err = -EIO;
	p = strrchr(sb.s, ')');
	if (!p || p[1] != ' ')
		goto out;
	out->state = p[2];
	/* field 22; the state is field 3 */
	if (sscanf(p + 3,
		   " %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu",
		   &start) != 1)
		goto out;
	out->start_ticks = start;
	err = 0;
out:
	strbuf__free(&sb);
	return err;
}

/* A line "Key: value" of /proc/PID/status; the last number of the value. */
static long status_last_number(const char *status, const char *key)
{
	const char *p = strstr(status, key), *end;

	if (!p)
		return -1;
	p += strlen(key);
	end = strchrnul(p, '\n');
	while (end > p && !isdigit((unsigned char)end[-1]))
		end--;
	while (end > p && isdigit((unsigned char)end[-1]))
		end--;
	return atol(end);
}

/* Finds a thread that has not exited: the leader, or when it is gone any other. */
static int find_living_thread(struct target *t, char **reason)
{
	struct stat_line st;
	struct dirent *ent;
	char path[64];
	DIR *dir;
	int err;

	snprintf(path, sizeof(path), "/proc/%d/stat", t->pid);
	err = read_stat(path, &st);
	if (err)
		return fail(reason, -ESRCH, "no process with pid %d", t->pid);
	t->start_ticks = st.start_ticks;
	t->proc_tid = t->pid;
	if (st.state != 'Z' && st.state != 'X')
		return 0;

	t->leader_gone = true;
	snprintf(path, sizeof(path), "/proc/%d/task", t->pid);
	dir = opendir(path);
	while (dir && (ent = readdir(dir))) {
		int tid = atoi(ent->d_name);

		snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", t->pid, tid);
		if (tid <= 0 || tid == t->pid || read_stat(path, &st))
			continue;
		if (st.state == 'Z' || st.state == 'X')
			continue;
		t->proc_tid = tid;
		closedir(dir);
		return 0;
	}
	if (dir)
		closedir(dir);
	return fail(reason, -ESRCH, "process %d has ended (a zombie)", t->pid);
}

static int read_status(struct target *t, char **reason)
{
	struct strbuf sb = STRBUF_INIT;
	char path[64], *p, *end;
	long tgid;
	int err;

	snprintf(path, sizeof(path), "/proc/%d/status", t->pid);
	err = fs__read(path, &sb);
	if (err) {
		err = fail(reason, -ESRCH, "no process with pid %d", t->pid);
		goto out;
	}
	tgid = status_last_number(sb.s, "\nTgid:");
	if (tgid != t->pid) {
		err = fail(reason, -ESRCH, "%d is a thread of process %ld: trace that one", t->pid,
			   tgid);
		goto out;
	}
	t->ns_pid = (int)status_last_number(sb.s, "\nNSpid:");
	if (t->ns_pid <= 0)
		t->ns_pid = t->pid;
	p = strstr(sb.s, "Name:\t");
	if (p) {
		p += strlen("Name:\t");
		end = strchrnul(p, '\n');
		snprintf(t->comm, sizeof(t->comm), "%.*s", (int)(end - p), p);
	}
out:
	strbuf__free(&sb);
	return err;
}

/*
 * As maps shows it: that is fstat's device and inode, but on an overlay of a kernel before 6.8,
 * where it is those of the file in its layer. There the path tells which lines are the
 * executable's.
 */
static void read_exe_identity(struct target *t)
{
	struct strbuf sb = STRBUF_INIT;
	struct map_line l;
	char *line, *save;
	struct stat st;

	if (fstat(t->exe_fd, &st))
		return;
	t->exe_dev = st.st_dev;
	t->exe_ino = st.st_ino;
	if (map_lines__read(t, &sb))
		goto out;
	for (line = strtok_r(sb.s, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		if (!map_line__parse(line, &l) || !l.ino)
			continue;
		if (l.dev == st.st_dev && l.ino == st.st_ino) {
			t->exe_dev = st.st_dev;
			t->exe_ino = st.st_ino;
			break;
		}
		if (!strcmp(l.path, t->exe)) {
			t->exe_dev = l.dev;
			t->exe_ino = l.ino;
		}
	}
out:
	strbuf__free(&sb);
}

static int open_exe(struct target *t, char **reason)
{
	char path[64], link[PATH_MAX];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/exe", t->pid, t->proc_tid);
	n = readlink(path, link, sizeof(link) - 1);
	if (n < 0 && (errno == ENOENT || errno == ESRCH))
		return fail(reason, -ESRCH,
			    "process %d has no executable (a kernel thread, or gone)", t->pid);
	if (n < 0)
		return fail(reason, -EACCES,
			    "no right to look into process %d (%s): root or CAP_SYS_PTRACE "
			    "over it is needed",
			    t->pid, strerror(errno));
	link[n] = '\0';
	t->exe = strdup(link);
	t->exe_path = strdup(path);
	if (!t->exe || !t->exe_path)
		return fail(reason, -ENOMEM, "out of memory");
	t->exe_fd = open(path, O_RDONLY | O_CLOEXEC);
	if (t->exe_fd < 0)
		return fail(reason, errno == EACCES || errno == EPERM ? -EACCES : -ESRCH,
			    "cannot open the executable of process %d: %s", t->pid,
			    strerror(errno));
	read_exe_identity(t);
	return 0;
}

int target__start_ticks(int pid, uint64_t *out)
{
	struct stat_line st;
	char path[64];
	int err;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	err = read_stat(path, &st);
	if (!err)
		*out = st.start_ticks;
	return err;
}

int target__open(int pid, struct target *t, char **reason)
{
	uint64_t boot_ns;
	int err;

	memset(t, 0, sizeof(*t));
	*reason = NULL;
	t->pid = pid;
	t->exe_fd = -1;
	t->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (t->pidfd < 0 && (errno == ESRCH || errno == EINVAL))
		err = fail(reason, -ESRCH,
			   errno == ESRCH ? "no process with pid %d"
					  : "%d is no process (perhaps a thread)",
			   pid);
	else if (t->pidfd < 0)
		err = fail(reason, -errno, "cannot open process %d: %s", pid, strerror(errno));
	else
		err = read_status(t, reason);
	if (!err)
		err = find_living_thread(t, reason);
	if (!err)
		err = open_exe(t, reason);
	if (err) {
		target__close(t);
		return err;
	}
	boot_ns = clock__unix_ns() - clock__ns(CLOCK_BOOTTIME);
	t->start_unix_ns = boot_ns + t->start_ticks * (NS_PER_SEC / (uint64_t)sysconf(_SC_CLK_TCK));
	return 0;
}

void target__close(struct target *t)
{
	if (t->pidfd >= 0)
		close(t->pidfd);
	if (t->exe_fd >= 0)
		close(t->exe_fd);
	target__close_objects(t);
	free(t->exe);
	free(t->exe_path);
	memset(t, 0, sizeof(*t));
	t->pidfd = t->exe_fd = -1;
}

bool target__alive(const struct target *t)
{
	struct pollfd p = { .fd = t->pidfd, .events = POLLIN };

	return poll(&p, 1, 0) == 0;
}

int target__open_mem(const struct target *t)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/mem", t->pid, t->proc_tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Empty programs on single (perf event) probes, as tools without uprobe_multi put them: the floor
 * of such a peer. floor PID FILE OFFSET[r]...: r is a return probe. Says "ready", stays until
 * killed. The floor of roletrace's own probes is roletrace --empty-programs.
 */
#define _GNU_SOURCE
#include <bpf/bpf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SYS_UPROBE "/sys/bus/event_source/devices/uprobe/"

/* The first number in a file, behind any words. */
static int read_number(const char *path)
{
	FILE *f = fopen(path, "r");
	int n = -1;

	if (!f || (fscanf(f, "%*[^0-9]"), fscanf(f, "%d", &n)) != 1)
		n = -1;
	if (f)
		fclose(f);
	return n;
}

static int load_empty(void)
{
	static const struct bpf_insn leave[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};

	return bpf_prog_load(BPF_PROG_TYPE_KPROBE, "empty", "GPL", leave, 2, NULL);
}

static int open_probe(int pid, const char *file, const char *where)
{
	struct perf_event_attr attr = { .size = sizeof(attr),
					.type = read_number(SYS_UPROBE "type") };
	char *end;

	attr.uprobe_path = (unsigned long)file;
	attr.probe_offset = strtoul(where, &end, 0);
	if (*end == 'r')
		attr.config = 1ull << read_number(SYS_UPROBE "format/retprobe");
	return syscall(SYS_perf_event_open, &attr, pid, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static int attach(int prog, int pid, const char *file, const char *where)
{
	int fd = open_probe(pid, file, where);

	if (fd < 0 || ioctl(fd, PERF_EVENT_IOC_SET_BPF, prog) ||
	    ioctl(fd, PERF_EVENT_IOC_ENABLE, 0))
		return -errno;
	return 0;
}

int main(int argc, char **argv)
{
	int prog, err = 0;

	if (argc < 4) {
		fprintf(stderr, "usage: floor PID FILE OFFSET[r]...\n");
		return 2;
	}
	prog = load_empty();
	if (prog < 0)
		err = -errno;
	for (int i = 3; i < argc && !err; i++)
		err = attach(prog, atoi(argv[1]), argv[2], argv[i]);
	if (err) {
		fprintf(stderr, "floor: failed to attach: %s\n", strerror(-err));
		return 1;
	}
	printf("ready\n");
	fflush(stdout);
	pause();
	return 0;
}

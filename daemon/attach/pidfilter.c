/* SPDX-License-Identifier: BSD-2-Clause */
#include "attach/pidfilter.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/hands.h"

/* What is probed. */
static __attribute__((noinline)) void stepping_stone(void)
{
	__asm__ volatile("nop");
}

/* Says when it has begun, waits for the word, steps, says so. */
static void *second_thread(void *arg)
{
	int sock = *(int *)arg;
	char c = 0;

	if (write(sock, &c, 1) == 1 && read(sock, &c, 1) == 1) {
		stepping_stone();
		if (write(sock, &c, 1) != 1)
			_exit(1);
	}
	return NULL;
}

static void child_main(int sock, pid_t parent)
{
	pthread_t thread;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent || pthread_create(&thread, NULL, second_thread, &sock))
		_exit(1);
	pthread_join(thread, NULL);
	pause();
}

/* A program that counts in the first value of an array. */
static int load_counter(int map)
{
	const struct bpf_insn insns[] = {
		{ .code = BPF_LD | BPF_DW | BPF_IMM,
		  .dst_reg = BPF_REG_1,
		  .src_reg = BPF_PSEUDO_MAP_VALUE,
		  .imm = map },
		{ .code = 0 },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_2, .imm = 1 },
		{ .code = BPF_STX | BPF_ATOMIC | BPF_DW,
		  .dst_reg = BPF_REG_1,
		  .src_reg = BPF_REG_2,
		  .imm = BPF_ADD },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = BPF_TRACE_UPROBE_MULTI);

	return bpf_prog_load(BPF_PROG_TYPE_KPROBE, NULL, "Dual BSD/GPL", insns,
			     sizeof(insns) / sizeof(insns[0]), &opts);
}

static int attach(int prog, pid_t pid, struct hands_pile *to)
{
	unsigned long offset;
	unsigned long long cookie = 0;
	struct hands_request req = { .prog_fd = prog,
				     .path = "/proc/self/exe",
				     .pid = pid,
				     .offsets = &offset,
				     .cookies = &cookie,
				     .cnt = 1 };
	int err = hands__own_offset((const void *)stepping_stone, &offset), link;

	if (err)
		return err;
	link = hands__attach(&req);
	hands__put(to, link);
	return link < 0 ? link : 0;
}

/* The child is there and waits for the word; 1 when its step was counted. */
static int count_step(int map, int prog, pid_t child, int sock, bool fail)
{
	struct hands_pile pile = {};
	unsigned long long count = 0;
	unsigned int key = 0;
	char c = 0;
	int err;

	if (read(sock, &c, 1) != 1)
		return -ECHILD;
	err = attach(prog, fail ? getpid() : child, &pile);
	if (!err && (write(sock, &c, 1) != 1 || read(sock, &c, 1) != 1))
		err = -ECHILD;
	err = err ?: bpf_map_lookup_elem(map, &key, &count);
	kill(child, SIGKILL);
	hands__close(&pile);
	return err ?: count > 0;
}

int pidfilter__is_by_process(bool fail)
{
	pid_t child, self = getpid();
	int ends[2], map, prog, result;

	map = bpf_map_create(BPF_MAP_TYPE_ARRAY, NULL, sizeof(int), 8, 1, NULL);
	if (map < 0)
		return map;
	prog = load_counter(map);
	result = prog;
	if (prog < 0)
		goto close_map;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends)) {
		result = -errno;
		goto close_prog;
	}
	child = fork();
	if (!child) {
		close(ends[0]);
		child_main(ends[1], self);
	}
	close(ends[1]);
	result = child < 0 ? -errno : count_step(map, prog, child, ends[0], fail);
	close(ends[0]);
	if (child > 0) {
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
	}
close_prog:
	close(prog);
close_map:
	close(map);
	return result;
}

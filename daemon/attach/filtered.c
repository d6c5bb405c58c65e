/* SPDX-License-Identifier: BSD-2-Clause */
#include "attach/filtered.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/calibrate.h"
#include "attach/hands.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/log.h"
#include "functions.skel.h"

#define TRIAL_NS NS_PER_SEC

static int allow_exit_only(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	struct sock_fprog filter = { .len = sizeof(code) / sizeof(code[0]), .filter = code };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

static void child_main(volatile int *go, pid_t parent)
{
	struct rlimit none = {};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setrlimit(RLIMIT_CORE, &none);
	while (!*go && getppid() == parent)
		usleep(100);
	if (allow_exit_only())
		_exit(1);
	calibrate__call();
	_exit(0);
}

/* How the child ended, as of wait(2); killed when it does not. */
static int status_of(pid_t child)
{
	uint64_t deadline = clock__mono_ns() + TRIAL_NS;
	int status;

	while (!waitpid(child, &status, WNOHANG)) {
		if (clock__mono_ns() > deadline)
			kill(child, SIGKILL);
		usleep(100);
	}
	return status;
}

/* 1: the child was killed, 0: it lived, -errno: it could not be tried. */
static int trial(const struct object *obj, struct hands_pile *to)
{
	struct hands_request req = { .prog_fd = bpf_program__fd(obj->skel->progs.uret_exit),
				     .path = "/proc/self/exe",
				     .cookies = (unsigned long long[]){ 0 },
				     .cnt = 1,
				     .retprobe = true,
				     .single = obj->mode.single_probes };
	pid_t parent = getpid(), child;
	unsigned long offset;
	volatile int *go;
	int err = calibrate__offset(&offset), status, fd;

	if (err)
		return err;
	go = mmap(NULL, sizeof(*go), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (go == MAP_FAILED)
		return -errno;
	child = fork();
	if (!child)
		child_main(go, parent);
	err = child < 0 ? -errno : 0;
	req.offsets = &offset;
	req.pid = obj->mode.any_process ? 0 : child;
	fd = err ?: hands__attach(&req);
	hands__put(to, fd);
	*go = 1;
	if (child > 0)
		status = status_of(child);
	munmap((void *)go, sizeof(*go));
	if (fd < 0)
		return fd;
	if (WIFSIGNALED(status))
		return WTERMSIG(status) == SIGSYS ? 1 : -EINTR;
	return WEXITSTATUS(status) ? -ENOTSUP : 0;
}

int filtered__check(const struct object *obj, const struct target *t, bool assume_kills,
		    struct hands_pile *to, char **reason)
{
	int kills = assume_kills ? 1 : trial(obj, to);

	log_debug("attach: a return probe under a seccomp filter: %s", kills > 0    ? "kills"
								       : kills == 0 ? "harmless"
										    : "not tried");
	if (!kills)
		return 0;
	if (!target__is_filtered(t)) {
		log_warn("attach: on this kernel a seccomp filter that the target sets up from now "
			 "on may kill it (--exit uretprobe)");
		return 0;
	}
	return fail(reason, -EPERM,
		    "process %d is under a seccomp filter, and on this kernel its first return "
		    "probe %s kill it: use --exit sites",
		    t->pid, kills > 0 ? "would" : "might");
}

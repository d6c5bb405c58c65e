/* SPDX-License-Identifier: BSD-2-Clause */
#include "attach/features.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <linux/btf.h>
#include <linux/capability.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/strbuf.h"

#define BTF_PATH "/sys/kernel/btf/vmlinux"

static void found(struct features *fs, enum feature_id id, bool ok, const char *fmt, ...)
{
	static const char *const names[] = {
		[FEATURE_ARCH] = "architecture",
		[FEATURE_KERNEL] = "kernel",
		[FEATURE_CAP_BPF] = "CAP_BPF",
		[FEATURE_CAP_PERFMON] = "CAP_PERFMON",
		[FEATURE_CAP_SYS_PTRACE] = "CAP_SYS_PTRACE",
		[FEATURE_LOCKDOWN] = "lockdown",
		[FEATURE_BTF] = "kernel BTF",
		[FEATURE_BPF_LOAD] = "BPF programs",
		[FEATURE_UPROBE_MULTI] = "uprobe_multi",
		[FEATURE_PROC] = "/proc",
	};
	struct feature *f = &fs->f[id];
	va_list ap;

	f->name = names[id];
	f->ok = ok;
	va_start(ap, fmt);
	vsnprintf(f->detail, sizeof(f->detail), fmt, ap);
	va_end(ap);
}

static void probe_kernel(struct features *fs)
{
	struct utsname u;
	int major = 0, minor = 0;

	uname(&u);
	snprintf(fs->kernel, sizeof(fs->kernel), "%s", u.release);
	found(fs, FEATURE_ARCH, !strcmp(u.machine, "x86_64"), "%s%s", u.machine,
	      strcmp(u.machine, "x86_64") ? ": only x86_64 is supported" : "");
	sscanf(u.release, "%d.%d", &major, &minor);
	if (major > 6 || (major == 6 && minor >= 6))
		found(fs, FEATURE_KERNEL, true, "%s", u.release);
	else
		found(fs, FEATURE_KERNEL, false,
		      "%s: Linux 6.6 or later is needed (uprobe_multi links)", u.release);
}

static void probe_caps(struct features *fs)
{
	static const struct {
		enum feature_id id;
		int cap;
		bool admin_will_do;
		const char *purpose;
	} caps[] = {
		{ FEATURE_CAP_BPF, CAP_BPF, true, "to load BPF programs" },
		{ FEATURE_CAP_PERFMON, CAP_PERFMON, true, "to attach them to probes" },
		{ FEATURE_CAP_SYS_PTRACE, CAP_SYS_PTRACE, false,
		  "to look into other users' processes" },
	};
	struct strbuf sb = STRBUF_INIT;
	unsigned long long eff = 0;
	const char *p;

	if (!fs__read("/proc/self/status", &sb)) {
		p = strstr(sb.s, "\nCapEff:");
		if (p)
			eff = strtoull(p + strlen("\nCapEff:"), NULL, 16);
	}
	strbuf__free(&sb);
	for (size_t i = 0; i < sizeof(caps) / sizeof(caps[0]); i++) {
		bool ok = eff >> caps[i].cap & 1 ||
			  (caps[i].admin_will_do && eff >> CAP_SYS_ADMIN & 1);

		found(fs, caps[i].id, ok, ok ? "held" : "not held: needed %s (run as root)",
		      caps[i].purpose);
	}
}

static void probe_lockdown(struct features *fs)
{
	struct strbuf sb = STRBUF_INIT;
	bool off = fs__read("/sys/kernel/security/lockdown", &sb) != 0;
	bool shut = strstr(sb.s, "[confidentiality]") != NULL;

	found(fs, FEATURE_LOCKDOWN, !shut, "%s",
	      shut  ? "confidentiality mode forbids BPF to read memory"
	      : off ? "not in force (or securityfs not mounted)"
		    : "allows tracing");
	strbuf__free(&sb);
}

/* A program that does nothing, and a link that must fail for its path only. */
static void probe_bpf(struct features *fs)
{
	static const struct bpf_insn insns[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	LIBBPF_OPTS(bpf_prog_load_opts, load, .expected_attach_type = BPF_TRACE_UPROBE_MULTI);
	LIBBPF_OPTS(bpf_link_create_opts, link);
	unsigned long offset = 0;
	int prog, err;

	prog = bpf_prog_load(BPF_PROG_TYPE_KPROBE, NULL, "Dual BSD/GPL", insns,
			     sizeof(insns) / sizeof(insns[0]), &load);
	if (prog < 0) {
		found(fs, FEATURE_BPF_LOAD, false, "the kernel refuses to load a program: %s",
		      strerror(-prog));
		found(fs, FEATURE_UPROBE_MULTI, false, "not known: no program can be loaded");
		return;
	}
	found(fs, FEATURE_BPF_LOAD, true, "can be loaded");
	link.uprobe_multi.path = "/";
	link.uprobe_multi.offsets = &offset;
	link.uprobe_multi.cnt = 1;
	err = bpf_link_create(prog, -1, BPF_TRACE_UPROBE_MULTI, &link);
	/* EBADF: the path is no regular file, so the kernel knows the rest */
	found(fs, FEATURE_UPROBE_MULTI, err == -EBADF, "%s",
	      err == -EBADF ? "links work" : "the kernel has no uprobe_multi links");
	if (err >= 0)
		close(err);
	close(prog);
}

static void probe_btf(struct features *fs)
{
	unsigned short magic = 0;
	FILE *f = fopen(BTF_PATH, "re");

	if (!f) {
		found(fs, FEATURE_BTF, false, BTF_PATH ": %s (CONFIG_DEBUG_INFO_BTF)",
		      strerror(errno));
		return;
	}
	if (fread(&magic, sizeof(magic), 1, f) == 1 && magic == BTF_MAGIC)
		found(fs, FEATURE_BTF, true, BTF_PATH);
	else
		found(fs, FEATURE_BTF, false, BTF_PATH ": cannot be read as BTF (hidden?)");
	fclose(f);
}

void features__probe(struct features *out)
{
	memset(out, 0, sizeof(*out));
	probe_kernel(out);
	probe_caps(out);
	probe_lockdown(out);
	probe_btf(out);
	probe_bpf(out);
	if (access("/proc/self/exe", R_OK))
		found(out, FEATURE_PROC, false, "not mounted");
	else
		found(out, FEATURE_PROC, true, "mounted");
}

const struct feature *features__missing(const struct features *f)
{
	for (int i = 0; i < FEATURE_CNT; i++)
		if (!f->f[i].ok && i != FEATURE_CAP_SYS_PTRACE) /* own processes can be traced */
			return &f->f[i];
	return NULL;
}

void features__print(const struct features *f, FILE *to)
{
	for (int i = 0; i < FEATURE_CNT; i++)
		fprintf(to, "%s  %-15s %s\n", f->f[i].ok ? "ok" : "NO", f->f[i].name,
			f->f[i].detail);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "attach/features.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <linux/btf.h>
#include <linux/capability.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "attach/growth.h"
#include "attach/pidfilter.h"
#include "attach/singles.h"
#include "base/fs.h"
#include "base/strbuf.h"
#include "roletrace/abi.h"

#define BTF_PATH "/sys/kernel/btf/vmlinux"

/* The detection that is under way. */
struct probing {
	struct features *out;
	unsigned int without;
	bool thorough;
};

/* key: for features__parse. absent: what the lack of it means. */
static const struct spec {
	const char *key, *name, *absent;
	bool optional;
} specs[FEATURE_CNT] = {
	[FEATURE_ARCH] = { "x86_64", "architecture", "only x86_64 is supported" },
	[FEATURE_KERNEL] = { "", "kernel" },
	[FEATURE_PROC] = { "proc", "/proc", "not mounted" },
	[FEATURE_CAP_BPF] = { "cap_bpf", "CAP_BPF",
			      "not held: needed to load BPF programs (run as root)" },
	[FEATURE_CAP_PERFMON] = { "cap_perfmon", "CAP_PERFMON",
				  "not held: needed to attach them to probes (run as root)" },
	[FEATURE_CAP_SYS_PTRACE] = { "cap_sys_ptrace", "CAP_SYS_PTRACE",
				     "not held: other users' processes are out of reach", true },
	[FEATURE_LOCKDOWN] = { "lockdown", "lockdown",
			       "confidentiality mode forbids BPF to read memory" },
	[FEATURE_BTF] = { "btf", "kernel BTF", BTF_PATH " is not there (CONFIG_DEBUG_INFO_BTF)" },
	[FEATURE_BPF_LOAD] = { "bpf", "BPF programs", "the kernel refuses to load a program" },
	[FEATURE_MMAP_ARRAY] = { "mmap_array", "mappable arrays",
				 "counters cannot be read as memory (Linux 5.5)" },
	[FEATURE_CURRENT_TASK] = { "current_task", "task in a probe",
				   "no bpf_get_current_task_btf (Linux 5.11)" },
	[FEATURE_COOKIE] = { "cookie", "probe cookies",
			     "no bpf_get_attach_cookie: probes cannot be told apart "
			     "(Linux 5.15)" },
	[FEATURE_LOOP] = { "bpf_loop", "bpf_loop",
			   "the shadow stack cannot be searched (Linux 5.17)" },
	[FEATURE_FIND_VMA] = { "find_vma", "bpf_find_vma",
			       "a thread's stack cannot be found (Linux 5.17)" },
	[FEATURE_TRACEPOINTS] = { "tp_btf", "BTF tracepoints",
				  "the ends of threads cannot be seen (Linux 5.5)" },
	[FEATURE_MAP_LOCK] = { "map_lock", "memory maps",
			       "no cheap word when they change (Linux 6.13): growth shows page "
			       "faults only",
			       true },
	[FEATURE_TASK_ITER] = { "task_iter", "task iterator",
				"calls in flight cannot be counted (Linux 6.1)" },
	[FEATURE_TASK_REGS] = { "task_regs", "bpf_task_pt_regs",
				"stack pointers of threads cannot be read (Linux 5.15)" },
	[FEATURE_TASK_STORAGE] = { "task_storage", "task storage",
				   "not for probes (Linux 5.12): shadow stacks in a hash, of "
				   "1024 threads",
				   true },
	[FEATURE_UPROBE_MULTI] = { "uprobe_multi", "uprobe_multi",
				   "no such links (Linux 6.6): one perf event a probe, the first "
				   "32 probes only",
				   true },
	[FEATURE_MULTI_PID] = { "multi_pid", "links by process",
				"links see one thread (before Linux 6.10): every process of "
				"the executable runs over the probes, libraries cannot be "
				"probed",
				true },
	[FEATURE_PERF_UPROBE] = { "perf_uprobe", "single probes",
				  "no perf uprobe events (CONFIG_UPROBE_EVENTS, sysfs)", true },
};
_Static_assert(SINGLES_MAX == 32 && RT_TID_STACKS == 1024, "numbers in the words above");

static void put(struct feature *f, enum feature_id id, bool ok, const char *fmt, va_list ap)
{
	f->name = specs[id].name;
	f->optional = specs[id].optional;
	f->ok = ok;
	vsnprintf(f->detail, sizeof(f->detail), fmt, ap);
}

/* Notes what was found: with fmt NULL, what its lack means. */
static void found(struct probing *p, enum feature_id id, bool ok, const char *fmt, ...)
{
	bool forced = p->without & 1u << id;
	va_list ap;

	va_start(ap, fmt);
	put(&p->out->f[id], id, ok && !forced, forced || !fmt ? specs[id].absent : fmt, ap);
	va_end(ap);
}

static bool is_at_least(const struct features *fs, int major, int minor)
{
	int have_major = 0, have_minor = 0;

	sscanf(fs->kernel, "%d.%d", &have_major, &have_minor);
	return have_major > major || (have_major == major && have_minor >= minor);
}

/* The release itself is no condition: distributions add to theirs. */
static void probe_kernel(struct probing *p)
{
	struct features *fs = p->out;
	struct utsname u;
	bool x86_64, proc;

	uname(&u);
	snprintf(fs->kernel, sizeof(fs->kernel), "%s", u.release);
	x86_64 = !strcmp(u.machine, "x86_64");
	found(p, FEATURE_ARCH, x86_64, x86_64 ? "%s" : NULL, u.machine);
	found(p, FEATURE_KERNEL, true, "%s%s", u.release,
	      is_at_least(fs, 6, 1) ? "" : ", older than 6.1: something will be missing");
	proc = !access("/proc/self/exe", R_OK);
	found(p, FEATURE_PROC, proc, proc ? "mounted" : NULL);
}

static void probe_caps(struct probing *p)
{
	static const struct {
		enum feature_id id;
		int cap;
		bool admin_will_do;
	} caps[] = {
		{ FEATURE_CAP_BPF, CAP_BPF, true },
		{ FEATURE_CAP_PERFMON, CAP_PERFMON, true },
		{ FEATURE_CAP_SYS_PTRACE, CAP_SYS_PTRACE, false },
	};
	struct strbuf sb = STRBUF_INIT;
	unsigned long long eff = 0;
	const char *line;

	if (!fs__read("/proc/self/status", &sb)) {
		line = strstr(sb.s, "\nCapEff:");
		if (line)
			eff = strtoull(line + strlen("\nCapEff:"), NULL, 16);
	}
	strbuf__free(&sb);
	for (size_t i = 0; i < sizeof(caps) / sizeof(caps[0]); i++) {
		bool ok = eff >> caps[i].cap & 1 ||
			  (caps[i].admin_will_do && eff >> CAP_SYS_ADMIN & 1);

		found(p, caps[i].id, ok, ok ? "held" : NULL);
	}
}

static void probe_lockdown(struct probing *p)
{
	struct strbuf sb = STRBUF_INIT;
	bool off = fs__read("/sys/kernel/security/lockdown", &sb) != 0;

	if (strstr(sb.s, "[confidentiality]"))
		found(p, FEATURE_LOCKDOWN, false, NULL);
	else
		found(p, FEATURE_LOCKDOWN, true, "%s",
		      off ? "not in force (or securityfs not mounted)" : "allows tracing");
	strbuf__free(&sb);
}

static void probe_btf(struct probing *p)
{
	unsigned short magic = 0;
	FILE *f = fopen(BTF_PATH, "re");

	if (!f) {
		found(p, FEATURE_BTF, false, BTF_PATH ": %s (CONFIG_DEBUG_INFO_BTF)",
		      strerror(errno));
		return;
	}
	if (fread(&magic, sizeof(magic), 1, f) == 1 && magic == BTF_MAGIC)
		found(p, FEATURE_BTF, true, BTF_PATH);
	else
		found(p, FEATURE_BTF, false, BTF_PATH ": cannot be read as BTF (hidden?)");
	fclose(f);
}

/* A link that must fail for its path only. */
static int try_multi_link(int prog)
{
	LIBBPF_OPTS(bpf_link_create_opts, link);
	unsigned long offset = 0;
	int err;

	link.uprobe_multi.path = "/";
	link.uprobe_multi.offsets = &offset;
	link.uprobe_multi.cnt = 1;
	err = bpf_link_create(prog, -1, BPF_TRACE_UPROBE_MULTI, &link);
	if (err >= 0)
		close(err);
	return err;
}

/* A program that does nothing, and what it could be attached by. */
static void probe_bpf(struct probing *p)
{
	static const struct bpf_insn insns[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	LIBBPF_OPTS(bpf_prog_load_opts, load, .expected_attach_type = BPF_TRACE_UPROBE_MULTI);
	bool multi;
	int prog;

	prog = bpf_prog_load(BPF_PROG_TYPE_KPROBE, NULL, "Dual BSD/GPL", insns,
			     sizeof(insns) / sizeof(insns[0]), &load);
	if (prog < 0) {
		found(p, FEATURE_BPF_LOAD, false, "the kernel refuses to load a program: %s",
		      strerror(-prog));
		found(p, FEATURE_UPROBE_MULTI, false, "not known: no program can be loaded");
		return;
	}
	found(p, FEATURE_BPF_LOAD, true, "can be loaded");
	/* EBADF: the path is no regular file, so the kernel knows the rest */
	multi = try_multi_link(prog) == -EBADF;
	found(p, FEATURE_UPROBE_MULTI, multi, multi ? "links work" : NULL);
	close(prog);
}

static void probe_helpers(struct probing *p)
{
	static const struct {
		enum feature_id id;
		enum bpf_func_id helper;
	} helpers[] = {
		{ FEATURE_CURRENT_TASK, BPF_FUNC_get_current_task_btf },
		{ FEATURE_COOKIE, BPF_FUNC_get_attach_cookie },
		{ FEATURE_LOOP, BPF_FUNC_loop },
		{ FEATURE_FIND_VMA, BPF_FUNC_find_vma },
		{ FEATURE_TASK_STORAGE, BPF_FUNC_task_storage_get },
	};
	LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = BPF_F_MMAPABLE);
	int map = bpf_map_create(BPF_MAP_TYPE_ARRAY, NULL, sizeof(int), 8, 1, &opts);

	found(p, FEATURE_MMAP_ARRAY, map >= 0, map < 0 ? NULL : "yes");
	if (map >= 0)
		close(map);
	for (size_t i = 0; i < sizeof(helpers) / sizeof(helpers[0]); i++) {
		bool ok = libbpf_probe_bpf_helper(BPF_PROG_TYPE_KPROBE, helpers[i].helper, NULL);

		found(p, helpers[i].id, ok, ok ? "yes" : NULL);
	}
}

static bool has_member(const struct btf *btf, const char *type, unsigned int kind, const char *name)
{
	int id = btf__find_by_name_kind(btf, type, kind);
	const struct btf_type *t = id < 0 ? NULL : btf__type_by_id(btf, (unsigned int)id);

	for (unsigned int i = 0; t && i < btf_vlen(t); i++) {
		unsigned int off = kind == BTF_KIND_ENUM ? btf_enum(t)[i].name_off
							 : btf_members(t)[i].name_off;

		if (!strcmp(btf__name_by_offset(btf, off), name))
			return true;
	}
	return false;
}

/* What the kernel's types tell of its abilities. */
static void probe_types(struct probing *p)
{
	struct btf *btf = p->thorough && p->out->f[FEATURE_BTF].ok ? btf__load_vmlinux_btf() : NULL;
	bool tracepoints = true, iter = true, regs = true, locks = true;

	if (btf) {
		tracepoints = btf__find_by_name_kind(btf, "btf_trace_sched_process_exit",
						     BTF_KIND_TYPEDEF) > 0;
		locks = growth__has_map_events(btf);
		iter = has_member(btf, "bpf_iter_link_info", BTF_KIND_UNION, "task");
		regs = has_member(btf, "bpf_func_id", BTF_KIND_ENUM, "BPF_FUNC_task_pt_regs");
		btf__free(btf);
	}
	found(p, FEATURE_TRACEPOINTS, tracepoints, tracepoints ? "yes" : NULL);
	found(p, FEATURE_MAP_LOCK, locks, locks ? "it is told when they change" : NULL);
	found(p, FEATURE_TASK_ITER, iter, iter ? "of one process" : NULL);
	found(p, FEATURE_TASK_REGS, regs, regs ? "yes" : NULL);
}

static void probe_pid_filter(struct probing *p)
{
	int result = 1;

	if (!p->out->f[FEATURE_UPROBE_MULTI].ok) {
		found(p, FEATURE_MULTI_PID, true, "single probes are by process");
		return;
	}
	if (p->thorough || !is_at_least(p->out, 6, 10))
		result = pidfilter__is_by_process(p->without & 1u << FEATURE_MULTI_PID);
	if (result < 0)
		found(p, FEATURE_MULTI_PID, false, "cannot be tried out: %s", strerror(-result));
	else
		found(p, FEATURE_MULTI_PID, result, result ? "all threads are seen" : NULL);
}

static void probe_single_probes(struct probing *p)
{
	int err = singles__known();

	found(p, FEATURE_PERF_UPROBE, !err, err ? NULL : "there, for want of uprobe_multi");
	/* without either there is no way */
	p->out->f[FEATURE_PERF_UPROBE].optional = p->out->f[FEATURE_UPROBE_MULTI].ok;
}

bool features__parse(const char *list, unsigned int *mask, char bad[32])
{
	*mask = 0;
	while (*list) {
		size_t len = strcspn(list, ",");
		int id = 0;

		while (id < FEATURE_CNT &&
		       (strlen(specs[id].key) != len || !len || strncmp(specs[id].key, list, len)))
			id++;
		if (id == FEATURE_CNT) {
			snprintf(bad, 32, "%.*s", (int)len, list);
			return false;
		}
		*mask |= 1u << id;
		list += len + (list[len] == ',');
	}
	return true;
}

void features__probe(unsigned int without, bool thorough, struct features *out)
{
	struct probing p = { .out = out, .without = without, .thorough = thorough };

	memset(out, 0, sizeof(*out));
	probe_kernel(&p);
	probe_caps(&p);
	probe_lockdown(&p);
	probe_btf(&p);
	probe_bpf(&p);
	probe_helpers(&p);
	probe_types(&p);
	probe_pid_filter(&p);
	probe_single_probes(&p);
}

const struct feature *features__missing(const struct features *f)
{
	for (int i = 0; i < FEATURE_CNT; i++)
		if (!f->f[i].ok && !f->f[i].optional)
			return &f->f[i];
	return NULL;
}

struct attach_mode features__mode(const struct features *f)
{
	bool multi = f->f[FEATURE_UPROBE_MULTI].ok;

	return (struct attach_mode){
		.single_probes = !multi,
		.any_process = multi && !f->f[FEATURE_MULTI_PID].ok,
		.stacks_by_tid = !f->f[FEATURE_TASK_STORAGE].ok,
		.no_map_events = !f->f[FEATURE_MAP_LOCK].ok,
	};
}

void features__print(const struct features *f, FILE *to)
{
	for (int i = 0; i < FEATURE_CNT; i++)
		fprintf(to, "%s  %-16s %s\n",
			f->f[i].ok	   ? "ok"
			: f->f[i].optional ? "--"
					   : "NO",
			f->f[i].name, f->f[i].detail);
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * The oracle for entry and exit sites: runs the real code of real functions, one instruction at a
 * time, on the real processor, and sees which sites a call passes.
 *
 *   step FILE COUNT GLOB...   functions of crates GLOB, until COUNT are judged; fails when a call
 *                             passed other than one entry and one exit, or there were too few
 *
 * The file's segments are copied into this process. A function is called on a stack of its own,
 * with registers and memory full of pointers into an arena, small numbers and noise, so that its
 * loads mostly work and its branches go this way and that. The trap flag stops it after every
 * instruction. Calls are not made: they "return" noise. A run that faults, or does not end, proves
 * nothing and is thrown away. Each function runs in a child, which it may wreck.
 */
#include <elf.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/strbuf.h"
#include "base/vec.h"
#include "plan/flow.h"
#include "plan/select.h"
#include "symbols/image.h"

#define ARENA ((uint8_t *)0x20000000)
#define ARENA_BYTES (1u << 17)
#define STACK_BYTES (1u << 18)
#define BIAS 0x100000000ull /* where the file is copied to; low, as are the arena's addresses */
#define MAX_STEPS 2500
#define MAX_RUNS 200
#define ENOUGH_RUNS 24
#define MAX_AFTER_EXIT 80
#define TRAP_FLAG 0x100
#define FLAGS 0xcd5 /* carry, parity, adjust, zero, sign, direction (kept clear), overflow */

enum verdict { UNDECIDED, ENDED, WRONG, GIVEN_UP };

/* One way of seeing exits: by its sites alone, or by edges. */
struct view {
	const struct flow_site *sites;
	size_t cnt;
	unsigned events;
	unsigned since; /* steps after the event */
};

static struct {
	const struct flow *flow;
	const uint32_t *index; /* address - lo -> instruction + 1 */
	uint64_t lo, hi;
	uint64_t sp; /* at the entry */
	uint64_t sentinel;
	unsigned entries, steps;
	struct view views[2];
	bool astray; /* the last instruction was a jump through a table */
	enum verdict verdict;
	char what[160];
	ucontext_t home;
	bool at_home;
} run;

static uint64_t seed;

static uint64_t noise(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static uint64_t value(void)
{
	uint64_t n = noise();

	switch (n >> 60) {
	case 0:
		return noise();
	case 1:
	case 2:
		return 0;
	case 3:
	case 4:
	case 5:
		return n >> 8 & 3;
	case 6:
		return n >> 8 & 0xff;
	case 7:
		return 1ull << 63 | (n >> 8 & 7); /* niches of enums */
	default:
		return (uint64_t)ARENA + ARENA_BYTES / 4 + (n >> 8 & (ARENA_BYTES / 2 - 64) & ~15u);
	}
}

static void wrong(uint64_t at, const char *what)
{
	if (run.verdict == WRONG)
		return;
	run.verdict = WRONG;
	snprintf(run.what, sizeof(run.what), "%s at %#lx (step %u, seed %#lx)", what,
		 (unsigned long)(at - BIAS), run.steps, (unsigned long)seed);
}

static bool holds(uint8_t cond, uint64_t flags)
{
	bool cf = flags & 1, pf = flags & 4, zf = flags & 0x40, sf = flags & 0x80,
	     of = flags & 0x800;
	bool table[] = { of, cf, zf, cf || zf, sf, pf, sf != of, zf || sf != of };

	return table[cond >> 1] != (cond & 1);
}

static void see_entry(const greg_t *r)
{
	const struct flow_site *e = &run.flow->entry;

	if ((uint64_t)r[REG_RIP] != e->vaddr + BIAS)
		return;
	run.entries++;
	if (run.entries > 1)
		wrong((uint64_t)r[REG_RIP], "entered twice");
	if ((uint64_t)r[REG_RSP] + 8u * e->sp_words != run.sp)
		wrong((uint64_t)r[REG_RIP], "entry: the stack pointer is elsewhere");
}

static void see_exit(struct view *v, const greg_t *r)
{
	for (size_t i = 0; i < v->cnt; i++) {
		const struct flow_site *s = &v->sites[i];
		bool cond = s->kind == RT_SITE_JCC || s->kind == RT_SITE_EDGE_JCC;

		if ((uint64_t)r[REG_RIP] != s->vaddr + BIAS ||
		    (cond && !holds(s->cond, (uint64_t)r[REG_EFL])))
			continue;
		if (!run.entries)
			wrong((uint64_t)r[REG_RIP], "exit before entry");
		if (v->events++)
			wrong((uint64_t)r[REG_RIP], "left twice");
		if ((uint64_t)r[REG_RSP] + 8u * s->sp_words != run.sp)
			wrong((uint64_t)r[REG_RIP], "exit: the stack pointer is elsewhere");
	}
}

static void see_end(const greg_t *r)
{
	bool returned = (uint64_t)r[REG_RIP] == run.sentinel;

	if ((uint64_t)r[REG_RSP] != run.sp + (returned ? 8 : 0)) {
		run.verdict = GIVEN_UP; /* jumped astray by a pointer that was noise */
		return;
	}
	for (int i = 0; i < 2; i++)
		if (run.entries != 1 || run.views[i].events != 1)
			wrong((uint64_t)r[REG_RIP], run.entries != 1 ? "no entry"
						    : i ? "left without an exit, by edges"
							: "left without an exit, by sites");
	if (run.verdict == UNDECIDED)
		run.verdict = ENDED;
}

/* A call returns at once; what it may have changed is noise. */
static void skip_call(greg_t *r, const struct insn *in)
{
	static const int lost[] = { REG_RAX, REG_RCX, REG_RDX, REG_RSI, REG_RDI,
				    REG_R8,  REG_R9,  REG_R10, REG_R11 };

	for (int i = 0; i < 2; i++)
		if (run.views[i].events)
			wrong((uint64_t)r[REG_RIP], "a call after the exit");
	for (size_t i = 0; i < sizeof(lost) / sizeof(lost[0]); i++)
		r[lost[i]] = (greg_t)value();
	r[REG_RIP] += in->len;
}

/* Looks at the instruction that comes next. */
static void look(greg_t *r)
{
	while (run.verdict == UNDECIDED) {
		uint64_t ip = (uint64_t)r[REG_RIP];
		const struct insn *in;

		if (run.astray && (ip < run.lo || ip >= run.hi || !run.index[ip - run.lo])) {
			run.verdict = GIVEN_UP; /* the index was noise, and beyond the table */
			return;
		}
		if (ip < run.lo || ip >= run.hi) {
			see_end(r);
			return;
		}
		if (!run.index[ip - run.lo]) {
			wrong(ip, "off the grid");
			return;
		}
		in = &run.flow->insns[run.index[ip - run.lo] - 1];
		see_entry(r);
		for (int i = 0; i < 2; i++) {
			see_exit(&run.views[i], r);
			if (run.views[i].events && run.views[i].since++ > MAX_AFTER_EXIT)
				wrong(ip, "much work after the exit");
		}
		run.astray = in->flow == INSN_JMP_IND && !run.views[0].events;
		if (++run.steps > MAX_STEPS || in->unbounded || in->flow == INSN_STOP)
			run.verdict = GIVEN_UP;
		if (in->flow != INSN_CALL && in->flow != INSN_CALL_IND)
			return;
		skip_call(r, in);
	}
}

static void go_home(ucontext_t *uc)
{
	memcpy(uc->uc_mcontext.gregs, run.home.uc_mcontext.gregs, sizeof(uc->uc_mcontext.gregs));
	run.at_home = true;
}

static void on_step(int sig, siginfo_t *info, void *arg)
{
	ucontext_t *uc = arg;

	if (run.at_home)
		return;
	look(uc->uc_mcontext.gregs);
	if (run.verdict != UNDECIDED)
		go_home(uc);
}

static void on_fault(int sig, siginfo_t *info, void *arg)
{
	if (run.at_home)
		_exit(3);
	if (run.verdict == UNDECIDED)
		run.verdict = GIVEN_UP;
	go_home(arg);
}

static void on_start(int sig, siginfo_t *info, void *arg)
{
	ucontext_t *uc = arg;
	greg_t *r = uc->uc_mcontext.gregs;

	run.home = *uc;
	run.at_home = false;
	for (int i = REG_R8; i <= REG_RCX; i++)
		if (i != REG_RSP)
			r[i] = (greg_t)value();
	r[REG_RSP] = (greg_t)run.sp;
	r[REG_RIP] = (greg_t)(run.flow->insns[0].vaddr + BIAS);
	r[REG_EFL] = (greg_t)((0x202 | TRAP_FLAG | (noise() & FLAGS)) & ~0x400ull);
	look(r);
	if (run.verdict != UNDECIDED)
		go_home(uc);
}

static void handle(int sig, void (*handler)(int, siginfo_t *, void *))
{
	struct sigaction sa = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_ONSTACK };

	sigfillset(&sa.sa_mask);
	sigdelset(&sa.sa_mask, SIGSEGV);
	sigaction(sig, &sa, NULL);
}

static void fill(uint8_t *at, size_t bytes)
{
	for (size_t i = 0; i + 8 <= bytes; i += 8) {
		uint64_t v = value();

		memcpy(at + i, &v, 8);
	}
}

/* What a child found out about a function; shared. */
struct result {
	unsigned ended, given_up;
	bool wrong;
	char what[160];
};

static void run_once(uint8_t *stack, struct result *res)
{
	fill(ARENA, ARENA_BYTES);
	run.sp = (uint64_t)stack + STACK_BYTES - 8192 - 8;
	run.sentinel = (uint64_t)stack; /* never code */
	memcpy((void *)run.sp, &run.sentinel, 8);
	fill((uint8_t *)run.sp + 8, 4096);
	run.entries = run.steps = 0;
	run.astray = false;
	run.views[0].events = run.views[1].events = 0;
	run.views[0].since = run.views[1].since = 0;
	run.verdict = UNDECIDED;
	raise(SIGUSR1);
	res->ended += run.verdict == ENDED;
	res->given_up += run.verdict == GIVEN_UP;
	if (run.verdict == WRONG) {
		res->wrong = true;
		strcpy(res->what, run.what);
	}
}

static void child(const struct flow *flow, struct result *res)
{
	uint8_t *stack = ARENA + 2 * ARENA_BYTES, *alt = stack + 2 * STACK_BYTES;
	stack_t ss = { .ss_sp = alt, .ss_size = STACK_BYTES };
	uint64_t last = 0, first = flow->insns[0].vaddr;
	uint32_t *index;

	for (size_t i = 0; i < flow->insn_cnt; i++) {
		first = flow->insns[i].vaddr < first ? flow->insns[i].vaddr : first;
		last = flow->insns[i].vaddr + flow->insns[i].len > last
			       ? flow->insns[i].vaddr + flow->insns[i].len
			       : last;
	}
	/* with a cold part far away what lies between is no instruction of ours, but not left
	 * either: such functions are few, and skipped */
	if (last - first > 1u << 20)
		_exit(0);
	index = calloc(last - first, sizeof(*index));
	for (size_t i = 0; i < flow->insn_cnt; i++)
		index[flow->insns[i].vaddr - first] = (uint32_t)i + 1;
	run.flow = flow;
	run.index = index;
	run.lo = first + BIAS;
	run.hi = last + BIAS;
	run.views[0] = (struct view){ .sites = flow->exits, .cnt = flow->exit_cnt };
	run.views[1] = flow->edge_cnt ? (struct view){ .sites = flow->edges, .cnt = flow->edge_cnt }
				      : run.views[0];
	run.at_home = true;
	sigaltstack(&ss, NULL);
	handle(SIGUSR1, on_start);
	handle(SIGTRAP, on_step);
	handle(SIGSEGV, on_fault);
	handle(SIGBUS, on_fault);
	handle(SIGILL, on_fault);
	handle(SIGFPE, on_fault);
	alarm(10);
	seed = 0x9e3779b97f4a7c15ull ^ first;
	for (int i = 0; i < MAX_RUNS && res->ended < ENOUGH_RUNS && !res->wrong; i++)
		run_once(stack, res);
	_exit(0);
}

static void judge(const struct flow *flow, struct result *res)
{
	pid_t pid = fork();

	if (!pid)
		child(flow, res);
	waitpid(pid, NULL, 0);
}

/* ---- the file ---- */

static void relocate(const uint8_t *raw, const Elf64_Ehdr *eh)
{
	const Elf64_Shdr *sh = (const void *)(raw + eh->e_shoff);

	for (int i = 0; i < eh->e_shnum; i++) {
		const Elf64_Rela *rela = (const void *)(raw + sh[i].sh_offset);

		if (sh[i].sh_type != SHT_RELA || !(sh[i].sh_flags & SHF_ALLOC))
			continue;
		for (size_t k = 0; k < sh[i].sh_size / sizeof(*rela); k++) {
			uint64_t v = (uint64_t)rela[k].r_addend + BIAS;

			if (ELF64_R_TYPE(rela[k].r_info) == R_X86_64_RELATIVE)
				memcpy((void *)(rela[k].r_offset + BIAS), &v, 8);
		}
	}
}

static bool load(const uint8_t *raw)
{
	const Elf64_Ehdr *eh = (const void *)raw;
	const Elf64_Phdr *ph = (const void *)(raw + eh->e_phoff);

	if (eh->e_type != ET_DYN)
		return false;
	for (int i = 0; i < eh->e_phnum; i++) {
		uint64_t start = (ph[i].p_vaddr + BIAS) & ~0xfffull;
		uint64_t end = (ph[i].p_vaddr + BIAS + ph[i].p_memsz + 0xfff) & ~0xfffull;

		if (ph[i].p_type != PT_LOAD)
			continue;
		if (mmap((void *)start, end - start, PROT_READ | PROT_WRITE | PROT_EXEC,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
			return false;
		memcpy((void *)(ph[i].p_vaddr + BIAS), raw + ph[i].p_offset, ph[i].p_filesz);
	}
	relocate(raw, eh);
	return mmap(ARENA, 2 * ARENA_BYTES + 4 * STACK_BYTES, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != MAP_FAILED;
}

struct sums {
	unsigned functions, judged, with_edges, judged_edges, wrong;
	unsigned long calls;
};

static void one(const struct image *img, const struct pick *p, struct result *res,
		struct sums *sums)
{
	struct flow flow;

	if (flow__analyse(img, p->sym, p->sym->size, &flow) || flow.why)
		goto out;
	*res = (struct result){};
	judge(&flow, res);
	sums->functions++;
	sums->with_edges += flow.edge_cnt > 0;
	sums->calls += res->ended;
	sums->judged += res->ended > 0;
	sums->judged_edges += res->ended && flow.edge_cnt;
	if (res->wrong) {
		sums->wrong++;
		printf("FAIL %s: %s\n", p->name, res->what);
	}
out:
	flow__free(&flow);
}

int main(int argc, char **argv)
{
	struct plan_request req = { .profile_dir = "/nonexistent" };
	struct sums sums = {};
	struct selection sel;
	struct image *img;
	struct result *res;
	char *reason = NULL;
	unsigned count;
	size_t len;
	int fd;

	if (argc < 4) {
		fprintf(stderr, "usage: step FILE COUNT GLOB...\n");
		return 2;
	}
	count = (unsigned)atoi(argv[2]);
	req.crates = (const char *const *)&argv[3];
	req.crate_cnt = (size_t)argc - 3;
	fd = open(argv[1], O_RDONLY | O_CLOEXEC);
	if (fd < 0 || image__open(fd, &img, &reason) ||
	    select__run(img, &req, NULL, &sel, &reason) || !load(image__raw(img, &len))) {
		fprintf(stderr, "step: %s: %s\n", argv[1], reason ? reason : "cannot be loaded");
		return 1;
	}
	res = mmap(NULL, sizeof(*res), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (size_t i = 0; i < sel.pick_cnt && sums.judged < count; i++)
		if (!i || sel.picks[i].sym->addr != sel.picks[i - 1].sym->addr)
			one(img, &sel.picks[i], res, &sums);
	printf("%s: %u functions, %u judged by %lu calls; with edges %u, judged %u; %u wrong\n",
	       argv[1], sums.functions, sums.judged, sums.calls, sums.with_edges, sums.judged_edges,
	       sums.wrong);
	select__free(&sel);
	image__free(img);
	close(fd);
	return sums.wrong || sums.judged < count;
}

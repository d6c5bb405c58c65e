/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Four functions, each a pair of an entry class and an exit class, are called in a loop by a
 * child, with probes and (their twin) without. The difference per call is the price of the pair:
 *
 *   push ... jmp   emulated, emulated     push ... ret   emulated, single-stepped
 *   mov  ... jmp   stepped,  emulated     mov  ... ret   stepped,  single-stepped
 *
 * All that twice. Warm: calls follow calls. Cold: before each call the child walks over several
 * times as much code and data as the nearest caches hold, as a server does between two probes.
 *
 * The sums have no unique parts; an emulated exit is taken to cost what an emulated entry does
 * (both are one trap and a program of like length), which gives the rest. Means of the middle half
 * of many rounds: another process on the CPU must not become a price.
 */
#include "attach/calibrate.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/hands.h"
#include "base/clock.h"
#include "base/log.h"
#include "functions.skel.h"

#define ROUNDS 32
#define CALLS_PER_ROUND 8
#define TWIN_CALLS 2048
#define WALK_DATA_BYTES (256u << 10)
#define WALK_CODE_BYTES (64u << 10)
#define LINE_BYTES 64u
#define PART_NS (10 * NS_PER_SEC) /* a part takes some ms; on a machine with no time, more */
#define GEN 1

/* clang-format off */
__asm__(".pushsection .text\n"
	".p2align 4\n"
	"rt_cal_push_ret:  push %rbp; pop %rbp\n" "rt_cal_push_ret_x: ret\n"
	".p2align 4\n"
	"rt_cal_mov_ret:   mov %edi, %eax; nop\n" "rt_cal_mov_ret_x:  ret\n"
	".p2align 4\n"
	"rt_cal_push_jmp:  push %rbp; pop %rbp\n" "rt_cal_push_jmp_x: jmp rt_cal_end\n"
	".p2align 4\n"
	"rt_cal_mov_jmp:   mov %edi, %eax; nop\n" "rt_cal_mov_jmp_x:  jmp rt_cal_end\n"
	".p2align 4\n"
	"rt_cal_twin:      push %rbp; pop %rbp; jmp rt_cal_end\n"
	".p2align 4\n"
	"rt_cal_end:       ret\n"
	".p2align 6\n"
	"rt_cal_walk: .rept 1024; .p2align 6; ret; .endr\n"
	".popsection\n");
/* clang-format on */

extern const char rt_cal_push_ret[], rt_cal_push_ret_x[], rt_cal_mov_ret[], rt_cal_mov_ret_x[];
extern const char rt_cal_push_jmp[], rt_cal_push_jmp_x[], rt_cal_mov_jmp[], rt_cal_mov_jmp_x[];
extern const char rt_cal_twin[], rt_cal_walk[];

static const struct fn {
	const char *entry, *exit;
	enum rt_insn_class entry_insn, exit_insn;
} fns[OBJECT_CALIBRATION_FNS] = {
	{ rt_cal_push_jmp, rt_cal_push_jmp_x, RT_INSN_EMULATED, RT_INSN_EMULATED },
	{ rt_cal_push_ret, rt_cal_push_ret_x, RT_INSN_EMULATED, RT_INSN_STEPPED },
	{ rt_cal_mov_jmp, rt_cal_mov_jmp_x, RT_INSN_STEPPED, RT_INSN_EMULATED },
	{ rt_cal_mov_ret, rt_cal_mov_ret_x, RT_INSN_STEPPED, RT_INSN_STEPPED },
};

/* What the probes of one call cost. */
struct pair_ns {
	rt_u64 warm, cold;
};

/* What the child and we share. */
struct board {
	volatile int go, done; /* number of the part: both, then the traps alone */
	struct pair_ns pair[OBJECT_CALIBRATION_FNS];
	struct pair_ns trap; /* of one pair whose programs leave at their gate */
	unsigned char data[WALK_DATA_BYTES];
};

/* What is measured of a board, and the recorded durations. */
struct measured {
	struct pair_ns pair[OBJECT_CALIBRATION_FNS], trap;
	rt_u64 floor_ns[OBJECT_CALIBRATION_FNS];
};

#define TRAP_FN 1u /* push, ret: what functions of libraries look like */

static void call(const char *fn)
{
	((void (*)(void))fn)();
}

static rt_u64 time_calls(const char *fn, unsigned int calls)
{
	rt_u64 start = clock__mono_ns();

	for (unsigned int i = 0; i < calls; i++)
		call(fn);
	return (clock__mono_ns() - start) / calls;
}

static int by_value(const void *a, const void *b)
{
	rt_u64 x = *(const rt_u64 *)a, y = *(const rt_u64 *)b;

	return x < y ? -1 : x > y;
}

/* The mean of the middle half. */
static rt_u64 middle(rt_u64 *v)
{
	rt_u64 sum = 0;

	qsort(v, ROUNDS, sizeof(*v), by_value);
	for (size_t i = ROUNDS / 4; i < ROUNDS - ROUNDS / 4; i++)
		sum += v[i];
	return sum / (ROUNDS - 2 * (ROUNDS / 4));
}

static rt_u64 minus(rt_u64 a, rt_u64 b)
{
	return a > b ? a - b : 0;
}

/* Not in the order of the addresses, or the CPU would be ahead of it. */
static void walk(unsigned char *data)
{
	for (rt_u32 at = 0; at < WALK_DATA_BYTES; at += LINE_BYTES)
		data[at * 61 % WALK_DATA_BYTES]++;
	for (rt_u32 at = 0; at < WALK_CODE_BYTES; at += LINE_BYTES)
		call(rt_cal_walk + at * 61 % WALK_CODE_BYTES);
}

/* Of one function, in every round: ns per call. */
struct rounds {
	rt_u64 warm[ROUNDS], cold[ROUNDS], bare[ROUNDS];
};

static void one_round(const char *fn, unsigned char *data, struct rounds *to, int r)
{
	call(fn); /* the walk is behind it */
	to->warm[r] = time_calls(fn, CALLS_PER_ROUND);
	walk(data);
	to->cold[r] = time_calls(fn, 1);
	walk(data);
	to->bare[r] = time_calls(rt_cal_twin, 1);
}

/* All functions have each round, and so their part of what else goes on. */
static void run_rounds(const struct fn *of, unsigned int cnt, unsigned char *data,
		       struct pair_ns *out)
{
	rt_u64 bare = time_calls(rt_cal_twin, TWIN_CALLS);
	struct rounds rounds[OBJECT_CALIBRATION_FNS];

	for (unsigned int f = 0; f < cnt; f++)
		time_calls(of[f].entry, CALLS_PER_ROUND);
	for (int r = 0; r < ROUNDS; r++)
		for (unsigned int f = 0; f < cnt; f++)
			one_round(of[f].entry, data, &rounds[f], r);
	for (unsigned int f = 0; f < cnt; f++) {
		out[f].warm = minus(middle(rounds[f].warm), bare);
		out[f].cold = minus(middle(rounds[f].cold), middle(rounds[f].bare));
	}
}

static void wait_for(const volatile int *what, int value)
{
	while (*what < value)
		usleep(100);
}

static void child_main(struct board *board, pid_t parent)
{

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	wait_for(&board->go, 1);
	run_rounds(fns, OBJECT_CALIBRATION_FNS, board->data, board->pair);
	board->done = 1;
	wait_for(&board->go, 2);
	run_rounds(&fns[TRAP_FN], 1, board->data, &board->trap);
	board->done = 2;
	for (;;)
		pause();
}

static int attach(const struct object *obj, const struct bpf_program *prog, pid_t pid,
		  const unsigned long *offsets, const unsigned long long *cookies, size_t cnt,
		  bool ret)
{
	struct hands_request req = { .prog_fd = bpf_program__fd(prog),
				     .path = "/proc/self/exe",
				     .pid = obj->mode.any_process ? 0 : pid,
				     .offsets = offsets,
				     .cookies = cookies,
				     .cnt = cnt,
				     .retprobe = ret,
				     .single = obj->mode.single_probes };

	return hands__attach(&req);
}

/* The median duration the programs recorded for a calibration function. */
static rt_u64 recorded_median(const struct object *obj, rt_u32 fn)
{
	rt_u64 places[RT_HIST_BUCKETS], total = 0, below = 0;
	struct rt_fn_stats st;

	object__fn_stats(obj, fn, &st);
	object__fn_hist(obj, fn, places);
	for (rt_u32 p = 0; p < RT_HIST_BUCKETS; p++)
		total += places[p];
	for (rt_u32 p = 0; p < RT_HIST_BUCKETS; p++) {
		below += places[p];
		if (below * 2 > total)
			/* the upper bound of its octave's sixteenth, from the integer bounds */
			return ((rt_u64[])RT_HIST_BOUNDS)[p % 16] >> (63 - p / 16);
	}
	return st.returned ? st.sum_ns / st.returned : 0;
}

static int run_part(struct board *board, int part)
{
	rt_u64 deadline = clock__mono_ns() + PART_NS;

	board->go = part;
	while (board->done < part && clock__mono_ns() < deadline)
		usleep(500);
	return board->done < part ? -ETIMEDOUT : 0;
}

static void read_board(const struct object *obj, const struct board *board, struct measured *out)
{
	memcpy(out->pair, board->pair, sizeof(out->pair));
	out->trap = board->trap;
	for (rt_u32 f = 0; f < OBJECT_CALIBRATION_FNS; f++)
		out->floor_ns[f] = recorded_median(obj, obj->fn_cnt + f);
}

/* All four functions, with exits at sites or by return probes. */
static int measure(struct object *obj, bool uretprobes, struct measured *out, struct hands_pile *to)
{
	unsigned long offsets[2 * OBJECT_CALIBRATION_FNS];
	unsigned long long cookies[2 * OBJECT_CALIBRATION_FNS];
	struct functions_bpf *skel = obj->skel;
	int link = -1, ret = -1;
	struct board *board;
	size_t cnt = 0;
	rt_u32 tgid;
	pid_t child, self = getpid();
	int err = 0;

	for (rt_u32 f = 0; f < OBJECT_CALIBRATION_FNS && !err; f++, cnt++) {
		err = hands__own_offset(fns[f].entry, &offsets[cnt]);
		cookies[cnt] =
			RT_COOKIE(obj->fn_cnt + f, RT_SITE_ENTRY, 0, fns[f].entry_insn, GEN, 0);
		obj->confs[obj->fn_cnt + f].state = RT_CONF(GEN, GEN, 0) | RT_CONF_TIMED;
	}
	for (rt_u32 f = 0; f < OBJECT_CALIBRATION_FNS && !err && !uretprobes; f++, cnt++) {
		err = hands__own_offset(fns[f].exit, &offsets[cnt]);
		cookies[cnt] = RT_COOKIE(obj->fn_cnt + f, RT_SITE_RET, 0, fns[f].exit_insn, GEN, 0);
	}
	if (err)
		return err;
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	if (board == MAP_FAILED)
		return -errno;
	child = fork();
	if (child < 0) {
		err = -errno;
		goto out;
	}
	if (!child)
		child_main(board, self);

	if (uretprobes) {
		link = attach(obj, skel->progs.uret_entry, child, offsets, cookies, cnt, false);
		ret = link < 0 ? link
			       : attach(obj, skel->progs.uret_exit, child, offsets, cookies, cnt,
					true);
	} else {
		link = ret = attach(obj, skel->progs.site, child, offsets, cookies, cnt, false);
	}
	if (ret < 0) {
		err = ret;
		goto out;
	}
	err = object__kernel_tgid(obj, child, &tgid);
	if (err)
		goto out;
	skel->bss->target_tgid = tgid;
	skel->bss->gate = 1;
	err = run_part(board, 1);
	skel->bss->gate = 0;
	err = err ?: run_part(board, 2);
	read_board(obj, board, out);
out:
	if (child > 0) {
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
	}
	hands__put(to, link);
	if (ret != link)
		hands__put(to, ret);
	skel->bss->target_tgid = 0;
	munmap(board, sizeof(*board));
	object__reset(obj);
	return err;
}

void calibrate__call(void)
{
	((void (*)(void))rt_cal_push_ret)();
}

int calibrate__offset(unsigned long *out)
{
	return hands__own_offset(rt_cal_push_ret, out);
}

static void price_sites(rt_u64 push_jmp, rt_u64 push_ret, rt_u64 mov_jmp, struct prices *p)
{
	p->entry_ns[RT_INSN_EMULATED] = p->exit_ns[RT_INSN_EMULATED] = push_jmp / 2;
	p->exit_ns[RT_INSN_STEPPED] = minus(push_ret, push_jmp / 2);
	p->entry_ns[RT_INSN_STEPPED] = minus(mov_jmp, push_jmp / 2);
}

/* The trap of an entry is to that of a return what they are with their programs. */
static void price_returns(rt_u64 pair_ns, rt_u64 trap_ns, struct prices *p)
{
	rt_u64 entry = p->entry_ns[RT_INSN_EMULATED];

	p->uret_ns = minus(pair_ns, entry);
	p->trap_entry_ns = entry + p->uret_ns ? trap_ns * entry / (entry + p->uret_ns) : 0;
	p->trap_uret_ns = minus(trap_ns, p->trap_entry_ns);
}

static rt_u64 dearer(rt_u64 a, rt_u64 b)
{
	return a > b ? a : b;
}

/* A quarter more at least: what programs with work to do have really paid (docs/design/0005). The
 * walk shows less where its data stay in the second caches. */
static rt_u64 settled(rt_u64 cold, rt_u64 warm)
{
	return dearer(cold, warm + warm / 4);
}

static void settle_cold(const struct prices *warm, struct prices *cold)
{
	for (int c = 0; c < RT_INSN_CLASSES; c++) {
		cold->entry_ns[c] = settled(cold->entry_ns[c], warm->entry_ns[c]);
		cold->exit_ns[c] = settled(cold->exit_ns[c], warm->exit_ns[c]);
	}
	cold->uret_ns = settled(cold->uret_ns, warm->uret_ns);
	cold->trap_entry_ns = settled(cold->trap_entry_ns, warm->trap_entry_ns);
	cold->trap_uret_ns = settled(cold->trap_uret_ns, warm->trap_uret_ns);
}

/* What is taken off durations is the warm price: a nested probe follows another at once. */
static void tell_programs(struct object *obj)
{
	volatile struct rt_prices *p = &obj->skel->bss->prices;

	for (int c = 0; c < RT_INSN_CLASSES; c++) {
		p->entry_ns[c] = obj->warm.entry_ns[c];
		p->exit_ns[c] = obj->warm.exit_ns[c];
	}
	p->uret_ns = obj->warm.uret_ns;
}

int calibrate__run(struct object *obj, bool uretprobes, struct hands_pile *to)
{
	volatile struct rt_prices *p = &obj->skel->bss->prices;
	struct measured m;
	int err = measure(obj, false, &m, to);

	if (err)
		return err;
	price_sites(m.pair[0].warm, m.pair[1].warm, m.pair[2].warm, &obj->warm);
	price_sites(m.pair[0].cold, m.pair[1].cold, m.pair[2].cold, &obj->cold);
	for (rt_u32 f = 0; f < OBJECT_CALIBRATION_FNS; f++)
		p->floor_ns[fns[f].entry_insn][fns[f].exit_insn] = m.floor_ns[f];
	if (uretprobes) {
		err = measure(obj, true, &m, to);
		if (err)
			return err;
		price_returns(m.pair[TRAP_FN].warm, m.trap.warm, &obj->warm);
		price_returns(m.pair[TRAP_FN].cold, m.trap.cold, &obj->cold);
		p->floor_uret_ns[RT_INSN_EMULATED] = m.floor_ns[1];
		p->floor_uret_ns[RT_INSN_STEPPED] = m.floor_ns[3];
	}
	settle_cold(&obj->warm, &obj->cold);
	tell_programs(obj);
	log_debug(
		"attach: prices: entry %llu/%llu ns, exit %llu/%llu ns (emulated/single-stepped), "
		"return probe %llu ns (%llu of it the trap), cold: %llu/%llu, %llu/%llu, %llu "
		"(%llu) ns",
		(unsigned long long)p->entry_ns[0], (unsigned long long)p->entry_ns[1],
		(unsigned long long)p->exit_ns[0], (unsigned long long)p->exit_ns[1],
		(unsigned long long)p->uret_ns, (unsigned long long)obj->warm.trap_uret_ns,
		(unsigned long long)obj->cold.entry_ns[0],
		(unsigned long long)obj->cold.entry_ns[1], (unsigned long long)obj->cold.exit_ns[0],
		(unsigned long long)obj->cold.exit_ns[1], (unsigned long long)obj->cold.uret_ns,
		(unsigned long long)obj->cold.trap_uret_ns);
	return 0;
}

int calibrate__prices(const struct attach_mode *mode, bool uretprobes, struct rt_prices *out)
{
	struct hands_pile links = {};
	struct object obj;
	int err = object__load(0, false, mode, &obj);

	if (err)
		return err;
	err = calibrate__run(&obj, uretprobes, &links);
	if (!err)
		memcpy(out, (const void *)&obj.skel->bss->prices, sizeof(*out));
	hands__close(&links);
	object__unload(&obj);
	return err;
}

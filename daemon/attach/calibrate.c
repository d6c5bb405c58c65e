/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Four functions, each a pair of an entry class and an exit class, are called in a loop by a
 * child, with probes and (their twin) without. The difference per call is the price of the pair:
 *
 *   push ... jmp   emulated, emulated     push ... ret   emulated, single-stepped
 *   mov  ... jmp   stepped,  emulated     mov  ... ret   stepped,  single-stepped
 *
 * The sums have no unique parts; an emulated exit is taken to cost what an emulated entry does
 * (both are one trap and a program of like length), which gives the rest. Medians of several
 * rounds: another process on the CPU must not become a price.
 */
#include "attach/calibrate.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/hands.h"
#include "base/clock.h"
#include "base/log.h"
#include "functions.skel.h"

#define ROUNDS 9
#define CALLS_PER_ROUND 16
#define TWIN_CALLS 2048
#define BATCH 0 /* the generations start anew afterwards */

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
	".popsection\n");
/* clang-format on */

extern const char rt_cal_push_ret[], rt_cal_push_ret_x[], rt_cal_mov_ret[], rt_cal_mov_ret_x[];
extern const char rt_cal_push_jmp[], rt_cal_push_jmp_x[], rt_cal_mov_jmp[], rt_cal_mov_jmp_x[];
extern const char rt_cal_twin[];

static const struct {
	const char *entry, *exit;
	enum rt_insn_class entry_insn, exit_insn;
} fns[OBJECT_CALIBRATION_FNS] = {
	{ rt_cal_push_jmp, rt_cal_push_jmp_x, RT_INSN_EMULATED, RT_INSN_EMULATED },
	{ rt_cal_push_ret, rt_cal_push_ret_x, RT_INSN_EMULATED, RT_INSN_STEPPED },
	{ rt_cal_mov_jmp, rt_cal_mov_jmp_x, RT_INSN_STEPPED, RT_INSN_EMULATED },
	{ rt_cal_mov_ret, rt_cal_mov_ret_x, RT_INSN_STEPPED, RT_INSN_STEPPED },
};

/* What the child and we share. */
struct board {
	volatile int go;
	rt_u64 pair_ns[OBJECT_CALIBRATION_FNS];
	volatile int done;
};

static rt_u64 time_calls(const char *fn, unsigned int calls)
{
	void (*call)(void) = (void (*)(void))fn;
	rt_u64 start = clock__mono_ns();

	for (unsigned int i = 0; i < calls; i++)
		call();
	return (clock__mono_ns() - start) / calls;
}

static int by_value(const void *a, const void *b)
{
	rt_u64 x = *(const rt_u64 *)a, y = *(const rt_u64 *)b;

	return x < y ? -1 : x > y;
}

static rt_u64 median(rt_u64 *v, size_t n)
{
	qsort(v, n, sizeof(*v), by_value);
	return v[n / 2];
}

static void child_main(struct board *board, pid_t parent)
{
	rt_u64 rounds[ROUNDS];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	while (!board->go)
		usleep(100);
	for (unsigned int f = 0; f < OBJECT_CALIBRATION_FNS; f++) {
		rt_u64 bare = time_calls(rt_cal_twin, TWIN_CALLS), with;

		time_calls(fns[f].entry, CALLS_PER_ROUND);
		for (int r = 0; r < ROUNDS; r++)
			rounds[r] = time_calls(fns[f].entry, CALLS_PER_ROUND);
		with = median(rounds, ROUNDS);
		board->pair_ns[f] = with > bare ? with - bare : 0;
	}
	board->done = 1;
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

/* One round of all four functions, with exits at sites or by return probes. */
static int measure(struct object *obj, bool uretprobes, rt_u64 pair_ns[], rt_u64 floor_ns[],
		   struct hands_pile *to)
{
	unsigned long offsets[2 * OBJECT_CALIBRATION_FNS];
	unsigned long long cookies[2 * OBJECT_CALIBRATION_FNS];
	struct functions_bpf *skel = obj->skel;
	int link = -1, ret = -1;
	rt_u64 deadline;
	struct board *board;
	size_t cnt = 0;
	rt_u32 tgid;
	pid_t child, self = getpid();
	int err = 0;

	for (rt_u32 f = 0; f < OBJECT_CALIBRATION_FNS && !err; f++, cnt++) {
		err = hands__own_offset(fns[f].entry, &offsets[cnt]);
		cookies[cnt] = RT_COOKIE(obj->fn_cnt + f, RT_SITE_ENTRY, 0, fns[f].entry_insn,
					 BATCH, 1, 0);
	}
	for (rt_u32 f = 0; f < OBJECT_CALIBRATION_FNS && !err && !uretprobes; f++, cnt++) {
		err = hands__own_offset(fns[f].exit, &offsets[cnt]);
		cookies[cnt] =
			RT_COOKIE(obj->fn_cnt + f, RT_SITE_RET, 0, fns[f].exit_insn, BATCH, 1, 0);
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
	skel->bss->batch_gen[BATCH] = 1;
	skel->bss->gate = 1;
	board->go = 1;
	deadline = clock__mono_ns() + 2 * NS_PER_SEC;
	while (!board->done && clock__mono_ns() < deadline)
		usleep(500);
	skel->bss->gate = 0;
	if (!board->done)
		err = -ETIMEDOUT;
	for (rt_u32 f = 0; f < OBJECT_CALIBRATION_FNS; f++) {
		pair_ns[f] = board->pair_ns[f];
		floor_ns[f] = recorded_median(obj, obj->fn_cnt + f);
	}
out:
	if (child > 0) {
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
	}
	hands__put(to, link);
	if (ret != link)
		hands__put(to, ret);
	skel->bss->batch_gen[BATCH] = 0;
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

static rt_u64 minus(rt_u64 a, rt_u64 b)
{
	return a > b ? a - b : 0;
}

int calibrate__run(struct object *obj, bool uretprobes, struct hands_pile *to)
{
	volatile struct rt_prices *p = &obj->skel->bss->prices;
	rt_u64 pair[OBJECT_CALIBRATION_FNS], floor[OBJECT_CALIBRATION_FNS];
	int err = measure(obj, false, pair, floor, to);

	if (err)
		return err;
	p->entry_ns[RT_INSN_EMULATED] = p->exit_ns[RT_INSN_EMULATED] = pair[0] / 2;
	p->exit_ns[RT_INSN_STEPPED] = minus(pair[1], pair[0] / 2);
	p->entry_ns[RT_INSN_STEPPED] = minus(pair[2], pair[0] / 2);
	for (rt_u32 f = 0; f < OBJECT_CALIBRATION_FNS; f++)
		p->floor_ns[fns[f].entry_insn][fns[f].exit_insn] = floor[f];
	if (uretprobes) {
		err = measure(obj, true, pair, floor, to);
		if (err)
			return err;
		p->uret_ns = minus(pair[1], p->entry_ns[RT_INSN_EMULATED]);
		p->floor_uret_ns[RT_INSN_EMULATED] = floor[1];
		p->floor_uret_ns[RT_INSN_STEPPED] = floor[3];
	}
	log_debug(
		"attach: prices: entry %llu/%llu ns, exit %llu/%llu ns (emulated/single-stepped), "
		"return probe %llu ns",
		(unsigned long long)p->entry_ns[0], (unsigned long long)p->entry_ns[1],
		(unsigned long long)p->exit_ns[0], (unsigned long long)p->exit_ns[1],
		(unsigned long long)p->uret_ns);
	return 0;
}

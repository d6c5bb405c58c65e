/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the benchmarks trace. Reads commands, one a line, answers each with one number:
 *   FUNCTION CALLS      ns per call in a tight loop
 *   pingpong TRIPS      ns per round trip of a byte between two processes on one CPU
 *   malloc PAIRS        ns per malloc and free of 64 bytes
 *   keep BLOCKS         that many blocks of 64 bytes, kept for good; their number
 * Its functions differ in their first instruction: push, mov (single-stepped), nop. A thousand more
 * are never called: idle_0 … idle_999.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* clang-format off */
#define FUNCTION(name, body) \
	__asm__(".pushsection .text\n.globl " #name "\n.type " #name ", @function\n.p2align 4\n" \
		#name ":\n" body "\n.size " #name ", .-" #name "\n.popsection\n"); \
	void name(void)

FUNCTION(bench_push, "push %rbp; mov %rsp, %rbp; pop %rbp; ret");
FUNCTION(bench_mov, "mov %edi, %eax; mov %eax, %ecx; ret");
FUNCTION(bench_nop, "nop; mov %edi, %eax; ret");
/* a jump over the epilogue's alternative: a cheap place behind the last call */
FUNCTION(bench_edge, "push %rbp; test %edi, %edi; je 1f; xor %eax, %eax; 1: pop %rbp; ret");
FUNCTION(bench_lone, "nop; mov %edi, %eax; ret"); /* never traced */

/* each with an emulated first instruction and one ret */
#define IDLE(n) ".globl idle_" #n "\n.type idle_" #n ", @function\n.p2align 4\nidle_" #n \
	":\npush %rbp; mov %rsp, %rbp; pop %rbp; ret\n.size idle_" #n ", .-idle_" #n "\n"
#define IDLE10(n) IDLE(n##0) IDLE(n##1) IDLE(n##2) IDLE(n##3) IDLE(n##4) \
	IDLE(n##5) IDLE(n##6) IDLE(n##7) IDLE(n##8) IDLE(n##9)
#define IDLE100(n) IDLE10(n##0) IDLE10(n##1) IDLE10(n##2) IDLE10(n##3) IDLE10(n##4) \
	IDLE10(n##5) IDLE10(n##6) IDLE10(n##7) IDLE10(n##8) IDLE10(n##9)
__asm__(".pushsection .text\n" IDLE100(1) IDLE100(2) IDLE100(3) IDLE100(4) IDLE100(5)
	IDLE100(6) IDLE100(7) IDLE100(8) IDLE100(9) IDLE100(10) ".popsection\n");
/* clang-format on */

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double time_calls(void (*fn)(void), long calls)
{
	double start = now_ns();

	for (long i = 0; i < calls; i++)
		fn();
	return (now_ns() - start) / (double)calls;
}

static double pingpong(long trips)
{
	int there[2], back[2];
	double start;
	char c = 0;
	pid_t peer;

	if (pipe(there) || pipe(back))
		exit(1);
	peer = fork();
	if (!peer) {
		close(there[1]);
		while (read(there[0], &c, 1) == 1 && write(back[1], &c, 1) == 1)
			;
		_exit(0);
	}
	close(there[0]);
	start = now_ns();
	for (long i = 0; i < trips; i++)
		if (write(there[1], &c, 1) != 1 || read(back[0], &c, 1) != 1)
			exit(1);
	start = (now_ns() - start) / (double)trips;
	close(there[1]);
	waitpid(peer, NULL, 0);
	close(back[0]);
	close(back[1]);
	return start;
}

/* One block of 64 bytes after the other. */
static double time_blocks(long pairs)
{
	double start = now_ns();

	for (long i = 0; i < pairs; i++) {
		void *p = malloc(64);

		__asm__ volatile("" : "+r"(p)); /* the compiler must not see through it */
		free(p);
	}
	return (now_ns() - start) / (double)pairs;
}

static double keep_blocks(long n)
{
	for (long i = 0; i < n; i++) {
		void *p = malloc(64);

		__asm__ volatile("" : : "r"(p));
	}
	return (double)n;
}

int main(void)
{
	static const struct {
		const char *name;
		void (*fn)(void);
	} fns[] = { { "bench_push", bench_push },
		    { "bench_mov", bench_mov },
		    { "bench_nop", bench_nop },
		    { "bench_edge", bench_edge },
		    { "bench_lone", bench_lone } };
	char word[32];
	cpu_set_t one;
	long n;

	CPU_ZERO(&one);
	CPU_SET(0, &one);
	sched_setaffinity(0, sizeof(one), &one);
	printf("ready %d\n", getpid());
	fflush(stdout);
	while (scanf("%31s %ld", word, &n) == 2) {
		double ns = -1;

		if (!strcmp(word, "pingpong"))
			ns = pingpong(n);
		if (!strcmp(word, "malloc"))
			ns = time_blocks(n);
		if (!strcmp(word, "keep"))
			ns = keep_blocks(n);
		for (size_t i = 0; i < sizeof(fns) / sizeof(fns[0]); i++)
			if (!strcmp(word, fns[i].name))
				ns = time_calls(fns[i].fn, n);
		printf("%.1f\n", ns);
		fflush(stdout);
	}
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * busy THREADS DEPTH: threads that do nothing but count, each so many calls deep. What a sampler
 * costs shows in how fast they do it. "stat" is answered with one line of JSON; the end of stdin is
 * the end.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static volatile int ended;
static unsigned long long *counts; /* by thread, a cache line each */
enum { LINE = 8 };

static unsigned long long now_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (unsigned long long)t.tv_sec * 1000000000ull + (unsigned long long)t.tv_nsec;
}

static __attribute__((noinline)) unsigned long work(unsigned int depth, unsigned long long *count)
{
	unsigned long x = depth;

	if (depth) {
		x = work(depth - 1, count);
		__asm__ volatile("" : "+r"(x)); /* no tail call */
		return x + 1;
	}
	while (!ended) {
		for (int i = 0; i < 1000; i++) {
			x = x * 1103515245 + 12345;
			__asm__ volatile("" : "+r"(x));
		}
		__atomic_store_n(count, *count + 1, __ATOMIC_RELAXED);
	}
	return x;
}

static unsigned int depth;

static void *thread(void *arg)
{
	work(depth, arg);
	return NULL;
}

int main(int argc, char **argv)
{
	int threads = argc > 1 ? atoi(argv[1]) : 1;
	char line[64];
	pthread_t t;

	depth = argc > 2 ? (unsigned int)atoi(argv[2]) : 0;
	counts = calloc((size_t)threads * LINE, sizeof(*counts));
	for (int i = 0; i < threads; i++)
		pthread_create(&t, NULL, thread, &counts[i * LINE]);
	printf("ready\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		unsigned long long sum = 0;

		for (int i = 0; i < threads; i++)
			sum += __atomic_load_n(&counts[i * LINE], __ATOMIC_RELAXED);
		printf("{\"calls\": 0, \"work\": %llu, \"cpu_ns\": %llu, \"now_ns\": %llu}\n", sum,
		       now_ns(CLOCK_PROCESS_CPUTIME_ID), now_ns(CLOCK_MONOTONIC));
		fflush(stdout);
	}
	ended = 1;
	_exit(0);
}

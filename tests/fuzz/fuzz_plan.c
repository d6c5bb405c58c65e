/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Throws broken ELF files at the plan. Built with -fsanitize=fuzzer it is a libFuzzer target;
 * else `fuzz_plan RUNS FILE...` mutates real files itself, the same ones every time.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/strbuf.h"
#include "plan/plan.h"
#include "plan/unwind.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The tables must be sound whatever the file says: each row has a page and a rule. */
static void unwind_tables(int fd)
{
	struct unwind_table t;
	struct image *img;
	char *reason = NULL;

	if (!image__open(fd, &img, &reason)) {
		if (!unwind__compile(img, &t)) {
			if (!unwind_table__is_sound(&t))
				abort();
			unwind_table__free(&t);
		}
		image__free(img);
	}
	free(reason);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const all[] = { "*" };
	struct plan_request req = { .functions = all,
				    .function_cnt = 1,
				    .profile_dir = "/nonexistent" };
	int fd = memfd_create("elf", MFD_CLOEXEC);
	struct plan *plan = NULL;
	char *reason = NULL;

	if (fd < 0 || fs__write_all(fd, data, size))
		abort();
	if (!plan__new(fd, &req, &plan, &reason))
		plan__free(plan);
	free(reason);
	unwind_tables(fd);
	close(fd);
	return 0;
}

#ifndef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
static uint32_t next_random(void)
{
	static uint32_t state = 2463534242u;

	state ^= state << 13;
	state ^= state >> 17;
	state ^= state << 5;
	return state;
}

static void mutate(char *bytes, size_t len)
{
	static const uint64_t odd[] = { 0,	    1,		0x7f,	   0xff,       0xffff,
					0x7fffffff, UINT32_MAX, INT64_MAX, UINT64_MAX, 1ull << 40 };
	size_t room = next_random() % 3 ? len : 1024, at = next_random() % room;
	size_t width = 1u << next_random() % 4;
	uint64_t value = next_random() % 2 ? odd[next_random() % 10] : next_random();

	if (at + width <= len)
		memcpy(bytes + at, &value, width);
}

static int run(const char *path, long runs)
{
	struct strbuf orig = STRBUF_INIT, copy = STRBUF_INIT;

	if (fs__read(path, &orig) || !orig.len) {
		fprintf(stderr, "fuzz_plan: cannot read '%s'\n", path);
		return 1;
	}
	for (long n = 0; n < runs; n++) {
		strbuf__reset(&copy);
		strbuf__add(&copy, orig.s, orig.len);
		for (uint32_t k = 1 + next_random() % 6; k--;)
			mutate(copy.s, copy.len);
		LLVMFuzzerTestOneInput((uint8_t *)copy.s,
				       next_random() % 4 ? copy.len : next_random() % copy.len);
	}
	printf("%s: %ld runs\n", path, runs);
	strbuf__free(&orig);
	strbuf__free(&copy);
	return 0;
}

int main(int argc, char **argv)
{
	int failed = argc < 3;

	if (failed)
		fprintf(stderr, "usage: fuzz_plan RUNS FILE...\n");
	for (int i = 2; i < argc; i++)
		failed |= run(argv[i], atol(argv[1]));
	return failed;
}
#endif

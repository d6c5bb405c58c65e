/* SPDX-License-Identifier: BSD-2-Clause */
/* Single probes on functions of our own: one refused site takes its function out, not the others.
 * Needs the rights to probe; without them it is skipped. */
#include <bpf/bpf.h>
#include <criterion/criterion.h>
#include <linux/bpf.h>
#include <unistd.h>

#include "attach/hands.h"
#include "attach/singles.h"
#include "roletrace/abi.h"

/* The kernel probes no lock prefix. */
__asm__(".pushsection .text\n"
	"rt_test_good:  push %rbp; pop %rbp; ret\n"
	"rt_test_half:  push %rbp; pop %rbp\n"
	"rt_test_lock:  lock incl (%rdi); ret\n"
	".popsection\n");
extern const volatile unsigned char rt_test_good[], rt_test_half[], rt_test_lock[];

#define BREAKPOINT 0xcc
#define PUSH 0x55

static int load_nothing(void)
{
	static const struct bpf_insn insns[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};

	return bpf_prog_load(BPF_PROG_TYPE_KPROBE, NULL, "Dual BSD/GPL", insns, 2, NULL);
}

/* good is function 1; half and lock are the sites of function 2. */
static void fill(struct hands_request *req, unsigned long *offsets, unsigned long long *cookies)
{
	const volatile unsigned char *sites[] = { rt_test_half, rt_test_good, rt_test_lock };

	for (int i = 0; i < 3; i++) {
		cr_assert_eq(hands__own_offset((const void *)sites[i], &offsets[i]), 0);
		cookies[i] = RT_COOKIE(i == 1 ? 1 : 2, RT_SITE_ENTRY, 0, 0, 0, 1, 0);
	}
	*req = (struct hands_request){ .prog_fd = load_nothing(),
				       .path = "/proc/self/exe",
				       .pid = getpid(),
				       .offsets = offsets,
				       .cookies = cookies,
				       .cnt = 3,
				       .single = true };
}

Test(singles, refused_site_takes_only_its_function)
{
	bool refused[3] = {};
	unsigned long long cookies[3];
	unsigned long offsets[3];
	struct hands_request req;
	int fd;

	fill(&req, offsets, cookies);
	if (req.prog_fd < 0)
		cr_skip_test("no rights to load a program");
	req.refused = refused;
	fd = hands__attach(&req);
	cr_assert(fd >= 0, "attach: %d", fd);
	cr_expect(refused[0] && !refused[1] && refused[2]);
	cr_expect_eq(rt_test_good[0], BREAKPOINT);
	cr_expect_eq(rt_test_half[0], PUSH);
	singles__close(fd);
	cr_expect_eq(rt_test_good[0], PUSH, "its keeper has not closed it");
	close(req.prog_fd);
}

Test(singles, refusal_fails_the_whole_when_nobody_asks_which)
{
	unsigned long long cookies[3];
	unsigned long offsets[3];
	struct hands_request req;
	int fd;

	fill(&req, offsets, cookies);
	if (req.prog_fd < 0)
		cr_skip_test("no rights to load a program");
	fd = hands__attach(&req);
	cr_expect(fd < 0);
	cr_expect_eq(rt_test_good[0], PUSH);
	close(req.prog_fd);
}

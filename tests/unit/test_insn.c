/* SPDX-License-Identifier: BSD-2-Clause */
/* What the kernel does with an instruction, and the control flow of one function per shape. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plan/flow.h"
#include "symbols/image.h"

struct insn_case {
	const char *bytes;
	uint8_t len, flow;
	bool emulated, refused;
	int32_t sp_bytes;
};

#define INSN(b, ...)                                                                               \
	{                                                                                          \
		b, sizeof(b) - 1, __VA_ARGS__                                                      \
	}

static const struct insn_case insns[] = {
	/* emulated */
	INSN("\x53", INSN_NEXT, true, false, -8),		     /* push rbx */
	INSN("\x41\x54", INSN_NEXT, true, false, -8),		     /* push r12 */
	INSN("\x90", INSN_NEXT, true, false, 0),		     /* nop */
	INSN("\x0f\x1f\x44\x00\x00", INSN_NEXT, true, false, 0),     /* nop5 */
	INSN("\x66\x90", INSN_NEXT, true, false, 0),		     /* nop2 */
	INSN("\x66\x0f\x1f\x44\x00\x00", INSN_NEXT, true, false, 0), /* nop6 */
	INSN("\xeb\x10", INSN_JMP, true, false, 0),		     /* jmp rel8 */
	INSN("\xe9\x10\0\0\0", INSN_JMP, true, false, 0),	     /* jmp rel32 */
	INSN("\x74\x10", INSN_JCC, true, false, 0),		     /* je rel8 */
	INSN("\x0f\x84\x10\0\0\0", INSN_JCC, true, false, 0),	     /* je rel32 */
	INSN("\xe8\x10\0\0\0", INSN_CALL, true, false, 0),	     /* call */
	/* single-stepped */
	INSN("\xf3\x0f\x1e\xfa", INSN_NEXT, false, false, 0),	/* endbr64 */
	INSN("\x48\x53", INSN_NEXT, false, false, -8),		/* rex.w push: not that form */
	INSN("\x6a\x01", INSN_NEXT, false, false, -8),		/* push 1 */
	INSN("\xff\x30", INSN_NEXT, false, false, -8),		/* push [rax] */
	INSN("\x5b", INSN_NEXT, false, false, 8),		/* pop rbx */
	INSN("\x5c", INSN_NEXT, false, false, INSN_SP_LOST),	/* pop rsp */
	INSN("\x48\x83\xec\x18", INSN_NEXT, false, false, -24), /* sub rsp, 24 */
	INSN("\x48\x81\xec\0\x10\0\0", INSN_NEXT, false, false, -4096),
	INSN("\x48\x83\xc4\x18", INSN_NEXT, false, false, 24),		 /* add rsp, 24 */
	INSN("\x48\x83\xe4\xe0", INSN_NEXT, false, false, INSN_SP_LOST), /* and rsp, -32 */
	INSN("\x48\x8d\x64\x24\xd8", INSN_NEXT, false, false, -40),	 /* lea rsp, [rsp-40] */
	INSN("\x48\x89\xe5", INSN_NEXT, false, false, 0),		 /* mov rbp, rsp */
	INSN("\x48\x89\xc4", INSN_NEXT, false, false, INSN_SP_LOST),	 /* mov rsp, rax */
	INSN("\x89\xf8", INSN_NEXT, false, false, 0),			 /* mov eax, edi */
	INSN("\x48\x85\xff", INSN_NEXT, false, false, 0),		 /* test rdi, rdi */
	INSN("\x48\x39\xdc", INSN_NEXT, false, false, 0),		 /* cmp rsp, rbx */
	INSN("\xc3", INSN_RET, false, false, 0),
	INSN("\xf3\xc3", INSN_RET, false, false, 0),			    /* rep ret */
	INSN("\xc2\x10\0", INSN_RET, false, false, 0),			    /* ret 16 */
	INSN("\xff\xe0", INSN_JMP_IND, false, false, 0),		    /* jmp rax */
	INSN("\xff\x25\0\0\0\0", INSN_JMP_IND, false, false, 0),	    /* jmp [rip] */
	INSN("\xff\xd0", INSN_CALL_IND, false, false, 0),		    /* call rax */
	INSN("\xe3\x10", INSN_JCXZ, false, false, 0),			    /* jrcxz */
	INSN("\xe2\x10", INSN_JCXZ, false, false, 0),			    /* loop */
	INSN("\xf3\x90", INSN_NEXT, false, false, 0),			    /* pause */
	INSN("\x64\x48\x8b\x04\x25\x28\0\0\0", INSN_NEXT, false, false, 0), /* mov rax, fs:28h */
	INSN("\xc5\xf8\x57\xc0", INSN_NEXT, false, false, 0),		    /* vxorps */
	/* refused */
	INSN("\xcc", INSN_STOP, false, true, 0),			   /* int3 */
	INSN("\xf4", INSN_STOP, false, true, 0),			   /* hlt */
	INSN("\x0f\x0b", INSN_STOP, false, true, 0),			   /* ud2 */
	INSN("\xcd\x80", INSN_NEXT, false, true, 0),			   /* int 0x80 */
	INSN("\x0f\x05", INSN_NEXT, false, true, 0),			   /* syscall */
	INSN("\xf0\xff\x00", INSN_NEXT, false, true, 0),		   /* lock inc */
	INSN("\x3e\xff\xe0", INSN_JMP_IND, false, true, 0),		   /* notrack jmp rax */
	INSN("\x2e\x74\x10", INSN_JCC, false, true, 0),			   /* je, hinted */
	INSN("\x66\x2e\x0f\x1f\x84\0\0\0\0\0", INSN_NEXT, false, true, 0), /* cs nopw */
	INSN("\x8e\xd0", INSN_NEXT, false, true, 0),			   /* mov ss, eax */
	INSN("\xec", INSN_NEXT, false, true, 0),			   /* in al, dx */
	INSN("\x62\xf1\x7c\x48\x57\xc0", INSN_NEXT, false, true, 0),	   /* vxorps zmm (EVEX) */
	INSN("\xc5\xfd\x6f\x07", INSN_NEXT, false, true, 0),		   /* vmovdqa ymm0, [rdi] */
	INSN("\xc5\xfd\xef\xc0", INSN_NEXT, false, true, 0),		   /* vpxor */
};

Test(insn, the_kernels_view_and_the_stack_pointer)
{
	for (size_t i = 0; i < sizeof(insns) / sizeof(*insns); i++) {
		const struct insn_case *c = &insns[i];
		struct insn in;

		cr_assert(insn__decode((const uint8_t *)c->bytes, c->len, 0x1000, &in), "case %zu",
			  i);
		cr_expect_eq(in.len, c->len, "case %zu: length %u", i, in.len);
		cr_expect_eq(in.flow, c->flow, "case %zu: flow %u", i, in.flow);
		cr_expect_eq(in.emulated, c->emulated, "case %zu: emulated %d", i, in.emulated);
		cr_expect_eq(in.refused, c->refused, "case %zu: refused %d", i, in.refused);
		cr_expect_eq(in.sp_bytes, c->sp_bytes, "case %zu: sp %d", i, in.sp_bytes);
	}
}

Test(insn, targets_and_what_is_no_instruction)
{
	struct insn in;

	cr_assert(insn__decode((const uint8_t *)"\xeb\xfe", 2, 0x1000, &in));
	cr_expect_eq(in.target, 0x1000);
	cr_assert(insn__decode((const uint8_t *)"\x0f\x8f\xfa\xff\xff\xff", 6, 0x1000, &in));
	cr_expect_eq(in.target, 0x1000);
	cr_expect_eq(in.cond, 15);
	cr_assert(insn__decode((const uint8_t *)"\xff\x25\x10\0\0\0", 6, 0x1000, &in));
	cr_expect_eq(in.mem.base, INSN_RIP);
	cr_expect_eq(in.mem.disp, 0x1016);
	cr_expect(!insn__decode((const uint8_t *)"\x06", 1, 0, &in));
	cr_expect(!insn__decode((const uint8_t *)"\xe9\0", 2, 0, &in));
	cr_expect(!insn__decode((const uint8_t *)"", 0, 0, &in));
}

/* ---- flow.S ---- */

struct shape {
	const char *name;
	enum plan_refusal why;
	unsigned exits;
	enum rt_site_kind kinds[3];
	enum rt_insn_class entry;
	uint16_t sp_words;
};

#define E RT_INSN_EMULATED
#define S RT_INSN_STEPPED
#define RET RT_SITE_RET
#define TAIL RT_SITE_TAIL
#define JCC RT_SITE_JCC

static const struct shape shapes[] = {
	{ "plain", PLAN_OK, 1, { RET }, E, 0 },
	{ "endbr", PLAN_OK, 1, { RET }, E, 0 },
	{ "mov_first", PLAN_OK, 1, { RET }, E, 0 },
	{ "push_r12", PLAN_OK, 1, { RET }, E, 0 },
	{ "nop_first", PLAN_OK, 1, { RET }, E, 0 },
	{ "sub_first", PLAN_OK, 1, { RET }, E, 3 },
	{ "lea_sp", PLAN_OK, 1, { RET }, E, 5 },
	{ "sp_odd", PLAN_OK, 1, { RET }, S, 0 },
	{ "aligns_stack", PLAN_OK, 1, { RET }, S, 0 },
	{ "test_first", PLAN_OK, 1, { RET }, E, 0 },
	{ "indirect_call_first", PLAN_OK, 1, { RET }, S, 0 },
	{ "no_emulated", PLAN_OK, 1, { RET }, S, 0 },
	{ "loop_at_entry", PLAN_ENTERED_MIDWAY, 0, { 0 }, E, 0 },
	{ "loop_behind_entry", PLAN_OK, 1, { RET }, S, 0 },
	{ "calls_itself_last", PLAN_ENTERED_MIDWAY, 0, { 0 }, E, 0 },
	{ "two_rets", PLAN_OK, 2, { RET, RET }, E, 0 },
	{ "ret_pops", PLAN_OK, 1, { RET }, E, 0 },
	{ "frame_pointer", PLAN_OK, 1, { RET }, E, 0 },
	{ "tail_direct", PLAN_OK, 1, { TAIL }, E, 0 },
	{ "tail_got", PLAN_OK, 1, { TAIL }, E, 0 },
	{ "tail_register", PLAN_OK, 1, { TAIL }, E, 0 },
	{ "tail_argument", PLAN_OK, 1, { TAIL }, E, 0 },
	{ "tail_memory", PLAN_OK, 1, { TAIL }, E, 0 },
	{ "tail_condition", PLAN_OK, 2, { JCC, RET }, E, 0 },
	{ "tail_condition_far", PLAN_OK, 2, { JCC, RET }, E, 0 },
	{ "tail_array", PLAN_OK, 1, { TAIL }, E, 0 },
	{ "jumps_with_frame", PLAN_UNKNOWN_JUMP, 0, { 0 }, E, 0 },
	{ "push_ret", PLAN_UNKNOWN_JUMP, 0, { 0 }, E, 0 },
	{ "tail_notrack", PLAN_UNPROBEABLE, 0, { 0 }, E, 0 },
	{ "table_bounded", PLAN_OK, 3, { RET, TAIL, RET }, E, 0 },
	{ "table_unbounded", PLAN_OK, 2, { RET, RET }, E, 0 },
	{ "table_hoisted", PLAN_OK, 2, { RET, RET }, E, 0 },
	{ "table_of_addresses", PLAN_OK, 2, { RET, RET }, E, 0 },
	{ "computed_jump", PLAN_UNKNOWN_JUMP, 0, { 0 }, E, 0 },
	{ "never_returns", PLAN_OK, 0, { 0 }, E, 0 },
	{ "last_call", PLAN_OK, 0, { 0 }, E, 0 },
	{ "last_call_padded", PLAN_OK, 0, { 0 }, E, 0 },
	{ "runs_on", PLAN_FALLS_THROUGH, 0, { 0 }, E, 0 },
	{ "trap_first", PLAN_UNPROBEABLE, 0, { 0 }, E, 0 },
	{ "lock_first", PLAN_UNPROBEABLE, 0, { 0 }, E, 0 },
	{ "lock_then_push", PLAN_OK, 1, { RET }, E, 0 },
	{ "thunk", PLAN_THUNK, 0, { 0 }, E, 0 },
	{ "only_ret", PLAN_THUNK, 0, { 0 }, E, 0 },
	{ "data_jumped_over", PLAN_UNREACHED, 0, { 0 }, E, 0 },
	{ "harmless_data", PLAN_OK, 1, { RET }, E, 0 },
	{ "jump_into_insn", PLAN_BAD_BOUNDARY, 0, { 0 }, E, 0 },
	{ "undecodable", PLAN_UNDECODABLE, 0, { 0 }, E, 0 },
	{ "label_inside", PLAN_OK, 1, { RET }, E, 0 },
	{ "table_inside", PLAN_DATA_INSIDE, 0, { 0 }, E, 0 },
	{ "object_inside", PLAN_DATA_INSIDE, 0, { 0 }, E, 0 },
	{ "function_inside", PLAN_ENTERED_MIDWAY, 0, { 0 }, E, 0 },
	{ "no_size", PLAN_NO_SIZE, 0, { 0 }, E, 0 },
	{ "resolver", PLAN_IFUNC, 0, { 0 }, E, 0 },
	{ "hot", PLAN_OK, 2, { RET, RET }, E, 0 },
};

static struct image *open_flow(void)
{
	struct image *img = NULL;
	char *reason = NULL;
	int fd = open(ELF_FIXTURES "/flow", O_RDONLY | O_CLOEXEC);

	cr_assert_eq(image__open(fd, &img, &reason), 0, "%s", reason);
	close(fd);
	return img;
}

/* The address of NAME or NAME.LABEL; 0 without it. */
static uint64_t address(const struct image *img, const char *name, const char *label)
{
	size_t cnt;
	const struct symbol *syms = image__symbols(img, &cnt);
	char full[96];

	snprintf(full, sizeof(full), "%s%s%s", name, *label ? "." : "", label);
	for (size_t i = 0; i < cnt; i++)
		if (!strcmp(image__str(img, syms[i].name), full))
			return syms[i].addr;
	return 0;
}

static void check_shape(const struct image *img, const struct shape *shape)
{
	const struct symbol *sym = image__function_at(img, address(img, shape->name, ""));
	struct flow flow;
	uint64_t entry;

	cr_assert_not_null(sym, "%s", shape->name);
	cr_assert_eq(flow__analyse(img, sym, sym->size, &flow), 0);
	cr_expect_eq(flow.why, shape->why, "%s: %s", shape->name, plan_refusal_text(flow.why));
	if (!flow.why && !shape->why) {
		entry = address(img, shape->name, "e");
		cr_expect_eq(flow.entry.vaddr, entry ? entry : sym->addr, "%s: entry at %#lx",
			     shape->name, flow.entry.vaddr);
		cr_expect_eq(flow.entry.insn, shape->entry, "%s: price of the entry", shape->name);
		cr_expect_eq(flow.entry.sp_words, shape->sp_words, "%s: %u words", shape->name,
			     flow.entry.sp_words);
		cr_expect_eq(flow.first.vaddr, sym->addr, "%s", shape->name);
		cr_expect_eq(flow.exit_cnt, shape->exits, "%s: %zu exits", shape->name,
			     flow.exit_cnt);
		for (size_t i = 0; i < flow.exit_cnt && i < shape->exits; i++) {
			char label[24];
			bool found = false;

			/* a cold part may lie before its function */
			for (size_t k = 1; k <= shape->exits; k++) {
				snprintf(label, sizeof(label), "x%zu", k);
				if (address(img, shape->name, label) == flow.exits[i].vaddr) {
					cr_expect_eq(flow.exits[i].kind, shape->kinds[k - 1],
						     "%s.%s", shape->name, label);
					found = true;
				}
			}
			cr_expect(found, "%s: an exit at %#lx", shape->name, flow.exits[i].vaddr);
		}
	}
	flow__free(&flow);
}

/* P5, P12, P13 */
Test(flow, every_shape)
{
	struct image *img = open_flow();

	for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++)
		check_shape(img, &shapes[i]);
	image__free(img);
}

Test(flow, conditions_of_conditional_exits)
{
	struct image *img = open_flow();
	const char *const names[] = { "tail_condition", "tail_condition_far" };
	const uint8_t conds[] = { 5 /* ne */, 15 /* g */ };

	for (int i = 0; i < 2; i++) {
		const struct symbol *sym = image__function_at(img, address(img, names[i], ""));
		struct flow flow;

		cr_assert_eq(flow__analyse(img, sym, sym->size, &flow), 0);
		cr_expect_eq(flow.exits[0].cond, conds[i]);
		cr_expect_eq(flow.exits[0].insn, RT_INSN_EMULATED);
		flow__free(&flow);
	}
	image__free(img);
}

/* A symbol that claims more than there is. */
Test(flow, sizes_that_lie)
{
	struct image *img = open_flow();
	struct symbol sym = *image__function_at(img, address(img, "plain", ""));
	const uint64_t sizes[] = { 1, 2, 1 << 20, 1ull << 40, UINT64_MAX, UINT64_MAX - sym.addr };
	struct flow flow;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		cr_assert_eq(flow__analyse(img, &sym, sizes[i], &flow), 0);
		cr_expect_neq(flow.why, PLAN_OK, "size %#lx", sizes[i]);
		flow__free(&flow);
	}
	sym.addr = 0xdead0000;
	cr_assert_eq(flow__analyse(img, &sym, 16, &flow), 0);
	cr_expect_eq(flow.why, PLAN_NOT_CODE);
	flow__free(&flow);
	image__free(img);
}

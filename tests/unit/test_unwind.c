/* SPDX-License-Identifier: BSD-2-Clause */
/* Unwind tables against what libdw says of the same files, at every row and inside. */
#include <criterion/criterion.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plan/unwind.h"

struct oracle {
	int fd;
	Elf *elf;
	Dwarf_CFI *cfi;
	GElf_Addr bias;
};

static struct oracle oracle_of(const char *path)
{
	struct oracle o = { .fd = open(path, O_RDONLY) };

	elf_version(EV_CURRENT);
	o.elf = elf_begin(o.fd, ELF_C_READ_MMAP, NULL);
	o.cfi = o.elf ? dwarf_getcfi_elf(o.elf) : NULL;
	return o;
}

static const struct rt_unwind_rule *rule_at(const struct unwind_table *t, uint64_t vaddr)
{
	uint64_t page = (vaddr - t->base) >> RT_UNWIND_PAGE_BITS;
	uint32_t first, n;

	if (vaddr < t->base || page >= t->page_cnt)
		return &t->rules[0];
	first = t->pages[page].first;
	n = t->pages[page].last + 1u;
	while (n > 1 && RT_ROW_LOW(t->rows[first + n - 1]) > (vaddr & 0xffff))
		n--;
	return &t->rules[RT_ROW_RULE(t->rows[first + n - 1])];
}

/* "breg N off" or "call_frame_cfa + off" as libdw hands out locations. */
static bool reg_offset(const Dwarf_Op *op, size_t n, unsigned *reg, int64_t *offset)
{
	if (n != 1)
		return false;
	if (op->atom >= DW_OP_breg0 && op->atom <= DW_OP_breg31) {
		*reg = op->atom - DW_OP_breg0;
		*offset = (int64_t)op->number;
		return true;
	}
	if (op->atom == DW_OP_bregx) {
		*reg = (unsigned)op->number;
		*offset = (int64_t)op->number2;
		return true;
	}
	return false;
}

/* Where libdw's CFA is plain it must be ours; a rule of ours that it does not know is wrong. */
static bool agrees_cfa(const struct rt_unwind_rule *r, Dwarf_Frame *frame)
{
	int64_t offset;
	Dwarf_Op *ops;
	unsigned reg;
	size_t n;

	if (r->cfa == RT_CFA_NONE)
		return true; /* given up, and counted as odd */
	if (dwarf_frame_cfa(frame, &ops, &n) || !n)
		return false;
	if (reg_offset(ops, n, &reg, &offset))
		return r->cfa == RT_CFA_REG ? r->reg == reg && r->cfa_offset == offset
					    : r->cfa == RT_CFA_SIGNAL || r->cfa == RT_CFA_END;
	return r->cfa != RT_CFA_REG;
}

static bool agrees_rbp(const struct rt_unwind_rule *r, Dwarf_Frame *frame)
{
	Dwarf_Op mem[3], *ops;
	size_t n;

	if (r->cfa != RT_CFA_REG || dwarf_frame_register(frame, 6, mem, &ops, &n))
		return true;
	if (!n)
		return r->rbp == (ops == mem ? RT_RBP_LOST : RT_RBP_SAME);
	if (n == 1 && ops[0].atom == DW_OP_call_frame_cfa)
		return r->rbp == RT_RBP_AT_CFA && r->rbp_offset == 0;
	if (n == 2 && ops[0].atom == DW_OP_call_frame_cfa && ops[1].atom == DW_OP_plus_uconst)
		return r->rbp == RT_RBP_AT_CFA && r->rbp_offset == (int64_t)ops[1].number;
	return r->rbp != RT_RBP_SAME;
}

static void compare(const char *path, unsigned min_checks)
{
	struct oracle o = oracle_of(path);
	struct unwind_table t;
	char *reason = NULL;
	unsigned checks = 0, wrong = 0, known = 0;
	int err = unwind__compile_isolated(o.fd, &t, &reason);

	cr_assert(!err, "%s: %s", path, reason ? reason : strerror(-err));
	cr_assert(o.cfi, "%s", path);
	for (uint32_t p = 0; p < t.page_cnt; p++) {
		for (uint32_t i = 0; i <= t.pages[p].last; i++) {
			uint32_t row = t.rows[t.pages[p].first + i];
			uint64_t at =
				t.base + ((uint64_t)p << RT_UNWIND_PAGE_BITS) + RT_ROW_LOW(row);
			const struct rt_unwind_rule *r = rule_at(&t, at);
			Dwarf_Frame *frame = NULL;

			if (dwarf_cfi_addrframe(o.cfi, at, &frame)) {
				wrong += r->cfa != RT_CFA_NONE;
			} else {
				wrong += !agrees_cfa(r, frame) || !agrees_rbp(r, frame);
				known += r->cfa != RT_CFA_NONE;
			}
			free(frame);
			checks++;
		}
	}
	cr_expect(wrong == 0, "%s: %u of %u rows are not as libdw says", path, wrong, checks);
	cr_expect(checks >= min_checks, "%s: %u rows", path, checks);
	cr_expect(known * 100.0 >= checks * 85.0, "%s: %u of %u known", path, known, checks);
	cr_expect(t.odd_cnt * 1000 < t.row_cnt, "%s: %lu odd of %u", path, t.odd_cnt, t.row_cnt);
	cr_log_info("%s: %lu functions, %u rows, %u rules, %lu odd", path, t.fde_cnt, t.row_cnt,
		    t.rule_cnt, t.odd_cnt);
	unwind_table__free(&t);
	dwarf_cfi_end(o.cfi);
	elf_end(o.elf);
	close(o.fd);
}

Test(unwind, tables_are_as_libdw_says)
{
	compare("/proc/self/exe", 5000);
	compare("/lib/x86_64-linux-gnu/libc.so.6", 20000);
	compare("/lib64/ld-linux-x86-64.so.2", 1000);
}

Test(unwind, no_elf_file_is_an_error_with_words)
{
	struct unwind_table t;
	char *reason = NULL;
	int fd = open("/etc/passwd", O_RDONLY);

	cr_expect(unwind__compile_isolated(fd, &t, &reason) == -ENOEXEC);
	cr_expect(reason && *reason);
	free(reason);
	close(fd);
}

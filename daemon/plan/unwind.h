/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A file's .eh_frame as the table that the BPF unwinder searches (roletrace/unwind.h). Four bytes
 * a row: the low half of an address and the number of a rule; rules are few, for frames look alike.
 * What no rule can express is rule 0: nothing known.
 */
#ifndef PLAN_UNWIND_H
#define PLAN_UNWIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "roletrace/unwind.h"
#include "symbols/image.h"

#define UNWIND_MAX_SEGMENTS 8

struct unwind_table {
	uint64_t base; /* address of page 0 */
	uint64_t fde_cnt;
	uint64_t odd_cnt; /* rows that no rule expresses */
	struct rt_unwind_page *pages;
	uint32_t *rows;
	struct rt_unwind_rule *rules; /* rule 0 is none */
	uint32_t page_cnt, row_cnt, rule_cnt, segment_cnt;
	struct code_segment segments[UNWIND_MAX_SEGMENTS];
};

/* A file without .eh_frame has an empty table. 0 or -ENOMEM. */
int unwind__compile(const struct image *img, struct unwind_table *out);

/*
 * The same in a process without rights. 0; -ENOEXEC when the file cannot be read or broke it,
 * -ETIMEDOUT; one line in *reason (malloc'd).
 */
int unwind__compile_isolated(int fd, struct unwind_table *out, char **reason);

/* Whether nothing of it leads out of bounds. */
bool unwind_table__is_sound(const struct unwind_table *t);
void unwind_table__free(struct unwind_table *t);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What this machine and these rights allow, probed one by one, each with its own words. Some of it
 * there is another way for: then the mode says which way, and nothing is missing.
 */
#ifndef ATTACH_FEATURES_H
#define ATTACH_FEATURES_H

#include <stdbool.h>
#include <stdio.h>

#include "attach/mode.h"

/* In this order they are named when they are missing. */
enum feature_id {
	FEATURE_ARCH,
	FEATURE_KERNEL,
	FEATURE_PROC,
	FEATURE_CAP_BPF,
	FEATURE_CAP_PERFMON,
	FEATURE_CAP_SYS_PTRACE,
	FEATURE_LOCKDOWN,
	FEATURE_BTF,
	FEATURE_BPF_LOAD,
	FEATURE_MMAP_ARRAY,
	FEATURE_CURRENT_TASK,
	FEATURE_COOKIE,
	FEATURE_LOOP,
	FEATURE_FIND_VMA,
	FEATURE_TRACEPOINTS,
	FEATURE_MAP_LOCK,
	FEATURE_TASK_ITER,
	FEATURE_TASK_REGS,
	FEATURE_TASK_STORAGE,
	FEATURE_UPROBE_MULTI,
	FEATURE_MULTI_PID,
	FEATURE_PERF_UPROBE,
	FEATURE_CNT,
};

struct feature {
	const char *name;
	bool ok;
	bool optional;	  /* not ok: there is another way, the detail says what it means */
	char detail[160]; /* what was found; when not ok, what is missing */
};

struct features {
	struct feature f[FEATURE_CNT];
	char kernel[65]; /* uname -r */
};

/* Features by their short names, "uprobe_multi,task_storage". False: *bad is the unknown one. */
bool features__parse(const char *list, unsigned int *mask, char bad[32]);

/*
 * without: a mask of features to take for missing (tests). thorough: also what the kernel's types
 * must tell and what must be tried out, 100 ms; else that is taken to be there where the kernel is
 * new enough.
 */
void features__probe(unsigned int without, bool thorough, struct features *out);
/* The first thing that is missing, or NULL: then roletrace can trace any process. */
const struct feature *features__missing(const struct features *f);
struct attach_mode features__mode(const struct features *f);
/* One line each: "ok  NAME  detail", "--  NAME  another way", or "NO  NAME  detail". */
void features__print(const struct features *f, FILE *to);

#endif

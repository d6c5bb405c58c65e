/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What this machine and these rights allow, probed one by one, each with its own words.
 */
#ifndef ATTACH_FEATURES_H
#define ATTACH_FEATURES_H

#include <stdbool.h>
#include <stdio.h>

enum feature_id {
	FEATURE_ARCH,
	FEATURE_KERNEL,
	FEATURE_CAP_BPF,
	FEATURE_CAP_PERFMON,
	FEATURE_CAP_SYS_PTRACE,
	FEATURE_LOCKDOWN,
	FEATURE_BTF,
	FEATURE_BPF_LOAD,
	FEATURE_UPROBE_MULTI,
	FEATURE_PROC,
	FEATURE_CNT,
};

struct feature {
	const char *name;
	bool ok;
	char detail[160]; /* what was found; when not ok, what is missing */
};

struct features {
	struct feature f[FEATURE_CNT];
	char kernel[65]; /* uname -r */
};

void features__probe(struct features *out);
/* The first thing that is missing, or NULL: then roletrace can trace any process. */
const struct feature *features__missing(const struct features *f);
/* One line each: "ok  NAME  detail" or "NO  NAME  detail". */
void features__print(const struct features *f, FILE *to);

#endif

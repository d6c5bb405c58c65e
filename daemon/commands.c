/* SPDX-License-Identifier: BSD-2-Clause */
#include "commands.h"

#include <stdio.h>
#include <string.h>

#include "attach/features.h"
#include "codes.h"
#include "options.h"
#include "plan/list.h"
#include "plan/plan.h"
#include "planning.h"
#include "target/process.h"

int command__list(const struct options *opts)
{
	struct target target = { .pidfd = -1, .exe_fd = -1 };
	struct plan *plan = NULL;
	char *reason = NULL;
	int code, err;

	if (opts->pid) {
		err = target__open(opts->pid, &target, &reason);
		if (err)
			return code__say(code__of(err), reason, strerror(-err));
		code = planning__target(opts, &target, true, &plan);
		target__close(&target);
	} else {
		code = planning__file(opts, &plan);
	}
	if (!code)
		plan__print(plan, stdout);
	plan__free(plan);
	return code;
}

int command__check(void)
{
	struct features f;
	const struct feature *missing;

	features__probe(&f);
	features__print(&f, stdout);
	missing = features__missing(&f);
	if (!missing) {
		printf("roletrace can trace here\n");
		return CODE_OK;
	}
	printf("roletrace cannot trace here: %s\n", missing->name);
	return CODE_NOT_ALLOWED;
}

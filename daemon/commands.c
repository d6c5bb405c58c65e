/* SPDX-License-Identifier: BSD-2-Clause */
#include "commands.h"

#include <stdio.h>
#include <string.h>

#include "attach/features.h"
#include "codes.h"
#include "machine.h"
#include "options.h"
#include "plan/list.h"
#include "plan/plan.h"
#include "planning.h"
#include "target/process.h"

int command__list(const struct options *opts)
{
	struct target target = { .pidfd = -1, .exe_fd = -1 };
	struct attach_mode mode = {};
	struct plan *plan = NULL;
	struct features f;
	char *reason = NULL;
	int code, err;

	code = machine__probe(opts, false, &f);
	if (code)
		return code;
	/* without the rights the kernel cannot be asked; a file may be for another one */
	if (opts->pid && !features__missing(&f))
		mode = features__mode(&f);
	if (opts->pid) {
		err = target__open(opts->pid, &target, &reason);
		if (err)
			return code__say(code__of(err), reason, strerror(-err));
		code = planning__target(opts, &mode, &target, true, &plan);
		target__close(&target);
	} else {
		code = planning__file(opts, &mode, &plan);
	}
	if (!code)
		plan__print(plan, stdout);
	plan__free(plan);
	return code;
}

int command__check(const struct options *opts)
{
	struct features f;
	const struct feature *missing;
	int code = machine__probe(opts, true, &f);

	if (code)
		return code;
	features__print(&f, stdout);
	missing = features__missing(&f);
	if (!missing) {
		printf("roletrace can trace here\n");
		return CODE_OK;
	}
	printf("roletrace cannot trace here: %s\n", missing->name);
	return CODE_NOT_ALLOWED;
}

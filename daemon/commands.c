/* SPDX-License-Identifier: BSD-2-Clause */
#include "commands.h"

#include <stdio.h>
#include <string.h>

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
	struct plan *plan = NULL;
	struct machine machine;
	char *reason = NULL;
	int code, err;

	code = machine__probe(opts, false, &machine);
	if (code)
		return code;
	if (opts->pid) {
		err = target__open(opts->pid, &target, &reason);
		if (err)
			return code__say(code__of(err), reason, strerror(-err));
		code = planning__target(opts, &machine.mode, &target, true, &plan);
		target__close(&target);
	} else {
		code = planning__file(opts, &(struct attach_mode){}, &plan);
	}
	if (!code)
		plan__print(plan, stdout);
	plan__free(plan);
	return code;
}

int command__check(const struct options *opts)
{
	const struct feature *missing;
	struct machine machine;
	int code = machine__probe(opts, true, &machine);

	if (code)
		return code;
	features__print(&machine.features, stdout);
	missing = features__missing(&machine.features);
	if (!missing) {
		printf("roletrace can trace here\n");
		return CODE_OK;
	}
	printf("roletrace cannot trace here: %s\n", missing->name);
	return CODE_NOT_ALLOWED;
}

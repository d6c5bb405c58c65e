/* SPDX-License-Identifier: BSD-2-Clause */
#include "commands.h"

#include <stdio.h>
#include <string.h>

#include "attach/calibrate.h"
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
	struct rt_prices prices;
	struct machine machine;
	char *reason = NULL;
	bool measured;
	int code, err;

	code = machine__probe(opts, false, &machine);
	if (code)
		return code;
	if (opts->pid) {
		err = target__open(opts->pid, &target, &reason);
		if (err)
			return code__say(code__of(err), reason, strerror(-err));
		code = planning__target(opts, &machine.mode, &target, true, NULL, &plan);
		target__close(&target);
	} else {
		code = planning__file(opts, &(struct attach_mode){}, &plan);
	}
	/* prices in ns take probes on a process of our own */
	measured = !code && opts->pid && !features__missing(&machine.features) &&
		   !calibrate__prices(&machine.mode, plan->exit == PLAN_EXIT_URETPROBE, &prices);
	if (!code)
		plan__print(plan, measured ? &prices : NULL, stdout);
	plan__free(plan);
	return code;
}

/* Its allocators; functions are what list is for. */
static int check_process(const struct options *opts, const struct machine *machine)
{
	struct target target = { .pidfd = -1, .exe_fd = -1 };
	struct options only_memory = *opts;
	struct plan *plan = NULL;
	char *reason = NULL;
	int err = target__open(opts->pid, &target, &reason), code;

	if (err)
		return code__say(code__of(err), reason, strerror(-err));
	only_memory.no_functions = true;
	if (opts->memory < OPTION_MEMORY_LIVE)
		only_memory.memory = OPTION_MEMORY_LIVE;
	code = planning__target(&only_memory, &machine->mode, &target, false, NULL, &plan);
	if (!code) {
		printf("\nprocess %d (%s), ", target.pid, target.comm);
		plan__print_allocators(plan, stdout);
	}
	plan__free(plan);
	target__close(&target);
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
		return opts->pid ? check_process(opts, &machine) : CODE_OK;
	}
	printf("roletrace cannot trace here: %s\n", missing->name);
	return CODE_NOT_ALLOWED;
}

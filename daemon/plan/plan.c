/* SPDX-License-Identifier: BSD-2-Clause */
/* The plan of one file, the end of a plan, and its words. How one is made: build.c, rows.c. */
#include "plan/plan.h"

#include <stdlib.h>

#include "plan/build.h"
#include "plan/profile.h"
#include "plan/sources.h"

const char *plan_refusal_text(enum plan_refusal why)
{
	static const char *const text[PLAN_REFUSAL_CNT] = {
		[PLAN_OK] = "probed",
		[PLAN_NO_SIZE] = "symbol without a size",
		[PLAN_NOT_CODE] = "not in an executable segment",
		[PLAN_DATA_INSIDE] = "data inside, another symbol says",
		[PLAN_UNDECODABLE] = "bytes that are no instruction",
		[PLAN_BAD_BOUNDARY] = "a branch into the middle of an instruction",
		[PLAN_UNPROBEABLE] = "the kernel refuses a probe on its instruction",
		[PLAN_UNKNOWN_JUMP] = "a jump whose targets are unknown",
		[PLAN_FALLS_THROUGH] = "runs on into what follows it",
		[PLAN_ENTERED_MIDWAY] = "entered more than once per call, or midway",
		[PLAN_IFUNC] =
			"an IFUNC resolver, not the function: what it chooses for this CPU has a "
			"name of its own",
		[PLAN_TOO_MANY] = "too many functions",
		[PLAN_TOO_FEW_PROBES] =
			"this kernel has no uprobe_multi links: only the first 32 probes",
		[PLAN_EXE_ONLY] = "this kernel's uprobe_multi links would probe the library in "
				  "every process",
		[PLAN_REFUSED_BY_KERNEL] = "refused by the kernel",
		[PLAN_THUNK] = "only a jump: nothing to time",
		[PLAN_UNREACHED] = "a way out that no path leads to",
	};

	return why < PLAN_REFUSAL_CNT && text[why] ? text[why] : "?";
}

const char *plan_exit_text(enum plan_exit exit)
{
	static const char *const text[] = {
		[PLAN_EXIT_AUTO] = "auto",
		[PLAN_EXIT_SITES] = "sites",
		[PLAN_EXIT_URETPROBE] = "uretprobe",
	};

	return text[exit];
}

const char *plan__exit_of(const struct plan *plan, const struct plan_fn *fn)
{
	if (plan->exit == PLAN_EXIT_URETPROBE)
		return "uretprobe";
	return fn->has_edges ? "edges" : "sites";
}

int plan__new(int fd, const struct plan_request *req, struct plan **out, char **reason)
{
	struct plan_source exe = { .fd = fd, .path = req->exe_name ? req->exe_name : "" };
	struct plan_input in = { .sources = &exe, .source_cnt = 1 };
	struct debug_wish wish = {};
	struct sources sources = {};
	struct profile *profile = NULL;
	int err;

	*reason = NULL;
	err = profile__load(req->profile, req->profile_dir, req->exe_name, &profile, reason);
	if (!err)
		err = sources__choose(&in, &wish, req, &sources, reason);
	if (!err)
		err = plan__build(&sources, req, profile, out, reason);
	sources__free(&sources);
	profile__free(profile);
	return err;
}

static void free_fn(struct plan_fn *fn)
{
	for (size_t i = 0; i < fn->alias_cnt; i++)
		free(fn->aliases[i]);
	free(fn->aliases);
	free(fn->name);
	free(fn->symbol);
	free(fn->crate);
	free(fn->file);
}

void plan__free(struct plan *plan)
{
	if (!plan)
		return;
	for (size_t i = 0; i < plan->fn_cnt; i++)
		free_fn(&plan->fns[i]);
	for (size_t i = 0; i < plan->skip_cnt; i++)
		free(plan->skipped[i].name);
	for (size_t i = 0; i < plan->inlined_cnt; i++)
		free(plan->inlined_only[i]);
	for (size_t i = 0; i < plan->note_cnt; i++)
		free(plan->notes[i]);
	for (size_t i = 0; i < plan->object_cnt; i++) {
		free(plan->objects[i].name);
		free(plan->objects[i].build_id);
		free(plan->objects[i].debug_file);
	}
	for (size_t i = 0; i < plan->allocator_cnt; i++) {
		free(plan->allocators[i].source);
		free(plan->allocators[i].functions);
		free(plan->allocators[i].why);
	}
	free(plan->allocators);
	free(plan->mem_sites);
	free(plan->memory_why);
	free(plan->late_why);
	free(plan->uret_why);
	free(plan->objects);
	free(plan->notes);
	free(plan->fns);
	free(plan->sites);
	free(plan->catches);
	free(plan->skipped);
	free(plan->inlined_only);
	free(plan->build_id);
	free(plan->profile);
	free(plan->hint);
	free(plan);
}

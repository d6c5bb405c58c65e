// SPDX-License-Identifier: BSD-2-Clause
/* Prints a plan. Names go last and uncut, so that the columns before them fit 80 characters. */
#include "plan/list.h"

#include "plan/plan.h"

static const char *price(enum rt_insn_class insn, bool any)
{
	if (!any)
		return "-";
	return insn == RT_INSN_EMULATED ? "fast" : "step";
}

static void print_function(const struct plan *plan, const struct plan_fn *fn, FILE *out)
{
	bool uret = plan->exit == PLAN_EXIT_URETPROBE;
	const char *exits = uret ? "return" : price(fn->exit_insn, fn->exit_sites > 0);

	fprintf(out, "%-5s %5u  %-5s %5u  %-6s  %s\n", fn->kind == PLAN_ASYNC ? "async" : "fn",
		fn->entry_sites, price(fn->entry_insn, true), fn->exit_sites, exits, fn->name);
	if (fn->file)
		fprintf(out, "%34s%s:%u\n", "", fn->file, fn->line);
	for (size_t i = 0; i < fn->alias_cnt; i++)
		fprintf(out, "%34s= %s\n", "", fn->aliases[i]);
}

static void print_functions(const struct plan *plan, FILE *out)
{
	if (!plan->fn_cnt)
		return;
	fprintf(out, "kind  entry  price exits  price   function\n");
	for (size_t i = 0; i < plan->fn_cnt; i++)
		print_function(plan, &plan->fns[i], out);
	fprintf(out,
		"\nfast: emulated by the kernel, about 1 us a hit. step: single-stepped, dear.\n"
		"async: the poll function of an async function; its calls are polls.\n\n");
}

static void print_skipped(const struct plan *plan, FILE *out)
{
	if (!plan->skip_cnt)
		return;
	fprintf(out, "not probed:\n");
	for (size_t i = 0; i < plan->skip_cnt; i++)
		fprintf(out, "  %s: %s\n", plan->skipped[i].name,
			plan_refusal_text(plan->skipped[i].why));
	fprintf(out, "\n");
}

static void print_inlined(const struct plan *plan, FILE *out)
{
	if (!plan->inlined_cnt)
		return;
	fprintf(out, "only inlined into others, nothing to probe:\n");
	for (size_t i = 0; i < plan->inlined_cnt; i++)
		fprintf(out, "  %s\n", plan->inlined_only[i]);
	fprintf(out, "\n");
}

static void print_allocators(const struct plan *plan, FILE *out)
{
	if (!plan->allocator_cnt && !plan->memory_why)
		return;
	fprintf(out, "allocators, with --memory %s:\n",
		plan->memory == PLAN_MEMORY_STACKS ? "stacks" : "live");
	for (size_t i = 0; i < plan->allocator_cnt; i++) {
		const struct plan_allocator *a = &plan->allocators[i];
		const char *state = a->why ? "incomplete" : a->chosen ? "traced" : "not traced";

		fprintf(out, "  %s in %s, %s%s%s: %s\n", a->source, plan->objects[a->object].name,
			state, a->why ? ": " : "", a->why ? a->why : "", a->functions);
	}
	if (plan->memory_why)
		fprintf(out, "  none can be traced: %s\n", plan->memory_why);
	fprintf(out, "\n");
}

struct totals {
	size_t entries, exits, stepped_entries, stepped_exits, async;
};

static struct totals add_up(const struct plan *plan)
{
	struct totals t = { 0 };

	for (size_t i = 0; i < plan->site_cnt; i++) {
		const struct plan_site *s = &plan->sites[i];
		bool stepped = s->insn == RT_INSN_STEPPED;

		if (s->kind == RT_SITE_ENTRY) {
			t.entries++;
			t.stepped_entries += stepped;
		} else {
			t.exits++;
			t.stepped_exits += stepped;
		}
	}
	for (size_t i = 0; i < plan->fn_cnt; i++)
		t.async += plan->fns[i].kind == PLAN_ASYNC;
	return t;
}

static void print_totals(const struct plan *plan, FILE *out)
{
	struct totals t = add_up(plan);

	fprintf(out, "%zu functions (%zu async) of %zu symbols, %zu not probed", plan->fn_cnt,
		t.async, plan->symbol_cnt, plan->skip_cnt);
	if (plan->inlined_cnt)
		fprintf(out, ", %zu only inlined", plan->inlined_cnt);
	fprintf(out, "\n%zu entry probes (%zu single-stepped)", t.entries, t.stepped_entries);
	if (plan->exit == PLAN_EXIT_URETPROBE)
		fprintf(out, ", as many return probes");
	else
		fprintf(out, ", %zu exit probes (%zu single-stepped)", t.exits, t.stepped_exits);
	fprintf(out, ", %zu at a caught panic\n", plan->catch_cnt);
	if (plan->profile)
		fprintf(out, "profile: %s\n", plan->profile);
	fprintf(out, "build-id: %s\n", plan->build_id ? plan->build_id : "none");
	for (size_t i = 1; i < plan->object_cnt; i++)
		fprintf(out, "%s: build-id %s\n", plan->objects[i].name,
			plan->objects[i].build_id ? plan->objects[i].build_id : "none");
	for (size_t i = 0; i < plan->object_cnt; i++)
		if (plan->objects[i].debug_file)
			fprintf(out, "debug file of %s: %s\n", plan->objects[i].name,
				plan->objects[i].debug_file);
	for (size_t i = 0; i < plan->note_cnt; i++)
		fprintf(out, "%s\n", plan->notes[i]);
	if (plan->hint)
		fprintf(out, "%s\n", plan->hint);
}

void plan__print(const struct plan *plan, FILE *out)
{
	print_functions(plan, out);
	print_skipped(plan, out);
	print_inlined(plan, out);
	print_allocators(plan, out);
	print_totals(plan, out);
}

// SPDX-License-Identifier: BSD-2-Clause
/* Prints a plan. Names go last and uncut, so that the columns before them fit 80 characters. */
#include "plan/list.h"

#include <inttypes.h>
#include <string.h>

#include "base/plural.h"
#include "plan/plan.h"

struct list {
	const struct plan *plan;
	const struct rt_prices *prices;
	size_t site; /* the first one of the next function */
	FILE *out;
};

#define CELL 24

/* What the sites of one side of a function cost; a range when they differ. */
static void price(const struct list *l, const size_t sites[RT_INSN_CLASSES],
		  const rt_u64 ns[RT_INSN_CLASSES], char out[CELL])
{
	size_t fast = sites[RT_INSN_EMULATED], step = sites[RT_INSN_STEPPED];

	if (!fast && !step)
		strcpy(out, "-");
	else if (!l->prices)
		strcpy(out, fast && step ? "both" : fast ? "fast" : "step");
	else if (fast && step)
		snprintf(out, CELL, "%" PRIu64 "-%" PRIu64, ns[RT_INSN_EMULATED],
			 ns[RT_INSN_STEPPED]);
	else
		snprintf(out, CELL, "%" PRIu64, ns[fast ? RT_INSN_EMULATED : RT_INSN_STEPPED]);
}

/* Sites by side and class, of the function whose turn it is. */
static void count_sites(struct list *l, size_t fn, size_t sites[2][RT_INSN_CLASSES])
{
	const struct plan *plan = l->plan;

	for (; l->site < plan->site_cnt && plan->sites[l->site].fn == fn; l->site++) {
		const struct plan_site *s = &plan->sites[l->site];

		sites[s->kind != RT_SITE_ENTRY][s->insn]++;
	}
}

static void exit_price(const struct list *l, const size_t sites[RT_INSN_CLASSES], char out[CELL])
{
	static const rt_u64 none[RT_INSN_CLASSES];

	if (l->plan->exit != PLAN_EXIT_URETPROBE)
		price(l, sites, l->prices ? l->prices->exit_ns : none, out);
	else if (l->prices)
		snprintf(out, CELL, "%" PRIu64, l->prices->uret_ns);
	else
		strcpy(out, "return");
}

static void print_function(struct list *l, size_t i)
{
	static const rt_u64 none[RT_INSN_CLASSES];
	const struct plan_fn *fn = &l->plan->fns[i];
	size_t sites[2][RT_INSN_CLASSES] = {};
	char entry[CELL], exits[CELL];
	FILE *out = l->out;

	count_sites(l, i, sites);
	price(l, sites[0], l->prices ? l->prices->entry_ns : none, entry);
	exit_price(l, sites[1], exits);
	fprintf(out, "%-5s %5u  %-5s %5u  %-8s  %s\n", fn->kind == PLAN_ASYNC ? "async" : "fn",
		fn->entry_sites, entry, fn->exit_sites, exits, fn->name);
	if (fn->file)
		fprintf(out, "%36s%s:%u\n", "", fn->file, fn->line);
	for (size_t i = 0; i < fn->alias_cnt; i++)
		fprintf(out, "%36s= %s\n", "", fn->aliases[i]);
}

static void print_functions(const struct plan *plan, const struct rt_prices *prices, FILE *out)
{
	struct list l = { .plan = plan, .prices = prices, .out = out };

	if (!plan->fn_cnt)
		return;
	fprintf(out, "kind  entry  price exits  price     function\n");
	for (size_t i = 0; i < plan->fn_cnt; i++)
		print_function(&l, i);
	if (prices)
		fprintf(out, "\nprice: ns of CPU time that a hit costs the target here, measured "
			     "now.\n");
	else
		fprintf(out,
			"\nfast: emulated by the kernel, about 1 us a hit. step: single-stepped, "
			"dear.\nboth: some of each. (With root and --pid: in ns.)\n");
	fprintf(out, "async: the poll function of an async function; its calls are polls.\n\n");
}

/* Copies of one function stand one behind the other. */
static size_t copies_of(const struct plan *plan, size_t i)
{
	const struct plan_skip *s = plan->skipped;
	size_t cnt = 1;

	while (i + cnt < plan->skip_cnt && !strcmp(s[i + cnt].name, s[i].name) &&
	       s[i + cnt].why == s[i].why)
		cnt++;
	return cnt;
}

static void print_skipped(const struct plan *plan, FILE *out)
{
	if (!plan->skip_cnt)
		return;
	fprintf(out, "not probed:\n");
	for (size_t i = 0, cnt; i < plan->skip_cnt; i += cnt) {
		cnt = copies_of(plan, i);
		fprintf(out, "  %s", plan->skipped[i].name);
		if (cnt > 1)
			fprintf(out, " (x%zu)", cnt);
		fprintf(out, ": %s\n", plan_refusal_text(plan->skipped[i].why));
	}
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

void plan__print_allocators(const struct plan *plan, FILE *out)
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

	fprintf(out, "%zu function%s (%zu async) of %zu symbol%s, %zu not probed", plan->fn_cnt,
		plural__s(plan->fn_cnt), t.async, plan->symbol_cnt, plural__s(plan->symbol_cnt),
		plan->skip_cnt);
	if (plan->inlined_cnt)
		fprintf(out, ", %zu only inlined", plan->inlined_cnt);
	fprintf(out, "\n%zu entry probe%s (%zu single-stepped)", t.entries, plural__s(t.entries),
		t.stepped_entries);
	if (plan->exit == PLAN_EXIT_URETPROBE)
		fprintf(out, ", as many return probes");
	else
		fprintf(out, ", %zu exit probe%s (%zu single-stepped)", t.exits, plural__s(t.exits),
			t.stepped_exits);
	fprintf(out, ", %zu at a caught panic\n", plan->catch_cnt);
	if (plan->uret_why)
		fprintf(out, "return probes are refused here: %s\n", plan->uret_why);
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

void plan__print(const struct plan *plan, const struct rt_prices *prices, FILE *out)
{
	print_functions(plan, prices, out);
	print_skipped(plan, out);
	print_inlined(plan, out);
	plan__print_allocators(plan, out);
	print_totals(plan, out);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "latecomers.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attach/memory.h"
#include "attach/mmaps.h"
#include "attach/tracer.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "plan/plan.h"
#include "planning.h"
#include "target/process.h"

struct latecomers {
	const struct options *opts;
	const struct attach_mode *mode;
	struct target *target;
	struct plan *plan;
	struct tracer *tracer;
	struct mmaps *mmaps;
};

/* Into the file, and to the terminal. */
__attribute__((format(printf, 2, 3))) static void not_counted(struct plan *plan, const char *fmt,
							      ...)
{
	struct strbuf all = STRBUF_INIT;
	char *text;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0)
		text = NULL;
	va_end(ap);
	if (!text)
		return;
	log_warn("%s", text);
	strbuf__addf(&all, "%s%s%s", plan->late_why ?: "", plan->late_why ? "; " : "", text);
	free(text);
	free(plan->late_why);
	plan->late_why = strbuf__take(&all);
}

static bool layer_is_rust(const struct plan *plan)
{
	for (size_t i = 0; i < plan->allocator_cnt; i++)
		if (plan->allocators[i].totals && !plan->allocators[i].rust)
			return false;
	return true;
}

static void say(struct plan *plan, const struct plan_allocator *a, const char *path)
{
	if (a->chosen)
		log_info("'%s' is mapped now: its allocator (%s) is traced from here on", path,
			 a->source);
	else if (a->why)
		not_counted(plan, "the allocator (%s) of '%s', mapped later, is not traced: %s",
			    a->source, path, a->why);
	else if (!a->rust && layer_is_rust(plan))
		not_counted(plan,
			    "the allocator (%s) of '%s', mapped later, is not traced: it is below "
			    "Rust's (--allocator malloc)",
			    a->source, path);
	/* shims above malloc, with malloc traced: their blocks are counted */
}

/* chosen ones whose probes the kernel refused are none */
static void refuse(struct plan *plan, size_t first, int err)
{
	for (size_t i = first; i < plan->allocator_cnt; i++) {
		struct plan_allocator *a = &plan->allocators[i];

		if (!a->chosen)
			continue;
		a->chosen = a->totals = false;
		a->why = strdup(strerror(-err));
	}
}

static void adopt(struct latecomers *l, size_t object, struct plan *late)
{
	const struct target_object *o = &l->target->objects[object];
	size_t first = l->plan->allocator_cnt;
	int err = plan__adopt(l->plan, late, (uint32_t)object + 1);

	if (err) {
		not_counted(l->plan, "the allocator of '%s', mapped later, is not traced: %s",
			    o->path, err == -ENOSPC ? "there are too many" : strerror(-err));
		return;
	}
	if (l->plan->allocator_cnt == first)
		return;
	err = tracer__adopt(l->tracer, first, o);
	if (err)
		refuse(l->plan, first, err);
	for (size_t i = first; i < l->plan->allocator_cnt; i++)
		say(l->plan, &l->plan->allocators[i], o->path);
}

static void look(struct latecomers *l)
{
	size_t first;

	if (target__open_new_objects(l->target, &first))
		return;
	for (size_t i = first; i < l->target->object_cnt; i++) {
		struct plan *late;

		if (planning__library(l->opts, l->mode, l->target, i, &late))
			continue; /* not ELF, or nothing to be read: it can hold no allocator */
		adopt(l, i, late);
		plan__free(late);
	}
}

void latecomers__look(struct latecomers *l)
{
	/* what was let go for its price is not taken up again */
	if (mmaps__changed(l->mmaps) && !memory__is_shed(tracer__memory(l->tracer)))
		look(l);
}

struct latecomers *latecomers__new(const struct options *o, const struct attach_mode *mode,
				   struct target *target, struct plan *plan, struct tracer *tracer)
{
	struct latecomers *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	*l = (struct latecomers){ o, mode, target, plan, tracer, mmaps__new(target->pid) };
	if (!l->mmaps) {
		free(l);
		return NULL;
	}
	/* what was mapped between the plan and now */
	look(l);
	return l;
}

void latecomers__free(struct latecomers *l)
{
	if (!l)
		return;
	mmaps__free(l->mmaps);
	free(l);
}

int latecomers__fd(const struct latecomers *l)
{
	return l ? mmaps__fd(l->mmaps) : -1;
}

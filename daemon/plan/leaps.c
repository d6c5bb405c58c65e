/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/leaps.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/rows.h"
#include "symbols/dynamic.h"
#include "symbols/image.h"

struct leap {
	const char *name, *what;
	unsigned int kind;
};

static const struct leap *find_leap(const char *name)
{
	static const struct leap leaps[] = {
		{ "__cxa_begin_catch", "it catches exceptions", 0 },
		{ "__cxa_throw", "it throws exceptions", 0 },
		{ "_Unwind_RaiseException", "it unwinds", LEAP_PANIC },
		{ "_Unwind_ForcedUnwind", "it unwinds", LEAP_PANIC },
		{ "swapcontext", "it switches stacks", LEAP_SWITCH },
		{ "setcontext", "it switches stacks", LEAP_SWITCH },
		{ "makecontext", "it switches stacks", LEAP_SWITCH },
		{ "jump_fcontext", "it switches stacks", LEAP_SWITCH },
		{ "make_fcontext", "it switches stacks", LEAP_SWITCH },
		{ "coro_transfer", "it switches stacks", LEAP_SWITCH },
		/* they unwind the stack, up to the first return probe: what is to be cleaned up
		 * above it would be left undone */
		{ "pthread_exit", "it ends threads from within", 0 },
		{ "pthread_cancel", "it cancels threads", 0 },
	};

	for (size_t i = 0; i < sizeof(leaps) / sizeof(leaps[0]); i++)
		if (!strcmp(name, leaps[i].name))
			return &leaps[i];
	return NULL;
}

static const char *what_it_is(const char *name)
{
	const struct leap *l = find_leap(name);

	return l ? l->what : NULL;
}

struct found {
	const char *what;
	char *name;
};

static int match_import(void *arg, const char *name, const char *provider, const char *needed)
{
	struct found *f = arg;

	f->what = what_it_is(name);
	f->name = f->what ? strdup(name) : NULL;
	return f->what ? (f->name ? 1 : -ENOMEM) : 0;
}

/* Linked in: a libc brings all of its own along, used or not, and so does what unwinds. */
static int find_linked(const struct image *img, struct found *f)
{
	size_t cnt;
	const struct symbol *syms = image__symbols(img, &cnt);

	for (size_t i = 0; i < cnt; i++) {
		const char *name = image__str(img, syms[i].name);
		const char *what = syms[i].type == SYMBOL_FUNC ? what_it_is(name) : NULL;

		if (!what || strcmp(what, "it switches stacks") != 0)
			continue;
		f->what = what;
		f->name = strdup(name);
		return f->name ? 1 : -ENOMEM;
	}
	return 0;
}

static __attribute__((format(printf, 2, 3))) int say(char **why, const char *fmt, ...)
{
	va_list ap;
	int len;

	va_start(ap, fmt);
	len = vasprintf(why, fmt, ap);
	va_end(ap);
	if (len >= 0)
		return 0;
	*why = NULL;
	return -ENOMEM;
}

int leaps__find(int fd, const struct build *b, char **why)
{
	bool executable = b->objects.cnt == 1;
	struct found f = {};
	size_t catches = 0;
	int err;

	/* a jump is none: return probes survive it */
	for (size_t i = 0; i < b->catches.cnt; i++)
		catches += b->catches.data[i].object == b->objects.cnt - 1 &&
			   b->catches.data[i].kind == RT_SITE_CATCH;
	if (catches)
		return say(why, "it catches panics or exceptions (%zu place%s)", catches,
			   catches == 1 ? "" : "s");
	err = dynamic__imports(fd, match_import, &f);
	if (!err && executable)
		err = find_linked(b->img, &f);
	if (err > 0)
		err = say(why, "%s (%s)", f.what, f.name);
	free(f.name);
	return err;
}

/* ---- what leaves calls behind ---- */

unsigned int leaps__kind(const char *symbol)
{
	const struct leap *l = find_leap(symbol);
	unsigned int way = dynamic__way(symbol);

	if (way)
		return way == DYNAMIC_JUMPS ? LEAP_JUMP : LEAP_EXCEPTION;
	return l ? l->kind : 0;
}

static int add_kind(void *arg, const char *name, const char *provider, const char *needed)
{
	unsigned int *kinds = arg;

	*kinds |= leaps__kind(name);
	return 0;
}

unsigned int leaps__kinds(int fd, const struct build *b)
{
	unsigned int kinds = 0;
	size_t cnt;
	const struct symbol *syms = image__symbols(b->img, &cnt);

	(void)dynamic__imports(fd, add_kind, &kinds);
	for (size_t i = 0; i < cnt && b->objects.cnt == 1; i++)
		if (syms[i].type == SYMBOL_FUNC &&
		    leaps__kind(image__str(b->img, syms[i].name)) == LEAP_SWITCH)
			kinds |= LEAP_SWITCH;
	return kinds;
}

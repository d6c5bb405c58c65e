/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

static enum log_level max_level = LOG_INFO;
static char scope[16];
static void (*before_line)(void *arg);
static void *before_arg;

void log__set_level(enum log_level level)
{
	max_level = level;
}

void log__set_scope(int pid)
{
	snprintf(scope, sizeof(scope), "[%d]", pid);
}

void log__set_before(void (*before)(void *arg), void *arg)
{
	before_line = before;
	before_arg = arg;
}

void log__write(enum log_level level, const char *fmt, ...)
{
	static const char *const tags[] = { "error: ", "warning: ", "", "debug: " };
	char line[1024];
	va_list ap;

	if (level > max_level)
		return;
	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	if (before_line)
		before_line(before_arg);
	fprintf(stderr, "roletrace%s: %s%s\n", scope, tags[level], line);
}

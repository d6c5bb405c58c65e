/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/fail.h"

#include <stdarg.h>
#include <stdio.h>

int fail(char **reason, int err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(reason, fmt, ap) < 0)
		*reason = NULL;
	va_end(ap);
	return err;
}

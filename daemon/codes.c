/* SPDX-License-Identifier: BSD-2-Clause */
#include "codes.h"

#include <errno.h>
#include <stdlib.h>

#include "base/log.h"
#include "options.h"

int code__of(int err)
{
	switch (err) {
	case -ESRCH:
		return CODE_NO_PROCESS;
	case -EPERM:
	case -EACCES:
		return CODE_NOT_ALLOWED;
	default:
		return CODE_FAILED;
	}
}

int code__say(int code, char *reason, const char *fallback)
{
	log_error("%s", reason ? reason : fallback);
	free(reason);
	return code;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "machine.h"

#include "attach/features.h"
#include "base/log.h"
#include "options.h"

int machine__probe(const struct options *o, bool thorough, struct features *out)
{
	unsigned int without;
	char bad[32];

	if (!features__parse(o->without ?: "", &without, bad)) {
		log_error("--without: no feature is called '%s'", bad);
		return CODE_USAGE;
	}
	features__probe(without, thorough, out);
	return CODE_OK;
}

bool machine__say_missing(const struct features *f)
{
	const struct feature *missing = features__missing(f);

	if (missing)
		log_error("this machine or these rights do not allow tracing: %s: %s",
			  missing->name, missing->detail);
	return missing != NULL;
}

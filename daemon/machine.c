/* SPDX-License-Identifier: BSD-2-Clause */
#include "machine.h"

#include "base/log.h"
#include "codes.h"
#include "options.h"

int machine__probe(const struct options *o, bool thorough, struct machine *out)
{
	unsigned int without;
	char bad[32];

	*out = (struct machine){};
	if (!features__parse(o->without ?: "", &without, bad)) {
		log_error("--without: no feature is called '%s'", bad);
		return CODE_USAGE;
	}
	features__probe(without, thorough, &out->features);
	if (!features__missing(&out->features))
		out->mode = features__mode(&out->features);
	return CODE_OK;
}

int machine__check(const struct machine *m)
{
	const struct feature *missing = features__missing(&m->features);

	if (!missing)
		return CODE_OK;
	log_error("this machine or these rights do not allow tracing: %s: %s", missing->name,
		  missing->detail);
	return CODE_NOT_ALLOWED;
}

void machine__say_mode(const struct machine *m)
{
	if (m->mode.any_process)
		log_warn("this kernel limits uprobe links to a thread: other processes of this "
			 "executable run over the probes too (uncounted)");
	if (m->mode.stacks_by_tid)
		log_debug("attach: shadow stacks by thread id");
	if (m->mode.single_probes)
		log_debug("attach: single probes");
}

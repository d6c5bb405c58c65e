/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How things are done on kernels that lack the better way; all false where nothing is lacking.
 * Decided once by features, handed to all of attach/.
 */
#ifndef ATTACH_MODE_H
#define ATTACH_MODE_H

#include <stdbool.h>

struct attach_mode {
	bool single_probes; /* no uprobe_multi: one perf event a site, and few of them */
	bool any_process;   /* links would be limited to a thread: to nothing, the programs look */
	bool no_map_events; /* changes of memory maps are not seen */
	bool stacks_by_tid; /* no task storage: shadow stacks in a hash */
};

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Plans in a process of its own that holds no rights: the file belongs to whoever runs the target,
 * and reading it is the largest thing done with foreign bytes. A crash there is a refusal here, a
 * file that would take for ever or all memory is given up.
 */
#ifndef PLAN_ISOLATE_H
#define PLAN_ISOLATE_H

#include "plan/plan.h"

/*
 * As plan__new, of several files and with their debug files, which are looked for and opened here;
 * also -EINVAL when a --debug-file is not the executable's, -ENOEXEC when the parsing process died,
 * -ETIMEDOUT after a minute.
 */
int plan__new_isolated(const struct plan_input *in, const struct plan_request *req,
		       struct plan **out, char **reason);

#endif

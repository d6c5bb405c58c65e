/* SPDX-License-Identifier: BSD-2-Clause */
/* The part of plan__new that reads the files: they are chosen and open, the profile is loaded (or
 * NULL), no other file is opened. */
#ifndef PLAN_BUILD_H
#define PLAN_BUILD_H

#include "plan/plan.h"

struct profile;
struct sources;

int plan__build(const struct sources *sources, const struct plan_request *req,
		const struct profile *profile, struct plan **out, char **reason);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Native stacks as witnesses of which calls go on: settles what shadow stacks and memory alone
 * leave in doubt. Looking makes tables once, which takes its time: for when it matters.
 */
#ifndef COLLECT_WITNESS_H
#define COLLECT_WITNESS_H

#include "collect/settle.h"
#include "collect/waiting.h"

/*
 * Looks at the threads of the settler's last pass and notes what that proves, while the gate is
 * open: an end that is seen must be one that would have been counted. How many frames are left
 * undecided because their threads ran; or -errno.
 */
int witness__look(struct settler *s, struct waiting *w);
/* The same of w's last look. */
int witness__recall(struct settler *s, const struct waiting *w);
/* At last: some times, as long as that helps, but not for long. What it cannot tell is in doubt. */
void witness__look_patiently(struct settler *s, struct waiting *w);

/* Behind one of these: whose frames were found. The settler's next pass counts by it. 0 or -ENOMEM.
 */
int witness__name(struct settler *s, struct waiting *w, const struct plan *plan);

#endif

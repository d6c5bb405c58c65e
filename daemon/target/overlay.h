/* SPDX-License-Identifier: BSD-2-Clause */
/* The file that is mapped, where an overlay's copy-up hides it. */
#ifndef TARGET_OVERLAY_H
#define TARGET_OVERLAY_H

#include "target/process.h"

/*
 * Looks for the file in a lower layer that is what these mappings (of fd, called path by the
 * target) show. 0 with it open in *lower and its path in *where (malloc'd, for messages; NULL when
 * memory is out); -ENOENT: no overlay, or no such file.
 */
int overlay__find_lower(const struct target *t, int fd, const char *path,
			const struct target_map *maps, size_t map_cnt, int *lower, char **where);

#endif

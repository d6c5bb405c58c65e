/* SPDX-License-Identifier: BSD-2-Clause */
/* From here on a file of the target is the one in its overlay's lower layer. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "target/overlay.h"
#include "target/process.h"

static int maps_of(const struct target *t, size_t file, struct target_map **maps, size_t *cnt)
{
	return file ? target__object_maps(t, &t->objects[file - 1], maps, cnt)
		    : target__exe_maps(t, maps, cnt);
}

int target__go_below(struct target *t, size_t file)
{
	struct target_object *o = file ? &t->objects[file - 1] : NULL;
	char **open_path = o ? &o->open_path : &t->exe_path, *path = o ? o->path : t->exe;
	int *fd = o ? &o->fd : &t->exe_fd, lower;
	struct target_map *maps = NULL;
	char *where = NULL, *by_fd;
	size_t cnt = 0;
	int err = maps_of(t, file, &maps, &cnt);

	if (!err)
		err = overlay__find_lower(t, *fd, path, maps, cnt, &lower, &where);
	free(maps);
	if (err)
		return err;
	if (asprintf(&by_fd, "/proc/self/fd/%d", lower) < 0) {
		close(lower);
		free(where);
		return -ENOMEM;
	}
	log_info("'%s' was copied up by its overlay file system while it ran: what runs is '%s'",
		 path, where ? where : "the file below");
	free(where);
	close(*fd);
	*fd = lower;
	free(*open_path);
	*open_path = by_fd;
	return 0;
}

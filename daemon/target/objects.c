/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The shared libraries of a process. A library is held open from here on: what is probed is the
 * very file that is mapped, also when its path leads elsewhere by now (an upgrade, another mount
 * namespace).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/strbuf.h"
#include "base/vec.h"
#include "target/maps.h"

#define MAX_OBJECTS 1024

struct objects {
	struct target_object *data;
	size_t cnt, cap;
};

static bool is_known(const struct target *t, const struct objects *all, dev_t dev, ino_t ino)
{
	if (ino == t->exe_ino && dev == t->exe_dev)
		return true;
	for (size_t i = 0; i < all->cnt; i++)
		if (all->data[i].ino == ino && all->data[i].dev == dev)
			return true;
	return false;
}

/* By its mapping, which needs more rights than its path inside the target's root. */
int target__open_mapped(const struct target *t, const char *span, const char *path, ino_t ino)
{
	struct strbuf sb = STRBUF_INIT;
	struct stat st;
	int fd;

	strbuf__addf(&sb, "/proc/%d/map_files/%s", t->pid, span);
	fd = open(sb.s, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0) {
		strbuf__reset(&sb);
		strbuf__addf(&sb, "/proc/%d/task/%d/root%s", t->pid, t->proc_tid, path);
		fd = open(sb.s, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
		if (fd >= 0 && (fstat(fd, &st) || st.st_ino != ino)) {
			close(fd);
			fd = -1;
		}
	}
	strbuf__free(&sb);
	if (fd >= 0 && (fstat(fd, &st) || !S_ISREG(st.st_mode))) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* On some overlays a file that was opened by name is another one by what maps says of it. */
static bool is_open(const struct objects *all, int fd)
{
	struct stat st, other;

	if (fstat(fd, &st))
		return false;
	for (size_t i = 0; i < all->cnt; i++)
		if (!fstat(all->data[i].fd, &other) && other.st_ino == st.st_ino &&
		    other.st_dev == st.st_dev)
			return true;
	return false;
}

static int add(const struct target *t, struct objects *all, const char *line)
{
	struct target_object *o;
	struct map_line l;
	char span[64];
	int fd;

	if (!map_line__parse(line, &l) || !l.executable || !l.ino || l.path[0] != '/' ||
	    is_known(t, all, l.dev, l.ino) || all->cnt >= MAX_OBJECTS)
		return 0;
	snprintf(span, sizeof(span), "%llx-%llx", (unsigned long long)l.map.start,
		 (unsigned long long)l.map.end);
	fd = target__open_mapped(t, span, l.path, l.ino);
	if (fd < 0)
		return 0; /* unmapped by now, or no file */
	if (is_open(all, fd)) {
		close(fd);
		return 0;
	}
	o = vec__push(all);
	if (!o) {
		close(fd);
		return -ENOMEM;
	}
	o->fd = fd;
	o->dev = l.dev;
	o->ino = l.ino;
	o->path = strdup(l.path);
	if (!o->path || asprintf(&o->open_path, "/proc/self/fd/%d", fd) < 0) {
		o->open_path = NULL;
		return -ENOMEM;
	}
	return 0;
}

static int add_all(const struct target *t, struct objects *all)
{
	struct strbuf sb = STRBUF_INIT;
	int err = map_lines__read(t, &sb);
	char *line, *save;

	for (line = strtok_r(sb.s, "\n", &save); !err && line; line = strtok_r(NULL, "\n", &save))
		err = add(t, all, line);
	strbuf__free(&sb);
	return err;
}

int target__open_objects(struct target *t)
{
	struct objects all = {};
	int err = add_all(t, &all);

	target__close_objects(t);
	t->objects = all.data;
	t->object_cnt = all.cnt;
	return err;
}

int target__open_new_objects(struct target *t, size_t *first)
{
	struct objects all = { .data = t->objects, .cnt = t->object_cnt, .cap = t->object_cnt };
	int err;

	*first = t->object_cnt;
	err = add_all(t, &all);
	t->objects = all.data;
	t->object_cnt = all.cnt;
	return err;
}

void target__close_objects(struct target *t)
{
	for (size_t i = 0; i < t->object_cnt; i++) {
		close(t->objects[i].fd);
		free(t->objects[i].path);
		free(t->objects[i].open_path);
	}
	free(t->objects);
	t->objects = NULL;
	t->object_cnt = 0;
}

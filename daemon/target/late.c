/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Libraries that the process has not mapped yet (a plugin, dlopen). A probe is on the file, not on
 * memory: the kernel writes the breakpoints whenever the process maps it, before any of its code
 * can run. So all it takes is to know the file: it is looked for where the loader would find it,
 * beside the executable and the libraries that are mapped, and in the system's folders. Nothing is
 * read of LD_LIBRARY_PATH: the environment is the target's own; a path names any file.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/strbuf.h"
#include "base/vec.h"
#include "target/process.h"

static const char *const system_folders[] = {
	"/lib/x86_64-linux-gnu",
	"/usr/lib/x86_64-linux-gnu",
	"/lib64",
	"/usr/lib64",
	"/lib",
	"/usr/lib",
	"/usr/local/lib",
};

/* The file of that path inside the target's root; -1: none. */
static int open_inside(const struct target *t, const char *path)
{
	struct strbuf sb = STRBUF_INIT;
	struct stat st;
	int fd;

	strbuf__addf(&sb, "/proc/%d/task/%d/root%s", t->pid, t->proc_tid, path);
	fd = open(sb.s, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	strbuf__free(&sb);
	if (fd >= 0 && (fstat(fd, &st) || !S_ISREG(st.st_mode))) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* In the folder of a file; *path is where (malloc'd). */
static int open_beside(const struct target *t, const char *file, const char *name, char **path)
{
	const char *slash = strrchr(file, '/');
	int fd;

	if (!slash || asprintf(path, "%.*s/%s", (int)(slash - file), file, name) < 0)
		return -1;
	fd = open_inside(t, *path);
	if (fd < 0)
		free(*path);
	return fd;
}

static int open_named(const struct target *t, const char *lib, char **path)
{
	int fd;

	if (lib[0] == '/') {
		fd = open_inside(t, lib);
		return fd < 0 || (*path = strdup(lib)) ? fd : -1;
	}
	fd = open_beside(t, t->exe, lib, path);
	for (size_t i = 0; i < t->object_cnt && fd < 0; i++)
		fd = open_beside(t, t->objects[i].path, lib, path);
	for (size_t i = 0; i < sizeof(system_folders) / sizeof(system_folders[0]) && fd < 0; i++) {
		char folder[64];

		snprintf(folder, sizeof(folder), "%s/", system_folders[i]);
		fd = open_beside(t, folder, lib, path);
	}
	return fd;
}

/* As maps will show it: on some overlays not what fstat says (as with the executable). */
static void identify(const struct target *t, int fd, struct target_object *o)
{
	struct stat st = {}, exe = {};

	fstat(fd, &st);
	fstat(t->exe_fd, &exe);
	o->dev = st.st_dev == exe.st_dev ? t->exe_dev : st.st_dev;
	o->ino = st.st_ino;
}

/* A mapped file is called so, and may have been deleted since. */
static bool is_mapped_name(const struct target *t, const char *lib)
{
	size_t len = strlen(lib);

	for (size_t i = 0; i < t->object_cnt; i++) {
		const char *path = t->objects[i].path, *slash = strrchr(path, '/');
		const char *name = lib[0] == '/' || !slash ? path : slash + 1;

		if (!strncmp(name, lib, len) && (!name[len] || !strcmp(name + len, " (deleted)")))
			return true;
	}
	return false;
}

static bool is_known(const struct target *t, const struct target_object *o)
{
	if (o->ino == t->exe_ino && o->dev == t->exe_dev)
		return true;
	for (size_t i = 0; i < t->object_cnt; i++)
		if (t->objects[i].ino == o->ino && t->objects[i].dev == o->dev)
			return true;
	return false;
}

int target__add_late(struct target *t, const char *lib)
{
	struct target_object *grown, o = { .late = true };

	if (strpbrk(lib, "*?") || (lib[0] != '/' && strchr(lib, '/')) || is_mapped_name(t, lib))
		return 0;
	o.fd = open_named(t, lib, &o.path);
	if (o.fd < 0)
		return 0;
	identify(t, o.fd, &o);
	grown = is_known(t, &o) ? NULL
				: reallocarray(t->objects, t->object_cnt + 1, sizeof(*t->objects));
	if (!grown) {
		close(o.fd);
		free(o.path);
		return 0;
	}
	t->objects = grown;
	if (asprintf(&o.open_path, "/proc/self/fd/%d", o.fd) < 0)
		o.open_path = NULL;
	t->objects[t->object_cnt++] = o;
	return o.open_path ? 0 : -ENOMEM;
}

bool target__look_for_late(struct target *t)
{
	bool waiting = false;

	for (size_t i = 0; i < t->object_cnt; i++) {
		struct target_object *o = &t->objects[i];
		struct target_map *maps = NULL;
		size_t cnt = 0;

		if (o->late && !target__object_maps(t, o, &maps, &cnt) && cnt) {
			o->late = false;
			log_info("'%s' is mapped now", o->path);
		}
		free(maps);
		waiting |= o->late;
	}
	return waiting;
}

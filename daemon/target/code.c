// SPDX-License-Identifier: BSD-2-Clause
#include "target/code.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/strbuf.h"
#include "base/vec.h"
#include "target/maps.h"

#define MAX_VDSO_BYTES (1u << 20)

struct maps {
	struct code_map *data;
	size_t cnt, cap;
};

/* Our own copy of the vdso, which is in no file. */
static int copy_vdso(const struct target *t, const struct map_line *l)
{
	size_t len = l->map.end - l->map.start;
	int mem = target__open_mem(t), fd = -1;
	char *buf = len <= MAX_VDSO_BYTES ? malloc(len) : NULL;

	if (mem >= 0 && buf && pread(mem, buf, len, (off_t)l->map.start) == (ssize_t)len)
		fd = memfd_create("vdso", MFD_CLOEXEC);
	if (fd >= 0 && fs__write_all(fd, buf, len)) {
		close(fd);
		fd = -1;
	}
	free(buf);
	if (mem >= 0)
		close(mem);
	return fd;
}

static int open_file(const struct target *t, const struct map_line *l)
{
	char span[64];

	if (!strcmp(l->path, "[vdso]"))
		return copy_vdso(t, l);
	snprintf(span, sizeof(span), "%llx-%llx", (unsigned long long)l->map.start,
		 (unsigned long long)l->map.end);
	return target__open_mapped(t, span, l->path, l->ino);
}

/* The number of a mapping's file; opened at the first sight. */
static uint32_t file_of(struct code *c, const struct target *t, const struct map_line *l)
{
	struct code_file *files, *f;
	int fd;

	if (strcmp(l->path, "[vdso]") && (!l->ino || l->path[0] != '/'))
		return CODE_NO_FILE;
	for (size_t i = 0; i < c->file_cnt; i++)
		if (c->files[i].ino == l->ino && c->files[i].dev == l->dev)
			return (uint32_t)i + 1;
	fd = c->file_cnt < CODE_MAX_FILES ? open_file(t, l) : -1;
	if (fd < 0)
		return CODE_NO_FILE;
	files = realloc(c->files, (c->file_cnt + 1) * sizeof(*files));
	if (files)
		c->files = files;
	f = files ? &files[c->file_cnt] : NULL;
	if (!f || !(f->path = strdup(l->path))) {
		close(fd);
		return CODE_NO_FILE;
	}
	f->fd = fd;
	f->dev = l->dev;
	f->ino = l->ino;
	return (uint32_t)++c->file_cnt;
}

/* Neighbours of no file are one: a JIT may have thousands. */
static int add(struct maps *maps, const struct code_map *m)
{
	struct code_map *last = maps->cnt ? &maps->data[maps->cnt - 1] : NULL;

	if (last && !last->file && !m->file && last->end == m->start) {
		last->end = m->end;
		return 0;
	}
	last = vec__push(maps);
	if (!last)
		return -ENOMEM;
	*last = *m;
	return 0;
}

static bool same(const struct code *c, const struct maps *maps)
{
	if (c->map_cnt != maps->cnt)
		return false;
	for (size_t i = 0; i < maps->cnt; i++) {
		const struct code_map *a = &c->maps[i], *b = &maps->data[i];

		if (a->start != b->start || a->end != b->end || a->offset != b->offset ||
		    a->file != b->file)
			return false;
	}
	return true;
}

int code__look(struct code *c, const struct target *t)
{
	struct strbuf sb = STRBUF_INIT;
	struct maps maps = {};
	struct map_line l;
	char *text, *save;
	int err = map_lines__read(t, &sb);

	for (text = strtok_r(sb.s, "\n", &save); !err && text; text = strtok_r(NULL, "\n", &save)) {
		if (map_line__parse(text, &l) && l.executable)
			err = add(&maps, &(struct code_map){ l.map.start, l.map.end, l.map.offset,
							     file_of(c, t, &l) });
	}
	strbuf__free(&sb);
	if (err || same(c, &maps)) {
		vec__free(&maps);
		return err;
	}
	free(c->maps);
	c->maps = maps.data;
	c->map_cnt = maps.cnt;
	return 1;
}

void code__free(struct code *c)
{
	for (size_t i = 0; i < c->file_cnt; i++) {
		close(c->files[i].fd);
		free(c->files[i].path);
	}
	free(c->files);
	free(c->maps);
	memset(c, 0, sizeof(*c));
}

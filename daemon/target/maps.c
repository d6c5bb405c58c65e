/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/maps.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "base/fs.h"
#include "base/strbuf.h"
#include "base/vec.h"
#include "target/process.h"

bool map_line__parse(const char *line, struct map_line *out)
{
	unsigned long long start, end, offset, ino;
	unsigned int dev_major, dev_minor;
	int path_at = 0;
	char perms[5];

	if (sscanf(line, "%llx-%llx %4s %llx %x:%x %llu %n", &start, &end, perms, &offset,
		   &dev_major, &dev_minor, &ino, &path_at) != 7)
		return false;
	*out = (struct map_line){
		.map = { .start = start, .end = end, .offset = offset },
		.executable = perms[2] == 'x',
		.dev = makedev(dev_major, dev_minor),
		.ino = ino,
		.path = path_at ? line + path_at : "",
	};
	return true;
}

int map_lines__read(const struct target *t, struct strbuf *text)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/maps", t->pid, t->proc_tid);
	return fs__read(path, text);
}

/* Executable mappings: of one file, or with ino 0 all. */
static int read_maps(const struct target *t, dev_t dev, ino_t file, struct target_map **maps,
		     size_t *cnt)
{
	VEC(struct target_map) found = {};
	struct strbuf sb = STRBUF_INIT;
	int err = map_lines__read(t, &sb);
	char *line, *save;

	for (line = strtok_r(sb.s, "\n", &save); !err && line; line = strtok_r(NULL, "\n", &save)) {
		struct map_line l;
		struct target_map *m;

		if (!map_line__parse(line, &l) || !l.executable ||
		    (file && (l.ino != file || l.dev != dev)))
			continue;
		m = vec__push(&found);
		if (!m)
			err = -ENOMEM;
		else
			*m = l.map;
	}
	strbuf__free(&sb);
	if (err) {
		vec__free(&found);
		return err;
	}
	*maps = found.data;
	*cnt = found.cnt;
	return 0;
}

int target__exe_maps(const struct target *t, struct target_map **maps, size_t *cnt)
{
	return read_maps(t, t->exe_dev, t->exe_ino, maps, cnt);
}

int target__object_maps(const struct target *t, const struct target_object *o,
			struct target_map **maps, size_t *cnt)
{
	return read_maps(t, o->dev, o->ino, maps, cnt);
}

int target__code_maps(const struct target *t, struct target_map **maps, size_t *cnt)
{
	return read_maps(t, 0, 0, maps, cnt);
}

bool target__is_code(const struct target_map *maps, size_t cnt, uint64_t address)
{
	for (size_t i = 0; i < cnt; i++)
		if (address >= maps[i].start && address < maps[i].end)
			return true;
	return false;
}

uint64_t target__address(const struct target_map *maps, size_t cnt, uint64_t offset)
{
	for (size_t i = 0; i < cnt; i++)
		if (offset >= maps[i].offset &&
		    offset - maps[i].offset < maps[i].end - maps[i].start)
			return maps[i].start + (offset - maps[i].offset);
	return 0;
}

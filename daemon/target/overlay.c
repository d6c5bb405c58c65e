/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A file of an overlay file system that was copied up while a process runs it: the process maps the
 * lower layer's inode for ever, every path (/proc/PID/exe and map_files too) leads to the upper
 * one, and probes there never fire. The lower file is still there under its own path. That path is
 * looked for in what the kernel tells of the mount: lowerdir=A:B:..., and where in it the file is.
 *
 * The layers' paths were written by whoever mounted the overlay, in that one's mount namespace
 * (the container engine's, mostly ours). Ours is tried first, then that of process 1, then the
 * target's own. Relative ones are under a folder that nobody tells: under one of those above the
 * upper layer. A file that is found counts only when it holds the very code that is mapped; that
 * the breakpoints arrive in memory is checked afterwards, as always.
 */
#include "target/overlay.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/strbuf.h"
#include "target/maps.h"

#define DELETED " (deleted)"
#define COMPARED_BYTES (64u << 10)
#define BREAKPOINT 0xcc

/* What is searched for. */
struct search {
	const struct target *target;
	const struct target_map *maps;
	size_t map_cnt;
	char *path;    /* inside the overlay, with a leading slash */
	char *options; /* of the mount */
	int fd;	       /* found; -1 */
	struct strbuf found;
};

/* \040 and the like, as mountinfo writes blanks. */
static void unescape(char *s)
{
	char *to = s;

	for (; *s; s++) {
		unsigned int c;

		if (*s == '\\' && sscanf(s + 1, "%3o", &c) == 1 && s[1] >= '0' && s[1] <= '3') {
			*to++ = (char)c;
			s += 3;
		} else {
			*to++ = *s;
		}
	}
	*to = '\0';
}

/* Whether path is mount or lies below it; the rest, with its slash. */
static const char *below(const char *path, const char *mount)
{
	size_t len = strcmp(mount, "/") ? strlen(mount) : 0;

	return !strncmp(path, mount, len) && path[len] == '/' ? path + len : NULL;
}

/* A line of mountinfo: "36 35 98:0 /root /mount rw master:1 - overlay src options". */
static void take_mount(struct search *s, char *line, uint64_t id, const char *path)
{
	char root[4096], mount[4096], *tail = strstr(line, " - overlay ");
	unsigned long long line_id;
	const char *rest;

	if (!tail || sscanf(line, "%llu %*d %*s %4095s %4095s", &line_id, root, mount) != 3 ||
	    line_id != id)
		return;
	unescape(root);
	unescape(mount);
	rest = below(path, mount);
	if (!rest)
		return;
	s->options = strdup(strrchr(tail, ' ') + 1);
	if (s->options)
		unescape(s->options);
	if (asprintf(&s->path, "%s%s", strcmp(root, "/") ? root : "", rest) < 0)
		s->path = NULL;
}

/* By the number of the mount: the device that fstat tells is not the overlay's everywhere. */
static int find_mount(struct search *s, const char *path, int fd)
{
	const struct target *t = s->target;
	struct strbuf sb = STRBUF_INIT;
	char name[64], *line, *save, *whole;
	size_t len = strlen(path), tail = strlen(DELETED);
	struct statx st;
	int err;

	if (statx(fd, "", AT_EMPTY_PATH, STATX_MNT_ID, &st))
		return -errno;
	if (len > tail && !strcmp(path + len - tail, DELETED))
		len -= tail;
	whole = strndup(path, len);
	if (!whole)
		return -ENOMEM;
	snprintf(name, sizeof(name), "/proc/%d/task/%d/mountinfo", t->pid, t->proc_tid);
	err = fs__read(name, &sb);
	for (line = strtok_r(sb.s, "\n", &save); !err && !s->options && line;
	     line = strtok_r(NULL, "\n", &save))
		take_mount(s, line, st.stx_mnt_id, whole);
	strbuf__free(&sb);
	free(whole);
	return err ?: s->path && s->options ? 0 : -ENOENT;
}

/* Another's breakpoint in memory is no difference. */
static bool same_code(const unsigned char *memory, const unsigned char *file, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (memory[i] != file[i] && memory[i] != BREAKPOINT)
			return false;
	return true;
}

static bool holds_what_is_mapped(const struct search *s, int fd)
{
	unsigned char *a = malloc(COMPARED_BYTES), *b = malloc(COMPARED_BYTES);
	int mem = target__open_mem(s->target);
	bool same = a && b && mem >= 0 && s->map_cnt;

	for (size_t i = 0; i < s->map_cnt && same; i++) {
		const struct target_map *m = &s->maps[i];
		size_t len =
			m->end - m->start < COMPARED_BYTES ? m->end - m->start : COMPARED_BYTES;
		ssize_t n = pread(fd, b, len, (off_t)m->offset);

		same = n > 0 && pread(mem, a, (size_t)n, (off_t)m->start) == n &&
		       same_code(a, b, (size_t)n);
	}
	if (mem >= 0)
		close(mem);
	free(a);
	free(b);
	return same;
}

static bool try_path(struct search *s, const char *root, const char *folder, const char *layer)
{
	struct stat st;
	int fd;

	strbuf__reset(&s->found);
	strbuf__addf(&s->found, "%s%s%s%s", root, folder, layer, s->path);
	fd = open(s->found.s, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return false;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode) && holds_what_is_mapped(s, fd)) {
		s->fd = fd;
		return true;
	}
	close(fd);
	return false;
}

/* A relative layer: under each folder above the upper layer. */
static bool try_above(struct search *s, const char *root, const char *layer)
{
	char *start = strstr(s->options, "upperdir=/"), *folder, *slash;
	bool found = false;

	if (!start)
		return false;
	start += strlen("upperdir=");
	folder = strndup(start, strcspn(start, ","));
	while (folder && !found && (slash = strrchr(folder, '/'))) {
		slash[1] = '\0';
		found = try_path(s, root, folder, layer);
		*slash = '\0';
	}
	free(folder);
	return found;
}

static bool try_layer(struct search *s, const char *layer)
{
	char own[64];
	const char *roots[] = { "", "/proc/1/root", own };

	snprintf(own, sizeof(own), "/proc/%d/task/%d/root", s->target->pid, s->target->proc_tid);
	for (size_t i = 0; i < sizeof(roots) / sizeof(roots[0]); i++)
		if (layer[0] == '/' ? try_path(s, roots[i], "", layer)
				    : try_above(s, roots[i], layer))
			return true;
	return false;
}

/* Takes the next piece up to the separator; a backslash takes its meaning away and goes. */
static bool next_piece(const char **p, char separator, struct strbuf *out, bool keep_backslash)
{
	if (!**p)
		return false;
	strbuf__reset(out);
	for (; **p && **p != separator; (*p)++) {
		if (**p == '\\' && (*p)[1]) {
			if (keep_backslash)
				strbuf__addc(out, '\\');
			(*p)++;
		}
		strbuf__addc(out, **p);
	}
	if (**p)
		(*p)++;
	return true;
}

/* lowerdir=A:B::DATA, or each of its own: lowerdir+=A,datadir+=DATA. */
static bool try_layers(struct search *s)
{
	struct strbuf option = STRBUF_INIT, layer = STRBUF_INIT;
	const char *o = s->options, *l;
	bool found = false;

	while (!found && next_piece(&o, ',', &option, true)) {
		l = strchrnul(option.s, '=');
		if (!*l || (strncmp(option.s, "lowerdir", 8) && strncmp(option.s, "datadir", 7)))
			continue;
		l++;
		while (!found && next_piece(&l, ':', &layer, false))
			found = layer.len && try_layer(s, layer.s);
	}
	strbuf__free(&option);
	strbuf__free(&layer);
	return found;
}

int overlay__find_lower(const struct target *t, int fd, const char *path,
			const struct target_map *maps, size_t map_cnt, int *lower, char **where)
{
	struct search s = {
		.target = t, .maps = maps, .map_cnt = map_cnt, .fd = -1, .found = STRBUF_INIT
	};
	struct statfs fs;
	int err;

	if (fstatfs(fd, &fs))
		return -errno;
	err = fs.f_type == OVERLAYFS_SUPER_MAGIC ? find_mount(&s, path, fd) : -ENOENT;
	if (!err && !try_layers(&s))
		err = -ENOENT;
	if (!err) {
		*lower = s.fd;
		*where = strbuf__take(&s.found);
	}
	strbuf__free(&s.found);
	free(s.path);
	free(s.options);
	return err;
}

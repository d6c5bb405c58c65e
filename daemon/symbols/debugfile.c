// SPDX-License-Identifier: BSD-2-Clause
#include "symbols/debugfile.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/strbuf.h"
#include "base/vec.h"
#include "symbols/dynamic.h"
#include "symbols/elf_file.h"

#define DEBUG_DIR "/usr/lib/debug"

/* ---- what the file says ---- */

/* .gnu_debuglink: a name, NULs up to a multiple of four, the CRC. */
static void read_link(const struct elf_file *f, struct debug_wish *out)
{
	Elf64_Shdr sh;
	const char *name;
	size_t len, at;

	if (!elf_file__find(f, ".gnu_debuglink", &sh))
		return;
	name = (const char *)f->base + sh.sh_offset;
	len = strnlen(name, sh.sh_size);
	at = (len + 4) & ~(size_t)3;
	/* a name only: what holds a folder would lead anywhere */
	if (!len || len >= sizeof(out->link) || memchr(name, '/', len) || !strcmp(name, ".") ||
	    !strcmp(name, "..") || at + 4 > sh.sh_size)
		return;
	memcpy(out->link, name, len);
	memcpy(&out->link_crc, name + at, 4);
}

void debug_wish__read(int fd, struct debug_wish *out)
{
	struct elf_file f;
	Elf64_Shdr sh;
	char *s;

	memset(out, 0, sizeof(*out));
	if (!elf_file__open(fd, &f)) {
		s = elf_file__build_id(&f);
		snprintf(out->build_id, sizeof(out->build_id), "%s", s ? s : "");
		free(s);
		read_link(&f, out);
		out->has_symbols =
			elf_file__find_type(&f, SHT_SYMTAB, &sh) && sh.sh_size > sizeof(Elf64_Sym);
		out->has_dwarf = elf_file__find(&f, ".debug_info", &sh) ||
				 elf_file__find(&f, ".zdebug_info", &sh);
		out->allocates = dynamic__allocates(&f);
		dynamic__ways(&f, &out->ways_taken, &out->ways_given);
		s = dynamic__soname(&f);
		snprintf(out->soname, sizeof(out->soname), "%s", s ? s : "");
		free(s);
	}
	elf_file__close(&f);
}

/* ---- looking ---- */

/* First without opening: what is no plain file (a device, a pipe) may do something when opened. */
static int open_plain(int dir, const char *path, uint64_t resolve)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC, .resolve = resolve };
	int fd = (int)syscall(SYS_openat2, dir, path, &how, sizeof(how)), plain = -1;
	struct stat st;
	char self[32];

	if (fd < 0)
		return -1;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode)) {
		snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
		plain = open(self, O_RDONLY | O_CLOEXEC);
	} else {
		errno = EINVAL;
	}
	close(fd);
	return plain;
}

struct search {
	int root;
	const char *prefix; /* for messages: "" or "/proc/PID/root" */
	struct debug_candidates *out;
};

static bool is_known(const struct debug_candidates *c, int fd)
{
	struct stat a, b;

	if (fstat(fd, &a))
		return false;
	for (size_t i = 0; i < c->cnt; i++)
		if (!fstat(c->data[i].fd, &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino)
			return true;
	return false;
}

static int keep(struct debug_candidates *out, int fd, char *path, struct debug_candidate how)
{
	struct debug_candidate *c = path ? vec__push(out) : NULL;

	if (!c) {
		free(path);
		close(fd);
		return -ENOMEM;
	}
	how.fd = fd;
	how.path = path;
	*c = how;
	return 0;
}

static int try(struct search *s, bool linked, const char *fmt, ...)
{
	struct strbuf path = STRBUF_INIT;
	char *text = NULL;
	va_list ap;
	int fd, err = 0;

	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0)
		text = NULL;
	va_end(ap);
	if (!text)
		return -ENOMEM;
	fd = open_plain(s->root, text, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
	if (fd >= 0 && is_known(s->out, fd)) {
		close(fd);
	} else if (fd >= 0) {
		strbuf__addf(&path, "%s%s", s->prefix, text);
		err = keep(s->out, fd, strbuf__take(&path),
			   (struct debug_candidate){ .linked = linked });
	}
	free(text);
	return err;
}

static int look(struct search *s, const struct debug_wish *wish, const char *path)
{
	const char *slash = strrchr(path, '/');
	int dir = slash ? (int)(slash - path) : 0, err = 0;

	if (strlen(wish->build_id) > 2)
		err = try(s, false, DEBUG_DIR "/.build-id/%.2s/%s.debug", wish->build_id,
			  wish->build_id + 2);
	if (!*wish->link || *path != '/')
		return err;
	if (!err)
		err = try(s, true, "%.*s/%s", dir, path, wish->link);
	if (!err)
		err = try(s, true, "%.*s/.debug/%s", dir, path, wish->link);
	if (!err)
		err = try(s, true, DEBUG_DIR "%.*s/%s", dir, path, wish->link);
	return err;
}

static bool is_same_folder(int a, int b)
{
	struct stat x, y;

	return !fstat(a, &x) && !fstat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

int debugfile__find(const struct debug_wish *wish, const char *root, const char *path,
		    struct debug_candidates *out)
{
	struct search here = { .root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC),
			       .prefix = "",
			       .out = out };
	struct search there = { .root = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC),
				.prefix = root,
				.out = out };
	int err = 0;

	out->link_crc = wish->link_crc;
	/* in the target's world first; what is there under the same path here may be another's, but
	 * then its build-id or CRC says so */
	if (there.root >= 0 && !is_same_folder(here.root, there.root))
		err = look(&there, wish, path);
	if (!err && here.root >= 0)
		err = look(&here, wish, path);
	if (here.root >= 0)
		close(here.root);
	if (there.root >= 0)
		close(there.root);
	return err;
}

int debugfile__add_asked(const char *path, struct debug_candidates *out)
{
	int fd = open_plain(AT_FDCWD, path, 0);
	struct debug_candidate first;
	int err;

	if (fd < 0)
		return -errno;
	err = keep(out, fd, strdup(path), (struct debug_candidate){ .asked = true });
	if (err)
		return err;
	first = out->data[out->cnt - 1];
	memmove(&out->data[1], &out->data[0], (out->cnt - 1) * sizeof(first));
	out->data[0] = first;
	return 0;
}

void debugfile__free(struct debug_candidates *c)
{
	for (size_t i = 0; i < c->cnt; i++) {
		close(c->data[i].fd);
		free(c->data[i].path);
	}
	vec__free(c);
}

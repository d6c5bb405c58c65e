/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/fs.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/strbuf.h"

int fs__read_max(const char *path, size_t max_bytes, struct strbuf *out)
{
	char buf[16384];
	size_t got = 0;
	ssize_t n;
	int fd, err = 0;

	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	for (;;) {
		n = read(fd, buf, sizeof(buf));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		got += (size_t)n;
		if (got > max_bytes || out->oom)
			break;
		strbuf__add(out, buf, (size_t)n);
	}
	if (n < 0)
		err = -errno;
	else if (got > max_bytes)
		err = -EFBIG;
	else if (out->oom)
		err = -ENOMEM;
	close(fd);
	return err;
}

int fs__read(const char *path, struct strbuf *out)
{
	return fs__read_max(path, SIZE_MAX, out);
}

int fs__write_all(int fd, const void *data, size_t len)
{
	const char *p = data;

	while (len) {
		ssize_t n = write(fd, p, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

static int write_in_place(const char *path, const void *data, size_t len)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC), err;

	if (fd < 0)
		return -errno;
	err = fs__write_all(fd, data, len);
	if (close(fd) && !err)
		err = -errno;
	return err;
}

/* The folder a path is in, to be freed. */
static char *folder_of(const char *path)
{
	char *copy = strdup(path), *folder = copy ? strdup(dirname(copy)) : NULL;

	free(copy);
	return folder;
}

/* The rename is durable only once the folder is. */
static void sync_folder(const char *folder)
{
	int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd >= 0) {
		(void)fsync(fd);
		close(fd);
	}
}

/* A new file that has no name yet, so that a crash leaves none; else one called tmp. */
static int open_unnamed(const char *folder, const char *tmp, bool *named)
{
	int fd = open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);

	*named = fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR);
	if (!*named)
		return fd;
	unlink(tmp);
	return open(tmp, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
}

static int give_name(int fd, const char *tmp)
{
	char self[64];

	snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	unlink(tmp);
	return linkat(AT_FDCWD, self, AT_FDCWD, tmp, AT_SYMLINK_FOLLOW) ? -errno : 0;
}

static int replace(const char *path, const char *folder, const char *tmp, const void *data,
		   size_t len)
{
	bool named;
	int fd = open_unnamed(folder, tmp, &named), err;

	if (fd < 0)
		return -errno;
	err = fs__write_all(fd, data, len);
	if (!err && fsync(fd))
		err = -errno;
	if (!err && !named) {
		err = give_name(fd, tmp);
		named = !err;
	}
	if (close(fd) && !err)
		err = -errno;
	if (!err && rename(tmp, path))
		err = -errno;
	if (err && named)
		unlink(tmp);
	if (!err)
		sync_folder(folder);
	return err;
}

int fs__write_atomic(const char *path, const void *data, size_t len)
{
	struct strbuf tmp = STRBUF_INIT;
	struct stat st;
	char *folder;
	int err;

	if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
		return S_ISDIR(st.st_mode) ? -EISDIR : write_in_place(path, data, len);
	folder = folder_of(path);
	strbuf__addf(&tmp, "%s.tmp-%d", path, getpid());
	err = folder && !tmp.oom ? replace(path, folder, tmp.s, data, len) : -ENOMEM;
	strbuf__free(&tmp);
	free(folder);
	return err;
}

/* Another name than that of the file which is written: both may be there at once. */
static int try_folder(const char *path)
{
	struct strbuf tmp = STRBUF_INIT;
	char *folder = folder_of(path);
	int err = -ENOMEM, fd;
	bool named;

	strbuf__addf(&tmp, "%s.try-%d", path, getpid());
	if (folder && !tmp.oom) {
		fd = open_unnamed(folder, tmp.s, &named);
		err = fd < 0 ? -errno : 0;
		if (fd >= 0)
			close(fd);
		if (fd >= 0 && named)
			unlink(tmp.s);
	}
	strbuf__free(&tmp);
	free(folder);
	return err;
}

int fs__can_write(const char *path)
{
	struct stat st;

	if (stat(path, &st))
		return try_folder(path);
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	if (access(path, W_OK))
		return -errno;
	return S_ISREG(st.st_mode) ? try_folder(path) : 0;
}

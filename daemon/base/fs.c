/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/fs.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
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

/* The rename is durable only once the folder is. */
static void sync_folder_of(const char *path)
{
	char *copy = strdup(path);
	int fd;

	if (!copy)
		return;
	fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0) {
		(void)fsync(fd);
		close(fd);
	}
	free(copy);
}

int fs__write_atomic(const char *path, const void *data, size_t len)
{
	struct strbuf tmp = STRBUF_INIT;
	struct stat st;
	mode_t mode;
	int fd, err;

	if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
		return S_ISDIR(st.st_mode) ? -EISDIR : write_in_place(path, data, len);

	strbuf__addf(&tmp, "%s.XXXXXX", path);
	if (tmp.oom)
		return -ENOMEM;
	fd = mkostemp(tmp.s, O_CLOEXEC);
	if (fd < 0) {
		err = -errno;
		goto out;
	}
	mode = umask(0);
	umask(mode);
	(void)fchmod(fd, 0666 & ~mode);
	err = fs__write_all(fd, data, len);
	if (!err && fsync(fd))
		err = -errno;
	if (close(fd) && !err)
		err = -errno;
	if (!err && rename(tmp.s, path))
		err = -errno;
	if (err)
		unlink(tmp.s);
	else
		sync_folder_of(path);
out:
	strbuf__free(&tmp);
	return err;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Files: whole reads of small ones (/proc), whole and durable writes. Errors are -errno.
 */
#ifndef BASE_FS_H
#define BASE_FS_H

#include <stddef.h>

struct strbuf;

/* Appends the file's whole content to out. */
int fs__read(const char *path, struct strbuf *out);
/* The same, but -EFBIG once it turns out to have more than max_bytes. */
int fs__read_max(const char *path, size_t max_bytes, struct strbuf *out);

/*
 * Replaces path by data: a temporary file in the same folder, fsync, rename. A reader sees the old
 * content or the new one; after an error the old one stays and nothing else is left. A path that
 * is no regular file (/dev/stdout, a pipe) is written to as it is.
 */
int fs__write_atomic(const char *path, const void *data, size_t len);

/*
 * Whether fs__write_atomic has a place to write to, found out by making a file there and taking it
 * away again. 0 or -errno.
 */
int fs__can_write(const char *path);

/* Writes all of data to fd. */
int fs__write_all(int fd, const void *data, size_t len);

#endif

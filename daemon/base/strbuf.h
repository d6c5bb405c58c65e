/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A growing string. Always NUL-terminated, s is never NULL after strbuf__init or STRBUF_INIT.
 * Running out of memory is remembered in oom and further writes are dropped: check once, at the
 * end. strbuf__take hands the memory over (NULL after oom) and leaves an empty buffer.
 */
#ifndef BASE_STRBUF_H
#define BASE_STRBUF_H

#include <stdbool.h>
#include <stddef.h>

struct strbuf {
	char *s;
	size_t len;
	size_t cap; /* 0: s is the shared empty string */
	bool oom;
};

extern char strbuf_empty[];
#define STRBUF_INIT                                                                                \
	{                                                                                          \
		.s = strbuf_empty                                                                  \
	}

void strbuf__free(struct strbuf *sb);
void strbuf__reset(struct strbuf *sb); /* len 0, memory kept */
char *strbuf__take(struct strbuf *sb);
void strbuf__add(struct strbuf *sb, const void *data, size_t len);
void strbuf__adds(struct strbuf *sb, const char *s);
void strbuf__addc(struct strbuf *sb, char c);
/* Where at most so many bytes may be put by hand, or NULL; then how many they were. */
char *strbuf__room(struct strbuf *sb, size_t most);
void strbuf__took(struct strbuf *sb, size_t len);
void strbuf__addf(struct strbuf *sb, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif

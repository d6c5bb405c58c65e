/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/strbuf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char strbuf_empty[1];

static bool grow(struct strbuf *sb, size_t more)
{
	size_t need = sb->len + more + 1, cap = sb->cap ? sb->cap : 64;
	char *s;

	if (sb->oom)
		return false;
	while (cap < need)
		cap *= 2;
	s = realloc(sb->cap ? sb->s : NULL, cap);
	if (!s) {
		sb->oom = true;
		return false;
	}
	if (!sb->cap)
		s[0] = '\0';
	sb->s = s;
	sb->cap = cap;
	return true;
}

/* Most texts are made of many short parts. */
static inline bool strbuf__grow(struct strbuf *sb, size_t more)
{
	if (sb->len + more < sb->cap && !sb->oom)
		return true;
	return grow(sb, more);
}

void strbuf__free(struct strbuf *sb)
{
	if (sb->cap)
		free(sb->s);
	*sb = (struct strbuf)STRBUF_INIT;
}

void strbuf__reset(struct strbuf *sb)
{
	sb->len = 0;
	if (sb->cap)
		sb->s[0] = '\0';
}

char *strbuf__take(struct strbuf *sb)
{
	char *s = NULL;

	if (strbuf__grow(sb, 0)) {
		s = sb->s;
		sb->cap = 0;
	}
	strbuf__free(sb);
	return s;
}

void strbuf__add(struct strbuf *sb, const void *data, size_t len)
{
	if (!strbuf__grow(sb, len))
		return;
	memcpy(sb->s + sb->len, data, len);
	sb->len += len;
	sb->s[sb->len] = '\0';
}

char *strbuf__room(struct strbuf *sb, size_t most)
{
	return strbuf__grow(sb, most) ? sb->s + sb->len : NULL;
}

void strbuf__took(struct strbuf *sb, size_t len)
{
	sb->len += len;
	sb->s[sb->len] = '\0';
}

void strbuf__adds(struct strbuf *sb, const char *s)
{
	strbuf__add(sb, s, strlen(s));
}

void strbuf__addc(struct strbuf *sb, char c)
{
	if (!strbuf__grow(sb, 1))
		return;
	sb->s[sb->len++] = c;
	sb->s[sb->len] = '\0';
}

void strbuf__addf(struct strbuf *sb, const char *fmt, ...)
{
	va_list ap, again;
	int n;

	va_start(ap, fmt);
	va_copy(again, ap);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n >= 0 && strbuf__grow(sb, (size_t)n)) {
		vsnprintf(sb->s + sb->len, (size_t)n + 1, fmt, again);
		sb->len += (size_t)n;
	}
	va_end(again);
}

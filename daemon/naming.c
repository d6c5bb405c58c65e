/* SPDX-License-Identifier: BSD-2-Clause */
#include "naming.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/strbuf.h"

/* The name up to where the pid goes, and what follows. */
static char *put_together(const char *head, size_t head_len, const char *tail, size_t path_at,
			  const struct run_name *n)
{
	struct strbuf sb = STRBUF_INIT;
	unsigned int number = 1;

	do {
		strbuf__reset(&sb);
		strbuf__add(&sb, head, head_len);
		strbuf__addf(&sb, "-%d", n->pid);
		if (number > 1)
			strbuf__addf(&sb, "-%u", number);
		strbuf__adds(&sb, tail);
		number++;
	} while (n->fresh && !sb.oom && access(sb.s + path_at, F_OK) == 0);
	return strbuf__take(&sb);
}

char *naming__default(const struct run_name *n)
{
	struct strbuf sb = STRBUF_INIT;
	char *name;

	strbuf__adds(&sb, "json:./roletrace-");
	for (const char *p = n->comm; *p; p++)
		strbuf__addc(&sb, *p == '/' || (unsigned char)*p < ' ' ? '_' : *p);
	name = put_together(sb.s, sb.len, ".json", strlen("json:"), n);
	strbuf__free(&sb);
	return name;
}

/* Where the name's suffix begins: the format's own, else the last dot of the file's name. */
static size_t suffix_at(const char *path, const char *suffix)
{
	size_t len = strlen(path), tail = strlen(suffix);
	const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
	const char *dot = strrchr(base, '.');

	if (len > tail && !strcmp(path + len - tail, suffix) && path + len - tail > base)
		return len - tail;
	return dot && dot > base ? (size_t)(dot - path) : len;
}

char *naming__of_run(const char *spec, size_t path_at, const char *suffix, const struct run_name *n)
{
	const char *path = spec + path_at;
	struct stat st;
	size_t at;

	if (!strcmp(path, "-") || (!stat(path, &st) && !S_ISREG(st.st_mode)))
		return strdup(spec);
	at = suffix_at(path, suffix);
	return put_together(spec, path_at + at, path + at, path_at, n);
}

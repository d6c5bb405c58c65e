/* SPDX-License-Identifier: BSD-2-Clause */
/* Whether seccomp watches the process: each thread may have filters of its own. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "base/strbuf.h"
#include "target/process.h"

static bool thread_is_filtered(int pid, int tid)
{
	struct strbuf sb = STRBUF_INIT;
	const char *mode;
	char path[64];
	bool yes;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/status", pid, tid);
	/* a thread that has ended meanwhile is under nothing */
	mode = fs__read(path, &sb) ? NULL : strstr(sb.s, "\nSeccomp:\t");
	yes = mode && mode[strlen("\nSeccomp:\t")] != '0';
	strbuf__free(&sb);
	return yes;
}

bool target__is_filtered(const struct target *t)
{
	struct dirent *ent;
	bool yes = false;
	char path[64];
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", t->pid);
	dir = opendir(path);
	while (dir && !yes && (ent = readdir(dir))) {
		int tid = atoi(ent->d_name);

		yes = tid > 0 && thread_is_filtered(t->pid, tid);
	}
	if (dir)
		closedir(dir);
	return yes;
}

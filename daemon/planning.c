/* SPDX-License-Identifier: BSD-2-Clause */
#include "planning.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "codes.h"
#include "options.h"
#include "plan/isolate.h"
#include "plan/plan.h"
#include "plan/sources.h"
#include "target/process.h"

static enum plan_exit exit_of(const struct options *o)
{
	switch (o->exit) {
	case OPTION_EXIT_SITES:
		return PLAN_EXIT_SITES;
	case OPTION_EXIT_URETPROBE:
		return PLAN_EXIT_URETPROBE;
	default:
		return PLAN_EXIT_AUTO;
	}
}

static bool names_library(const struct options *o)
{
	for (size_t i = 0; i < o->functions.cnt; i++)
		if (sources__lib_len(o->functions.data[i]))
			return true;
	return false;
}

static int make_plan(const struct options *o, const struct plan_input *in, bool list,
		     struct plan **out)
{
	struct plan_request req = {
		.crates = o->crates.data,
		.crate_cnt = o->crates.cnt,
		.functions = o->functions.data,
		.function_cnt = o->functions.cnt,
		.excludes = o->excludes.data,
		.exclude_cnt = o->excludes.cnt,
		.profile = o->profile,
		.exe_name = in->sources[0].path,
		.exit = exit_of(o),
		.want_inlined = list,
	};
	char *reason = NULL;
	int err = plan__new_isolated(in, &req, out, &reason);

	if (err)
		return code__say(err == -ENOENT || err == -EINVAL ? CODE_USAGE : CODE_FAILED,
				 reason, strerror(-err));
	return CODE_OK;
}

int planning__target(const struct options *o, struct target *t, bool list, struct plan **out)
{
	struct plan_input in = { .debug_file = o->debug_file };
	struct plan_source *sources;
	char root[64];
	int code, err;

	err = names_library(o) && !t->object_cnt ? target__open_objects(t) : 0;
	if (err)
		return code__say(code__of(err), NULL, strerror(-err));
	sources = calloc(t->object_cnt + 1, sizeof(*sources));
	if (!sources)
		return code__say(CODE_FAILED, NULL, "out of memory");
	sources[0] = (struct plan_source){ t->exe_fd, t->exe };
	for (size_t i = 0; i < t->object_cnt; i++)
		sources[i + 1] = (struct plan_source){ t->objects[i].fd, t->objects[i].path };
	snprintf(root, sizeof(root), "/proc/%d/task/%d/root", t->pid, t->proc_tid);
	in.sources = sources;
	in.source_cnt = t->object_cnt + 1;
	in.root = root;
	code = make_plan(o, &in, list, out);
	free(sources);
	return code;
}

int planning__file(const struct options *o, struct plan **out)
{
	char *path = realpath(o->exe, NULL); /* debug files lie beside the file, not a link to it */
	struct plan_source exe = { .path = path ? path : o->exe };
	struct plan_input in = { .sources = &exe, .source_cnt = 1, .debug_file = o->debug_file };
	int code = CODE_FAILED;
	struct stat st;

	/* a FIFO must not make us wait for a writer */
	exe.fd = open(exe.path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (exe.fd < 0)
		log_error("cannot open '%s': %s", o->exe, strerror(errno));
	else if (fstat(exe.fd, &st) || !S_ISREG(st.st_mode))
		log_error("'%s' is no regular file", o->exe);
	else
		code = make_plan(o, &in, true, out);
	if (exe.fd >= 0)
		close(exe.fd);
	free(path);
	return code;
}

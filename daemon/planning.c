/* SPDX-License-Identifier: BSD-2-Clause */
#include "planning.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attach/mode.h"
#include "attach/singles.h"
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

static enum plan_memory memory_of(const struct options *o)
{
	switch (o->memory) {
	case OPTION_MEMORY_LIVE:
		return PLAN_MEMORY_LIVE;
	case OPTION_MEMORY_STACKS:
		return PLAN_MEMORY_STACKS;
	default:
		return PLAN_MEMORY_NONE;
	}
}

static bool names_library(const struct options *o)
{
	for (size_t i = 0; i < o->functions.cnt; i++)
		if (sources__lib_len(o->functions.data[i]))
			return true;
	return false;
}

static int make_plan(const struct options *o, const struct attach_mode *mode,
		     const struct plan_input *in, bool list, struct plan **out, char **reason)
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
		/* list tells what there is, whatever will be asked for */
		.memory = list && !memory_of(o) ? PLAN_MEMORY_LIVE : memory_of(o),
		.layer = (enum plan_layer)o->allocator,
		.no_default = o->no_functions,
		.max_probes = mode->single_probes ? SINGLES_MAX : 0,
		.exe_only = mode->any_process,
		.want_inlined = list,
	};

	*reason = NULL;
	return plan__new_isolated(in, &req, out, reason);
}

/* The exit code of a plan, its failure said. */
static int code_of_plan(int err, char *reason)
{
	if (!err)
		return CODE_OK;
	return code__say(err == -ENOENT || err == -EINVAL ? CODE_USAGE : CODE_FAILED, reason,
			 strerror(-err));
}

static int plan_of(const struct options *o, const struct attach_mode *mode, const struct target *t,
		   bool list, const struct jail_meanwhile *meanwhile, struct plan **out,
		   char **reason)
{
	struct plan_source *sources = calloc(t->object_cnt + 1, sizeof(*sources));
	char root[64];
	struct plan_input in = {
		.sources = sources,
		.source_cnt = t->object_cnt + 1,
		.root = root,
		.debug_file = o->debug_file,
	};
	int err;

	if (!sources)
		return -ENOMEM;
	if (meanwhile)
		in.meanwhile = *meanwhile;
	sources[0] = (struct plan_source){ t->exe_fd, t->exe };
	for (size_t i = 0; i < t->object_cnt; i++)
		sources[i + 1] = (struct plan_source){ t->objects[i].fd, t->objects[i].path };
	snprintf(root, sizeof(root), "/proc/%d/task/%d/root", t->pid, t->proc_tid);
	err = make_plan(o, mode, &in, list, out, reason);
	free(sources);
	return err;
}

/* The libraries that are asked for and not mapped; whether there are such files. */
static bool add_late(const struct options *o, struct target *t)
{
	size_t before = t->object_cnt;
	int err = 0;

	for (size_t i = 0; i < o->functions.cnt && !err; i++) {
		size_t len = sources__lib_len(o->functions.data[i]);
		char *lib = len ? strndup(o->functions.data[i], len) : NULL;

		if (lib)
			err = target__add_late(t, lib);
		free(lib);
	}
	return t->object_cnt > before;
}

/* What it calls may lie in libraries, and where it lands when it leaves calls otherwise. */
static bool needs_libraries(const struct options *o, const struct attach_mode *mode,
			    const struct target *t, bool list)
{
	if (names_library(o) || memory_of(o) || list)
		return true;
	return !mode->single_probes && !mode->any_process && !t->leader_gone;
}

int planning__target(const struct options *o, const struct attach_mode *mode, struct target *t,
		     bool list, const struct jail_meanwhile *meanwhile, struct plan **out)
{
	char *reason = NULL;
	int err;

	err = needs_libraries(o, mode, t, list) && !t->object_cnt ? target__open_objects(t) : 0;
	if (err)
		return code__say(code__of(err), NULL, strerror(-err));
	/* at its first instruction a program has its loader, and nothing of what that will load */
	if (!err && memory_of(o) && t->object_cnt == 1)
		err = target__add_late(t, "libc.so.6");
	if (err)
		return code__say(code__of(err), NULL, strerror(-err));
	err = plan_of(o, mode, t, list, meanwhile, out, &reason);
	if (err == -ENOENT && add_late(o, t)) {
		free(reason);
		reason = NULL;
		err = plan_of(o, mode, t, list, meanwhile, out, &reason);
	}
	return code_of_plan(err, reason);
}

int planning__library(const struct options *o, const struct attach_mode *mode,
		      const struct target *t, size_t object, struct plan **out)
{
	struct plan_source source = { t->objects[object].fd, t->objects[object].path };
	struct plan_request req = {
		.exe_name = source.path,
		.memory = memory_of(o),
		.layer = (enum plan_layer)o->allocator,
		.no_default = true,
		.library = true,
	};
	char *reason = NULL, root[64];
	struct plan_input in = { .sources = &source, .source_cnt = 1, .root = root };
	int err;

	snprintf(root, sizeof(root), "/proc/%d/task/%d/root", t->pid, t->proc_tid);
	err = plan__new_isolated(&in, &req, out, &reason);
	if (err)
		log_debug("plan: '%s': %s", source.path, reason ? reason : strerror(-err));
	free(reason);
	return err;
}

int planning__file(const struct options *o, const struct attach_mode *mode, struct plan **out)
{
	char *path = realpath(o->exe, NULL); /* debug files lie beside the file, not a link to it */
	struct plan_source exe = { .path = path ? path : o->exe };
	struct plan_input in = { .sources = &exe, .source_cnt = 1, .debug_file = o->debug_file };
	char *reason = NULL;
	int code = CODE_FAILED, err;
	struct stat st;

	/* a FIFO must not make us wait for a writer */
	exe.fd = open(exe.path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (exe.fd < 0) {
		log_error("cannot open '%s': %s", o->exe, strerror(errno));
	} else if (fstat(exe.fd, &st) || !S_ISREG(st.st_mode)) {
		log_error("'%s' is no regular file", o->exe);
	} else {
		err = make_plan(o, mode, &in, true, out, &reason);
		code = code_of_plan(err, reason);
	}
	if (exe.fd >= 0)
		close(exe.fd);
	free(path);
	return code;
}

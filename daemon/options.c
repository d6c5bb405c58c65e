/* SPDX-License-Identifier: BSD-2-Clause */
/* The command line as a whole: defaults, the commands, what implies or contradicts what. */
#include "options.h"

#include <argp.h>
#include <stdio.h>
#include <string.h>

#include "base/vec.h"
#include "base/version.h"
#include "options_parts.h"

#define DEFAULT_BUDGET 0.02
/* Whoever asks for allocators to be traced knows that they are hot. */
#define MEMORY_BUDGET 0.10
#define DEFAULT_MAX_BLOCKS 1000000
#define DEFAULT_LEAK_AFTER_S 10
#define DEFAULT_SAMPLE_BYTES (64u << 10)

struct parse {
	struct options *options;
	bool given[KEY_CNT]; /* by key */
};

const char *argp_program_version = version__tool;

static const char *const commands[] = {
	[COMMAND_TRACE] = "tracing", [COMMAND_LIST] = "list",	[COMMAND_CHECK] = "check",
	[COMMAND_REPORT] = "report", [COMMAND_FLAME] = "flame",
};

static void parse_argument(struct argp_state *state, char *arg, struct options *o)
{
	if (state->arg_num == 1 && (o->command == COMMAND_REPORT || o->command == COMMAND_FLAME)) {
		o->file = arg;
		return;
	}
	if (state->arg_num != 0)
		argp_error(state, "unexpected argument '%s'", arg);
	for (int i = COMMAND_LIST; i <= COMMAND_FLAME; i++)
		if (!strcmp(arg, commands[i])) {
			o->command = (enum command)i;
			return;
		}
	argp_error(state, "unknown command '%s'", arg);
}

static void check_given(struct argp_state *state, const struct parse *p)
{
	for (const struct argp_option *opt = options_table; opt->name || opt->doc; opt++)
		if (opt->key && p->given[opt->key] &&
		    !(options__rule(opt->key)->commands & 1u << p->options->command))
			argp_error(state, "--%s does not go with %s", opt->name,
				   commands[p->options->command]);
}

/* report, flame: what reads a saved snapshot. */
static void check_saved(struct argp_state *state, const struct options *o, int ways)
{
	bool flame = o->command == COMMAND_FLAME;

	if (ways)
		argp_error(state, "%s takes no process", commands[o->command]);
	if (!o->file || (flame && !o->outputs.cnt))
		argp_error(state, "%s needs the FILE of a snapshot%s", commands[o->command],
			   flame ? ", and -o FILE" : "");
}

static void check_process(struct argp_state *state, const struct options *o, int ways)
{
	if (o->command == COMMAND_LIST && (o->name || o->argv || o->pids.cnt > 1))
		argp_error(state, "list takes one --pid or --exe");
	if (ways > 1)
		argp_error(state, "--pid, --name, --exe and a command exclude each other");
	if (!ways)
		argp_error(state, o->command == COMMAND_LIST ? "list needs --pid or --exe"
							     : "which process? give --pid N");
}

static void check_how(struct argp_state *state, const struct options *o)
{
	if (o->may_kill && o->exit != OPTION_EXIT_URETPROBE)
		argp_error(state, "--may-kill-target is for --exit uretprobe");
	if (o->no_threads && o->stall_s > 0)
		argp_error(state, "--no-threads contradicts --stall");
	if (o->by_thread && !o->cpu_profile_hz && !o->off_cpu)
		argp_error(state, "--by-thread needs --cpu-profile or --off-cpu");
	if (o->sample_given && o->memory != OPTION_MEMORY_STACKS && !o->growth_given)
		argp_error(state, "--sample-bytes is for --memory stacks, and growth by name");
	if (o->no_functions && (o->functions.cnt || o->crates.cnt || o->debug_file))
		argp_error(state,
			   "--no-functions contradicts --function, --crate and --debug-file");
}

static void check_whole(struct argp_state *state, const struct options *o)
{
	int ways = !!o->pid + !!o->exe + !!o->name + !!o->argv;

	switch (o->command) {
	case COMMAND_REPORT:
	case COMMAND_FLAME:
		check_saved(state, o, ways);
		break;
	case COMMAND_CHECK:
		if (ways > !!o->pid || o->pids.cnt > 1)
			argp_error(state, "check takes one --pid at most");
		break;
	default:
		check_process(state, o, ways);
		check_how(state, o);
	}
}

static void imply(const struct parse *p)
{
	struct options *o = p->options;

	o->off_cpu |= o->wakers || p->given[KEY_OFF_CPU_MIN];
	o->sample_given = p->given[KEY_SAMPLE_BYTES];
	o->growth_given = p->given[KEY_MEMORY] && o->memory == OPTION_MEMORY_GROWTH;
	if (!p->given[KEY_BUDGET] && o->memory >= OPTION_MEMORY_LIVE)
		o->budget = MEMORY_BUDGET;
}

static error_t parse_one(int key, char *arg, struct argp_state *state)
{
	struct parse *p = state->input;
	const struct option_rule *rule = options__rule(key);

	if (rule) {
		p->given[key] = true;
		return options__set(state, rule, arg, p->options);
	}
	switch (key) {
	case ARGP_KEY_ARG:
		parse_argument(state, arg, p->options);
		return 0;
	case ARGP_KEY_END:
		imply(p);
		check_given(state, p);
		check_whole(state, p->options);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static void set_defaults(struct options *o)
{
	memset(o, 0, sizeof(*o));
	o->budget = DEFAULT_BUDGET;
	o->memory = OPTION_MEMORY_GROWTH;
	o->max_blocks = DEFAULT_MAX_BLOCKS;
	o->leak_after_s = DEFAULT_LEAK_AFTER_S;
	o->sample_bytes = DEFAULT_SAMPLE_BYTES;
}

bool options__parse(int argc, char **argv, struct options *out, int *code)
{
	static const struct argp argp = {
		.options = options_table,
		.parser = parse_one,
		.args_doc = options_args_doc,
		.doc = options_doc,
	};
	struct parse p = { .options = out };
	error_t err;

	set_defaults(out);
	/* the command to start is not ours to parse */
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--") && i + 1 < argc) {
			out->argv = argv + i + 1;
			argc = i;
		}
	}
	argp_err_exit_status =
		CODE_USAGE; /* argp itself ends the program on --help and usage errors */
	err = argp_parse(&argp, argc, argv, 0, NULL, &p);
	if (err) {
		fprintf(stderr, "roletrace: options: %s\n", strerror(err));
		*code = CODE_FAILED;
		return false;
	}
	return true;
}

void options__free(struct options *o)
{
	vec__free(&o->pids);
	vec__free(&o->outputs);
	vec__free(&o->crates);
	vec__free(&o->functions);
	vec__free(&o->excludes);
}

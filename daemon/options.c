/* SPDX-License-Identifier: BSD-2-Clause */
#include "options.h"

#include <argp.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"

#define DEFAULT_BUDGET 0.02
#define DEFAULT_HZ 49 /* no multiple of what timers do */
#define MAX_HZ 10000
#define MIN_INTERVAL_S 0.02
/* Whoever asks for allocators to be traced knows that they are hot. */
#define MEMORY_BUDGET 0.10
#define DEFAULT_MAX_BLOCKS 1000000
#define MOST_BLOCKS 100000000
#define DEFAULT_LEAK_AFTER_S 10
#define DEFAULT_SAMPLE_BYTES (64u << 10)
#define MOST_SAMPLE_BYTES (1u << 30)

enum {
	KEY_CRATE = 256,
	KEY_EXCLUDE,
	KEY_PROFILE,
	KEY_DEBUG_FILE,
	KEY_NO_FUNCTIONS,
	KEY_NO_THREADS,
	KEY_STALL,
	KEY_EXIT,
	KEY_MAY_KILL,
	KEY_BUDGET,
	KEY_RAW,
	KEY_EXE,
	KEY_NAME,
	KEY_FOLLOW,
	KEY_EMPTY_PROGRAMS,
	KEY_MEMORY,
	KEY_ALLOCATOR,
	KEY_MAX_BLOCKS,
	KEY_SAMPLE_BYTES,
	KEY_LEAK_AFTER,
	KEY_ASSUME_SECCOMP_KILLS,
	KEY_WITHOUT,
	KEY_REARM_ALWAYS,
	KEY_SORT,
	KEY_LIMIT,
	KEY_WIDTH,
	KEY_KIND,
	KEY_DIFF,
	KEY_CPU_PROFILE,
	KEY_OFF_CPU,
	KEY_OFF_CPU_MIN,
	KEY_WAKERS,
	KEY_PROFILE_STACKS,
	KEY_BY_THREAD,
	KEY_CNT,
};

struct parse {
	struct options *options;
	bool given[KEY_CNT]; /* by key */
};

const char *argp_program_version = "roletrace " VERSION;

static const char doc[] =
	"Shows where the functions of a running Rust server spend their time: attaches to an "
	"unmodified process, measures, and leaves."
	"\v"
	"Examples:\n"
	"  sudo roletrace --pid 4711               live, until Ctrl-C; then the report\n"
	"  sudo roletrace --pid 4711 -d 10         for ten seconds\n"
	"  sudo roletrace --pid 4711 -f '*::handle_submit*' -o submit.json\n"
	"  sudo roletrace -- ./pool_sv2 -c pool.toml       from its first instruction\n"
	"  sudo roletrace --name pool_sv2                  wait for it\n"
	"  sudo roletrace --name pool_sv2 --follow         ... and for the next, again and again\n"
	"  sudo roletrace --pid 4711 --pid 4712            two at once\n"
	"  roletrace list --exe target/release/pool_sv2    what would be probed\n"
	"  sudo roletrace check                    what this machine allows\n"
	"  sudo roletrace check --pid 4711         ... and which allocators that process has\n"
	"  roletrace report role.json --sort p95   a saved snapshot again\n"
	"  roletrace report role.json -o role.csv  ... in another format\n"
	"  roletrace flame role.json -o role.html  flamegraphs; or .svg .pb.gz ...\n"
	"\n"
	"A GLOB matches a whole demangled name without its hash: `*' any characters, `?' one.\n"
	"Exit codes: 0 done, 1 failed while running, 2 usage, 3 no such process, 4 the machine "
	"or rights do not allow it, or it may kill the process; with a command, the command's "
	"own, 127 when there is no such command, 126 when it cannot be started.";

static const char args_doc[] =
	"--pid N... | --name COMM | --exe PATH\n-- COMMAND [ARGUMENT...]\nlist "
	"--pid N | --exe PATH\ncheck [--pid N]\nreport FILE\nflame FILE -o FILE";

static const struct argp_option table[] = {
	{ "pid", 'p', "N", 0, "The process to trace; repeatable: several at once, a file each", 0 },
	{ "name", KEY_NAME, "COMM", 0, "The process of this name; waits until there is one", 0 },
	{ "exe", KEY_EXE, "PATH", 0,
	  "The process that runs this file; waits until there is one. For list: the file", 0 },
	{ "follow", KEY_FOLLOW, NULL, 0,
	  "After its end trace the next one of --name or --exe, and after an exec the new program, "
	  "until Ctrl-C or --duration; a file each",
	  0 },
	{ NULL, 0, NULL, 0,
	  "What to trace (default: the crates of the program itself), or what of a snapshot to "
	  "report",
	  1 },
	{ "crate", KEY_CRATE, "GLOB", 0, "Functions of this crate (repeatable)", 1 },
	{ "function", 'f', "[LIB:]GLOB", 0,
	  "Functions of this name, in a shared library whose file or soname matches LIB "
	  "(repeatable)",
	  1 },
	{ "exclude", KEY_EXCLUDE, "GLOB", 0, "But not functions of this name (repeatable)", 1 },
	{ "profile", KEY_PROFILE, "NAME", 0, "Role profile (default: by the executable's name)",
	  1 },
	{ "debug-file", KEY_DEBUG_FILE, "PATH", 0,
	  "Separate debug file of a stripped program (default: looked for by build-id and "
	  ".gnu_debuglink)",
	  1 },
	{ "no-functions", KEY_NO_FUNCTIONS, NULL, 0, "Probe no function", 1 },
	{ "no-threads", KEY_NO_THREADS, NULL, 0,
	  "Do not watch threads (their states, locks, what hangs)", 1 },
	{ "stall", KEY_STALL, "SEC", 0,
	  "Tell what hangs for SEC seconds (default 3), and when no thread runs at all for that "
	  "long",
	  1 },
	{ NULL, 0, NULL, 0, "How long and where to", 2 },
	{ "duration", 'd', "SEC", 0,
	  "Stop by itself so long after the attach: 10 (seconds), 500ms, 5m, 2h. Waiting for a "
	  "process is not limited by it",
	  2 },
	{ "interval", 'i', "SEC", 0,
	  "Redraw and rewrite the files each SEC seconds (default: redraw 1, rewrite 10; at least "
	  "0.02)",
	  2 },
	{ "output", 'o', "[FORMAT:]FILE", 0,
	  "Write the snapshot to FILE (repeatable; default ./roletrace-COMM-PID.json; `-' is "
	  "standard output). FORMAT is json, csv, csv-buckets, csv-threads, prom, or of stacks "
	  "html, svg, folded, pprof or speedscope; without it FILE's suffix "
	  "tells. svg-live:FILE or FILE.live.svg name the kind of stacks, as of --kind",
	  2 },
	{ "sort", KEY_SORT, "total|calls|avg|p95|max|self|name", 0,
	  "Order of the report's rows (default: total)", 2 },
	{ "limit", KEY_LIMIT, "N", 0, "At most N rows in each of the report's tables", 2 },
	{ "width", KEY_WIDTH, "N", 0,
	  "report: for N columns (default: the terminal's, 80 where there is none)", 2 },
	{ "kind", KEY_KIND,
	  "cpu|calls|off-cpu|wakers|live|alloc|live-calls|alloc-calls|mapped|faults", 0,
	  "flame: which stacks (default: the first of these that there are)", 2 },
	{ "diff", KEY_DIFF, "OLD", 0, "flame: what changed since the snapshot OLD", 2 },
	{ NULL, 0, NULL, 0, "How to measure", 3 },
	{ "exit", KEY_EXIT, "auto|sites|uretprobe", 0,
	  "How a function's end is seen (auto: the safest. uretprobe: a panic through it kills the "
	  "target; refused where one is seen to be possible)",
	  3 },
	{ "may-kill-target", KEY_MAY_KILL, NULL, 0,
	  "--exit uretprobe: not refused, although it may", 3 },
	{ "memory", KEY_MEMORY, "off|growth|live|stacks", 0,
	  "growth (the default): how the process grows, and where; asked for by name also by "
	  "native "
	  "stack. live: what is allocated and freed, exactly. stacks: also by whom, and what may "
	  "be "
	  "leaking",
	  3 },
	{ "allocator", KEY_ALLOCATOR, "auto|rust|malloc|all", 0,
	  "Which layer --memory live and stacks trace (auto: Rust's own where that is enough, "
	  "else malloc's)",
	  3 },
	{ "max-blocks", KEY_MAX_BLOCKS, "N", 0,
	  "--memory stacks: remember at most N live blocks, 100 bytes of kernel memory each "
	  "(default 1000000)",
	  3 },
	{ "sample-bytes", KEY_SAMPLE_BYTES, "N[k|M|G]", 0,
	  "--memory stacks: remember a sample of the blocks only, one of about N allocated bytes; "
	  "what is live becomes an estimate, with its error. 1: each block, with its native stack; "
	  "0: each, and no native stacks. By default each is remembered, and a sample (64k) has "
	  "native stacks. --memory growth: a native stack for N bytes touched first (64k; 1: for "
	  "each page fault; 0: no native stacks at all)",
	  3 },
	{ "leak-after", KEY_LEAK_AFTER, "SEC", 0,
	  "--memory stacks: blocks that live longer may be leaked (default 10)", 3 },
	{ "budget", KEY_BUDGET, "PERCENT|off", 0,
	  "What probes may cost, of one CPU (default 2; with --memory live or stacks 10): beyond "
	  "it the dearest are taken away",
	  3 },
	{ "raw", KEY_RAW, NULL, 0, "Do not take the price of inner probes off durations", 3 },
	{ "cpu-profile", KEY_CPU_PROFILE, "HZ", OPTION_ARG_OPTIONAL,
	  "Sample where its threads run, HZ times a second (49)", 3 },
	{ "off-cpu", KEY_OFF_CPU, NULL, 0, "Follow where its threads wait, and how long", 3 },
	{ "off-cpu-min", KEY_OFF_CPU_MIN, "USEC", 0,
	  "But not waits shorter than USEC microseconds (implies --off-cpu)", 3 },
	{ "by-thread", KEY_BY_THREAD, NULL, 0,
	  "Stacks of --cpu-profile and --off-cpu by the names of threads", 3 },
	{ "wakers", KEY_WAKERS, NULL, 0,
	  "And who ends these waits, with its stack (implies --off-cpu)", 3 },
	{ "profile-stacks", KEY_PROFILE_STACKS, "N", OPTION_HIDDEN, NULL, 3 },
	{ "empty-programs", KEY_EMPTY_PROGRAMS, NULL, OPTION_HIDDEN, NULL, 3 },
	{ "assume-seccomp-kills", KEY_ASSUME_SECCOMP_KILLS, NULL, OPTION_HIDDEN, NULL, 3 },
	{ "without", KEY_WITHOUT, "FEATURE,...", OPTION_HIDDEN, NULL, 3 },
	{ "rearm-always", KEY_REARM_ALWAYS, NULL, OPTION_HIDDEN, NULL, 3 },
	{ "verbose", 'v', NULL, 0, "Say more", 4 },
	{ NULL, 0, NULL, 0, NULL, 0 },
};

static bool push(struct str_list *list, const char *s)
{
	const char **slot = vec__push(list);

	if (slot)
		*slot = s;
	return slot != NULL;
}

/* A finite number, and what follows it. */
static bool parse_leading(const char *s, double *out, const char **rest)
{
	char *end;
	double v;

	errno = 0;
	v = strtod(s, &end);
	if (end == s || errno || !isfinite(v))
		return false;
	*out = v;
	*rest = end;
	return true;
}

/* What a unit stands for; 0: it is none. Without one seconds are meant. */
static double unit_s(const char *unit)
{
	static const struct {
		const char *name;
		double s;
	} units[] = { { "", 1 }, { "s", 1 }, { "ms", 1e-3 }, { "m", 60 }, { "h", 3600 } };

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (!strcmp(unit, units[i].name))
			return units[i].s;
	return 0;
}

static void parse_seconds(struct argp_state *state, const char *name, const char *arg, double min,
			  double *out)
{
	const char *unit;
	bool ok = parse_leading(arg, out, &unit);

	*out *= ok ? unit_s(unit) : 0;
	if (!ok || !unit_s(unit) || *out < min || *out > 1e9)
		argp_error(state,
			   "--%s needs a time from %g to 1e9 seconds, as 10, 500ms, 1.5m or 2h: "
			   "'%s'",
			   name, min, arg);
}

static void parse_pid(struct argp_state *state, const char *arg, struct options *o)
{
	char *end;
	int *slot;
	long v;

	errno = 0;
	v = strtol(arg, &end, 10);
	if (end == arg || *end || errno || v <= 0 || v > 4194304)
		argp_error(state, "--pid needs a process id: '%s'", arg);
	for (size_t i = 0; i < o->pids.cnt; i++)
		if (o->pids.data[i] == v)
			argp_error(state, "--pid %ld is given twice", v);
	slot = vec__push(&o->pids);
	if (!slot)
		argp_failure(state, CODE_FAILED, ENOMEM, "options");
	*slot = (int)v;
	o->pid = o->pids.data[0];
}

static void parse_count(struct argp_state *state, const char *name, const char *arg, long min,
			long max, unsigned int *out)
{
	char *end;
	long v;

	errno = 0;
	v = strtol(arg, &end, 10);
	if (end == arg || *end || errno || v < min || v > max)
		argp_error(state, "--%s needs a number from %ld to %ld: '%s'", name, min, max, arg);
	*out = (unsigned int)v;
}

/* A number with a suffix: 512k. */
static void parse_bytes(struct argp_state *state, const char *name, const char *arg,
			unsigned long long max, unsigned int *out)
{
	static const char suffixes[] = "kKmMgG";
	unsigned long long v;
	const char *suffix;
	char *end;

	errno = 0;
	v = strtoull(arg, &end, 10);
	suffix = *end ? strchr(suffixes, *end) : NULL;
	if (suffix) {
		if (v <= max)
			v <<= 10 * ((suffix - suffixes) / 2 + 1);
		end++;
	}
	if (end == arg || *end || errno || *arg < '0' || *arg > '9' || v > max)
		argp_error(state,
			   "--%s needs a number of bytes up to %lluM, or one like 512k: '%s'", name,
			   max >> 20, arg);
	*out = (unsigned int)v;
}

static void parse_sort(struct argp_state *state, const char *arg, struct options *o)
{
	static const char *const names[OPTION_SORT_CNT] = {
		[OPTION_SORT_TOTAL] = "total", [OPTION_SORT_CALLS] = "calls",
		[OPTION_SORT_AVG] = "avg",     [OPTION_SORT_P95] = "p95",
		[OPTION_SORT_MAX] = "max",     [OPTION_SORT_SELF] = "self",
		[OPTION_SORT_NAME] = "name",
	};

	for (int i = 0; i < OPTION_SORT_CNT; i++)
		if (!strcmp(arg, names[i])) {
			o->sort = (enum option_sort)i;
			return;
		}
	argp_error(state, "--sort is one of total, calls, avg, p95, max, self, name: '%s'", arg);
}

static void parse_exit(struct argp_state *state, const char *arg, struct options *o)
{
	if (!strcmp(arg, "auto"))
		o->exit = OPTION_EXIT_AUTO;
	else if (!strcmp(arg, "sites"))
		o->exit = OPTION_EXIT_SITES;
	else if (!strcmp(arg, "uretprobe"))
		o->exit = OPTION_EXIT_URETPROBE;
	else
		argp_error(state, "--exit is one of auto, sites, uretprobe: '%s'", arg);
}

/* The place of a word in a list that ends with NULL; says which there are. */
static int parse_word(struct argp_state *state, const char *name, const char *arg,
		      const char *const *words)
{
	for (int i = 0; words[i]; i++)
		if (!strcmp(arg, words[i]))
			return i;
	argp_error(state, "--%s: unknown word '%s'", name, arg);
	return 0;
}

static const char *const memory_words[] = { "off", "growth", "live", "stacks", NULL };
static const char *const allocator_words[] = { "auto", "rust", "malloc", "all", NULL };

static void parse_budget(struct argp_state *state, const char *arg, struct options *o)
{
	const char *unit;
	double percent = 0;

	if (!strcmp(arg, "off")) {
		o->budget = -1;
		return;
	}
	if (!parse_leading(arg, &percent, &unit) || (*unit && strcmp(unit, "%")) || percent <= 0 ||
	    percent > 100000)
		argp_error(state, "--budget needs a percentage of one CPU above 0, or off: '%s'",
			   arg);
	o->budget = percent / 100;
}

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

/* Which commands an option means something to. */
static unsigned int commands_of(int key)
{
	enum {
		TRACE = 1 << COMMAND_TRACE,
		LIST = 1 << COMMAND_LIST,
		CHECK = 1 << COMMAND_CHECK,
		REPORT = 1 << COMMAND_REPORT,
		FLAME = 1 << COMMAND_FLAME,
	};

	switch (key) {
	case 'v':
		return ~0u;
	case 'f':
	case KEY_CRATE:
	case KEY_EXCLUDE:
		return TRACE | LIST | REPORT;
	case 'p':
	case KEY_MEMORY:
	case KEY_ALLOCATOR:
		return TRACE | LIST | CHECK;
	case KEY_EXE:
	case KEY_DEBUG_FILE:
	case KEY_PROFILE:
	case KEY_NO_FUNCTIONS:
	case KEY_EXIT:
		return TRACE | LIST;
	case 'o':
		return TRACE | REPORT | FLAME;
	case KEY_KIND:
	case KEY_DIFF:
		return FLAME;
	case KEY_SORT:
	case KEY_LIMIT:
		return TRACE | REPORT;
	case KEY_WIDTH:
		return REPORT;
	case KEY_WITHOUT:
		return TRACE | LIST | CHECK;
	default:
		return TRACE;
	}
}

static void check_given(struct argp_state *state, const struct parse *p)
{
	for (const struct argp_option *opt = table; opt->name || opt->doc; opt++)
		if (opt->key && p->given[opt->key] &&
		    !(commands_of(opt->key) & 1u << p->options->command))
			argp_error(state, "--%s does not go with %s", opt->name,
				   commands[p->options->command]);
}

static void check_whole(struct argp_state *state, const struct options *o)
{
	int ways = !!o->pid + !!o->exe + !!o->name + !!o->argv;

	if (o->command == COMMAND_FLAME) {
		if (ways)
			argp_error(state, "flame takes no process");
		if (!o->file || !o->outputs.cnt)
			argp_error(state, "flame needs the FILE of a snapshot, and -o FILE");
		return;
	}
	if (o->command == COMMAND_REPORT) {
		if (ways)
			argp_error(state, "report takes no process");
		if (!o->file)
			argp_error(state, "report needs the FILE of a snapshot");
		return;
	}
	if (o->command == COMMAND_CHECK) {
		if (ways > !!o->pid || o->pids.cnt > 1)
			argp_error(state, "check takes one --pid at most");
		return;
	}
	if (o->command == COMMAND_LIST && (o->name || o->argv || o->pids.cnt > 1))
		argp_error(state, "list takes one --pid or --exe");
	if (ways > 1)
		argp_error(state, "--pid, --name, --exe and a command exclude each other");
	if (!ways)
		argp_error(state, o->command == COMMAND_LIST ? "list needs --pid or --exe"
							     : "which process? give --pid N");
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

static error_t parse_one(int key, char *arg, struct argp_state *state)
{
	struct parse *p = state->input;
	struct options *o = p->options;
	bool ok = true;

	if (key > 0 && key < KEY_CNT)
		p->given[key] = true;
	switch (key) {
	case 'p':
		parse_pid(state, arg, o);
		break;
	case 'f':
		ok = push(&o->functions, arg);
		break;
	case KEY_CRATE:
		ok = push(&o->crates, arg);
		break;
	case KEY_EXCLUDE:
		ok = push(&o->excludes, arg);
		break;
	case 'o':
		ok = push(&o->outputs, arg);
		break;
	case 'd':
		parse_seconds(state, "duration", arg, 0.001, &o->duration_s);
		break;
	case 'i':
		parse_seconds(state, "interval", arg, MIN_INTERVAL_S, &o->interval_s);
		break;
	case KEY_PROFILE:
		o->profile = arg;
		break;
	case KEY_DEBUG_FILE:
		o->debug_file = arg;
		break;
	case KEY_NO_FUNCTIONS:
		o->no_functions = true;
		break;
	case KEY_NO_THREADS:
		o->no_threads = true;
		break;
	case KEY_STALL:
		parse_seconds(state, "stall", arg, 0.5, &o->stall_s);
		break;
	case KEY_EXIT:
		parse_exit(state, arg, o);
		break;
	case KEY_MAY_KILL:
		o->may_kill = true;
		break;
	case KEY_BUDGET:
		parse_budget(state, arg, o);
		break;
	case KEY_MEMORY:
		o->memory = (enum option_memory)parse_word(state, "memory", arg, memory_words);
		break;
	case KEY_ALLOCATOR:
		o->allocator =
			(enum option_allocator)parse_word(state, "allocator", arg, allocator_words);
		break;
	case KEY_MAX_BLOCKS:
		parse_count(state, "max-blocks", arg, 1, MOST_BLOCKS, &o->max_blocks);
		break;
	case KEY_SAMPLE_BYTES:
		parse_bytes(state, "sample-bytes", arg, MOST_SAMPLE_BYTES, &o->sample_bytes);
		o->sample_given = true;
		break;
	case KEY_LEAK_AFTER:
		parse_seconds(state, "leak-after", arg, 0.1, &o->leak_after_s);
		break;
	case KEY_RAW:
		o->raw = true;
		break;
	case KEY_CPU_PROFILE:
		o->cpu_profile_hz = DEFAULT_HZ;
		if (arg)
			parse_count(state, "cpu-profile", arg, 1, MAX_HZ, &o->cpu_profile_hz);
		break;
	case KEY_OFF_CPU:
		o->off_cpu = true;
		break;
	case KEY_OFF_CPU_MIN:
		o->off_cpu = true;
		parse_count(state, "off-cpu-min", arg, 0, 1000000, &o->off_cpu_min_us);
		break;
	case KEY_BY_THREAD:
		o->by_thread = true;
		break;
	case KEY_WAKERS:
		o->off_cpu = o->wakers = true;
		break;
	case KEY_PROFILE_STACKS:
		parse_count(state, "profile-stacks", arg, 1, 1000000, &o->profile_stacks);
		break;
	case KEY_NAME:
		o->name = arg;
		break;
	case KEY_EXE:
		o->exe = arg;
		break;
	case KEY_FOLLOW:
		o->follow = true;
		break;
	case KEY_WITHOUT:
		o->without = arg;
		break;
	case KEY_EMPTY_PROGRAMS:
		o->empty_programs = true;
		break;
	case KEY_ASSUME_SECCOMP_KILLS:
		o->assume_seccomp_kills = true;
		break;
	case KEY_REARM_ALWAYS:
		o->rearm_always = true;
		break;
	case KEY_SORT:
		parse_sort(state, arg, o);
		break;
	case KEY_LIMIT:
		parse_count(state, "limit", arg, 1, 1000000, &o->limit);
		break;
	case KEY_KIND:
		o->kind = arg;
		break;
	case KEY_DIFF:
		o->diff = arg;
		break;
	case KEY_WIDTH:
		parse_count(state, "width", arg, 40, 1000000, &o->width);
		break;
	case 'v':
		o->verbose = true;
		break;
	case ARGP_KEY_ARG:
		parse_argument(state, arg, o);
		break;
	case ARGP_KEY_END:
		check_given(state, p);
		o->growth_given = p->given[KEY_MEMORY] && o->memory == OPTION_MEMORY_GROWTH;
		check_whole(state, o);
		if (!p->given[KEY_BUDGET] && o->memory >= OPTION_MEMORY_LIVE)
			o->budget = MEMORY_BUDGET;
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return ok ? 0 : ENOMEM;
}

bool options__parse(int argc, char **argv, struct options *out, int *code)
{
	static const struct argp argp = {
		.options = table, .parser = parse_one, .args_doc = args_doc, .doc = doc
	};
	struct parse p = { .options = out };
	error_t err;

	memset(out, 0, sizeof(*out));
	out->budget = DEFAULT_BUDGET;
	out->memory = OPTION_MEMORY_GROWTH;
	out->max_blocks = DEFAULT_MAX_BLOCKS;
	out->leak_after_s = DEFAULT_LEAK_AFTER_S;
	out->sample_bytes = DEFAULT_SAMPLE_BYTES;
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

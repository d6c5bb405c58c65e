/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which options there are: what --help says of each, which commands it means something to, and
 * which member of struct options its argument goes to. A new option is a row in both tables. How
 * arguments are read and what contradicts what is said elsewhere.
 */
#include "options_parts.h"

#include <stddef.h>

#define MAX_HZ 10000
#define MIN_INTERVAL_S 0.02
#define MOST_BLOCKS 100000000
#define MOST_SAMPLE_BYTES (1u << 30)

const char options_doc[] =
	"Shows where the functions of a running Rust server spend their time: attaches to an "
	"unmodified process, measures, and leaves."
	"\v"
	"Examples:\n"
	"  sudo roletrace --pid 4711                     until Ctrl-C; then the report\n"
	"  sudo roletrace --pid 4711 -d 10               for ten seconds\n"
	"  sudo roletrace --pid 4711 -f '*::handle_submit*' -o submit.json\n"
	"  sudo roletrace -- ./pool_sv2 -c pool.toml     from its first instruction\n"
	"  sudo roletrace --name pool_sv2                wait for it\n"
	"  sudo roletrace --name pool_sv2 --follow       ... and for each next one\n"
	"  sudo roletrace --pid 4711 --pid 4712          two at once\n"
	"  roletrace list --exe target/release/pool_sv2  what would be probed\n"
	"  sudo roletrace check                          what this machine allows\n"
	"  sudo roletrace check --pid 4711               ... and the allocators it has\n"
	"  roletrace report role.json --sort p95         a saved snapshot again\n"
	"  roletrace report role.json -o role.csv        ... in another format\n"
	"  roletrace flame role.json -o role.html        flamegraphs; or .svg .pb.gz\n"
	"\n"
	"A GLOB matches a whole demangled name without its hash: `*' any characters, `?' one.\n"
	"Exit codes: 0 done, 1 failed while running, 2 usage, 3 no such process, 4 the machine "
	"or rights do not allow it, or it may kill the process; with a command, the command's "
	"own, 127 when there is no such command, 126 when it cannot be started.";

const char options_args_doc[] =
	"--pid N... | --name COMM | --exe PATH\n-- COMMAND [ARGUMENT...]\nlist "
	"--pid N | --exe PATH\ncheck [--pid N]\nreport FILE\nflame FILE -o FILE";

const struct argp_option options_table[] = {
	{ "pid", 'p', "N", 0, "The process to trace; repeatable: several at once, a file each", 0 },
	{ "name", KEY_NAME, "COMM", 0, "The process of this name; waits for one", 0 },
	{ "exe", KEY_EXE, "PATH", 0,
	  "The process that runs this file; waits for one. For list: the file", 0 },
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
	{ "exclude", KEY_EXCLUDE, "GLOB", 0, "Leave out functions of this name (repeatable)", 1 },
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
	  "Tell what hangs for SEC seconds (3 without this option); with it also when no thread "
	  "runs at all for that long",
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
	  "With --exit uretprobe: not refused, although it may", 3 },
	{ "memory", KEY_MEMORY, "off|growth|live|stacks", 0,
	  "growth (the default): how the process grows, and where; asked for by name also by "
	  "native stack. live: what is allocated and freed, exactly. stacks: also by whom, and "
	  "what may be leaking",
	  3 },
	{ "allocator", KEY_ALLOCATOR, "auto|rust|malloc|all", 0,
	  "Which layer --memory live and stacks trace (auto: Rust's own where that is enough, "
	  "else malloc's)",
	  3 },
	{ "max-blocks", KEY_MAX_BLOCKS, "N", 0,
	  "--memory stacks: remember at most N live blocks, 100 bytes of kernel memory each "
	  "(default 1000000)",
	  3 },
	{ "sample-bytes", KEY_SAMPLE_BYTES, "N", 0,
	  "--memory stacks: remember a sample of the blocks only, one of about N allocated bytes; "
	  "what is live becomes an estimate, with its error. 64k, 1M: units of 1024. 1: each "
	  "block, with its native stack; "
	  "0: each, and no native stacks. By default each is remembered, and a sample (64k) has "
	  "native stacks. --memory growth: a native stack for N bytes touched first (64k; 1: for "
	  "each page fault; 0: no native stacks at all)",
	  3 },
	{ "leak-after", KEY_LEAK_AFTER, "SEC", 0,
	  "--memory stacks: blocks that live longer may be leaked (default 10)", 3 },
	{ "budget", KEY_BUDGET, "PERCENT|off", 0,
	  "What probes may cost, of one CPU (default 2; with --off-cpu, --wakers, --memory live "
	  "or stacks 10): beyond it the dearest functions are timed in random windows, or not at "
	  "all",
	  3 },
	{ "raw", KEY_RAW, NULL, 0, "Do not take the price of inner probes off durations", 3 },
	{ "cpu-profile", KEY_CPU_PROFILE, "HZ", OPTION_ARG_OPTIONAL,
	  "Sample where its threads run, HZ times a second (49)", 3 },
	{ "off-cpu", KEY_OFF_CPU, NULL, 0,
	  "Follow where its threads wait, and how long; by function in the report", 3 },
	{ "off-cpu-min", KEY_OFF_CPU_MIN, "USEC", 0,
	  "The same, but not waits shorter than USEC microseconds", 3 },
	{ "by-thread", KEY_BY_THREAD, NULL, 0,
	  "Stacks of --cpu-profile and --off-cpu by the names of threads", 3 },
	{ "wakers", KEY_WAKERS, NULL, 0,
	  "The same as --off-cpu, and who ends the waits, with its stack", 3 },
	{ "profile-stacks", KEY_PROFILE_STACKS, "N", OPTION_HIDDEN, NULL, 3 },
	{ "empty-programs", KEY_EMPTY_PROGRAMS, NULL, OPTION_HIDDEN, NULL, 3 },
	{ "assume-seccomp-kills", KEY_ASSUME_SECCOMP_KILLS, NULL, OPTION_HIDDEN, NULL, 3 },
	{ "without", KEY_WITHOUT, "FEATURE,...", OPTION_HIDDEN, NULL, 3 },
	{ "rearm-always", KEY_REARM_ALWAYS, NULL, OPTION_HIDDEN, NULL, 3 },
	{ "verbose", 'v', NULL, 0, "Say more", 4 },
	{ NULL, 0, NULL, 0, NULL, 0 },
};

/* ---- what becomes of them ---- */

enum {
	TRACE = 1 << COMMAND_TRACE,
	LIST = 1 << COMMAND_LIST,
	CHECK = 1 << COMMAND_CHECK,
	REPORT = 1 << COMMAND_REPORT,
	FLAME = 1 << COMMAND_FLAME,
	ALL = ~0,
};

static const char *const exit_words[] = { "auto", "sites", "uretprobe", NULL };
static const char *const memory_words[] = { "off", "growth", "live", "stacks", NULL };
static const char *const allocator_words[] = { "auto", "rust", "malloc", "all", NULL };
static const char *const sort_words[] = { "total", "calls", "avg",  "p95",
					  "max",   "self",  "name", NULL };

#define WORDS(words, cnt) _Static_assert(sizeof(words) / sizeof(words[0]) == (cnt) + 1, #words)
WORDS(exit_words, OPTION_EXIT_CNT);
WORDS(memory_words, OPTION_MEMORY_CNT);
WORDS(allocator_words, OPTION_ALLOCATOR_CNT);
WORDS(sort_words, OPTION_SORT_CNT);

static const struct option_rule rules[] = {
#define AT(member) offsetof(struct options, member)
	{ 'p', TRACE | LIST | CHECK, VALUE_PIDS, AT(pids), 0, 0, NULL },
	{ KEY_NAME, TRACE, VALUE_STRING, AT(name), 0, 0, NULL },
	{ KEY_EXE, TRACE | LIST, VALUE_STRING, AT(exe), 0, 0, NULL },
	{ KEY_FOLLOW, TRACE, VALUE_FLAG, AT(follow), 0, 0, NULL },

	{ KEY_CRATE, TRACE | LIST | REPORT, VALUE_LIST, AT(crates), 0, 0, NULL },
	{ 'f', TRACE | LIST | REPORT, VALUE_LIST, AT(functions), 0, 0, NULL },
	{ KEY_EXCLUDE, TRACE | LIST | REPORT, VALUE_LIST, AT(excludes), 0, 0, NULL },
	{ KEY_PROFILE, TRACE | LIST, VALUE_STRING, AT(profile), 0, 0, NULL },
	{ KEY_DEBUG_FILE, TRACE | LIST, VALUE_STRING, AT(debug_file), 0, 0, NULL },
	{ KEY_NO_FUNCTIONS, TRACE | LIST, VALUE_FLAG, AT(no_functions), 0, 0, NULL },
	{ KEY_NO_THREADS, TRACE, VALUE_FLAG, AT(no_threads), 0, 0, NULL },
	{ KEY_STALL, TRACE, VALUE_SECONDS, AT(stall_s), 0.5, 0, NULL },

	{ 'd', TRACE, VALUE_SECONDS, AT(duration_s), 0.001, 0, NULL },
	{ 'i', TRACE, VALUE_SECONDS, AT(interval_s), MIN_INTERVAL_S, 0, NULL },
	{ 'o', TRACE | REPORT | FLAME, VALUE_LIST, AT(outputs), 0, 0, NULL },
	{ KEY_SORT, TRACE | REPORT, VALUE_WORD, AT(sort), 0, 0, sort_words },
	{ KEY_LIMIT, TRACE | REPORT, VALUE_COUNT, AT(limit), 1, 1e6, NULL },
	{ KEY_WIDTH, REPORT, VALUE_COUNT, AT(width), 40, 1e6, NULL },
	{ KEY_KIND, FLAME, VALUE_STRING, AT(kind), 0, 0, NULL },
	{ KEY_DIFF, FLAME, VALUE_STRING, AT(diff), 0, 0, NULL },

	{ KEY_EXIT, TRACE | LIST, VALUE_WORD, AT(exit), 0, 0, exit_words },
	{ KEY_MAY_KILL, TRACE, VALUE_FLAG, AT(may_kill), 0, 0, NULL },
	{ KEY_MEMORY, TRACE | LIST | CHECK, VALUE_WORD, AT(memory), 0, 0, memory_words },
	{ KEY_ALLOCATOR, TRACE | LIST | CHECK, VALUE_WORD, AT(allocator), 0, 0, allocator_words },
	{ KEY_MAX_BLOCKS, TRACE, VALUE_COUNT, AT(max_blocks), 1, MOST_BLOCKS, NULL },
	{ KEY_SAMPLE_BYTES, TRACE, VALUE_BYTES, AT(sample_bytes), 0, MOST_SAMPLE_BYTES, NULL },
	{ KEY_LEAK_AFTER, TRACE, VALUE_SECONDS, AT(leak_after_s), 0.1, 0, NULL },
	{ KEY_BUDGET, TRACE, VALUE_BUDGET, AT(budget), 0, 0, NULL },
	{ KEY_RAW, TRACE, VALUE_FLAG, AT(raw), 0, 0, NULL },
	{ KEY_CPU_PROFILE, TRACE, VALUE_HZ, AT(cpu_profile_hz), 1, MAX_HZ, NULL },
	{ KEY_OFF_CPU, TRACE, VALUE_FLAG, AT(off_cpu), 0, 0, NULL },
	{ KEY_OFF_CPU_MIN, TRACE, VALUE_COUNT, AT(off_cpu_min_us), 0, 1e6, NULL },
	{ KEY_BY_THREAD, TRACE, VALUE_FLAG, AT(by_thread), 0, 0, NULL },
	{ KEY_WAKERS, TRACE, VALUE_FLAG, AT(wakers), 0, 0, NULL },
	{ 'v', ALL, VALUE_FLAG, AT(verbose), 0, 0, NULL },

	/* for tests and benchmarks */
	{ KEY_PROFILE_STACKS, TRACE, VALUE_COUNT, AT(profile_stacks), 1, 1e6, NULL },
	{ KEY_EMPTY_PROGRAMS, TRACE, VALUE_FLAG, AT(empty_programs), 0, 0, NULL },
	{ KEY_ASSUME_SECCOMP_KILLS, TRACE, VALUE_FLAG, AT(assume_seccomp_kills), 0, 0, NULL },
	{ KEY_WITHOUT, TRACE | LIST | CHECK, VALUE_STRING, AT(without), 0, 0, NULL },
	{ KEY_REARM_ALWAYS, TRACE, VALUE_FLAG, AT(rearm_always), 0, 0, NULL },
#undef AT
};

const struct option_rule *options__rule(int key)
{
	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
		if (rules[i].key == key)
			return &rules[i];
	return NULL;
}

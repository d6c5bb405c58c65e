/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The command line, parsed by a table into a struct that is const from then on.
 */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

/* Exit codes of the program (the contract). */
enum exit_code {
	CODE_OK = 0,
	CODE_FAILED = 1,
	CODE_USAGE = 2,
	CODE_NO_PROCESS = 3,
	CODE_NOT_ALLOWED = 4, /* the machine or the rights; or the process might not survive it */
	/* as shells, env and timeout have it */
	CODE_BAD_COMMAND = 126, /* there, but it cannot be started */
	CODE_NO_COMMAND = 127,
};

enum option_sort {
	OPTION_SORT_TOTAL,
	OPTION_SORT_CALLS,
	OPTION_SORT_AVG,
	OPTION_SORT_P95,
	OPTION_SORT_MAX,
	OPTION_SORT_SELF,
	OPTION_SORT_NAME,
	OPTION_SORT_CNT,
};

enum option_exit {
	OPTION_EXIT_AUTO,
	OPTION_EXIT_SITES,
	OPTION_EXIT_URETPROBE,
	OPTION_EXIT_CNT,
};

enum option_memory {
	OPTION_MEMORY_OFF,
	OPTION_MEMORY_GROWTH,
	OPTION_MEMORY_LIVE,
	OPTION_MEMORY_STACKS,
	OPTION_MEMORY_CNT,
};

enum option_allocator {
	OPTION_ALLOCATOR_AUTO,
	OPTION_ALLOCATOR_RUST,
	OPTION_ALLOCATOR_MALLOC,
	OPTION_ALLOCATOR_ALL,
	OPTION_ALLOCATOR_CNT,
};

enum command { COMMAND_TRACE, COMMAND_LIST, COMMAND_CHECK, COMMAND_REPORT, COMMAND_FLAME };

struct str_list {
	const char **data;
	size_t cnt, cap;
};

struct options {
	enum command command;
	/* The process to trace: one of these. */
	int pid;	  /* 0: none; the first of several */
	const char *exe;  /* the one that runs this file; for list: the file itself */
	const char *name; /* the one of this name (comm) */
	char **argv;	  /* to be started; NULL at its end */
	struct {
		int *data;
		size_t cnt, cap;
	} pids;		  /* all of --pid */
	bool follow;	  /* the next one too, when it has ended */
	const char *file; /* report, flame: the snapshot, "-" standard input */
	const char *diff; /* flame: the older one; NULL: no difference */
	const char *kind; /* flame: which stacks; NULL: the first there are */
	struct str_list outputs, crates, functions, excludes;
	const char *profile;
	const char *debug_file; /* NULL: looked for */
	double duration_s;	/* 0: until Ctrl-C */
	double interval_s;	/* 0: the default */
	enum option_exit exit;
	enum option_memory memory;
	bool growth_given; /* not just the default: with native stacks */
	enum option_allocator allocator;
	unsigned int max_blocks;   /* of the table of live blocks */
	bool sample_given;	   /* only blocks of the sample are remembered */
	unsigned int sample_bytes; /* a block of so many bytes is in it with 63 %; 0: no sample */
	double leak_after_s;	   /* blocks older than this are survivors */
	double budget;		   /* share of one CPU; < 0: off */
	enum option_sort sort;
	unsigned int limit;	     /* rows per table; 0: all */
	unsigned int width;	     /* columns; 0: the terminal's */
	unsigned int cpu_profile_hz; /* 0: no CPU profile */
	bool off_cpu, wakers;
	unsigned int off_cpu_min_us;
	unsigned int profile_stacks; /* 0: the default */
	bool by_thread;
	bool may_kill; /* return probes although they may kill the target */
	bool no_functions, no_threads, raw, verbose;
	double stall_s;		   /* what hangs that long is told; 0: the default */
	const char *without;	   /* kernel features to take for missing (tests), or NULL */
	bool assume_seccomp_kills; /* for tests: as kernels 6.11 to 6.13 do */
	bool empty_programs;	   /* the floor of the benchmarks: probes that do nothing */
	bool rearm_always;	   /* all links are replaced at each tick, for tests */
};

/*
 * Parses; prints help or a usage error itself. Returns true to go on; else *code is the exit code.
 */
bool options__parse(int argc, char **argv, struct options *out, int *code);
void options__free(struct options *o);

#endif

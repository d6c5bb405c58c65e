/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the parts of the command line share. Private to options*.c: options_table.c says which
 * options there are, options_values.c reads their arguments, options.c what they mean together.
 */
#ifndef OPTIONS_PARTS_H
#define OPTIONS_PARTS_H

#include <argp.h>

#include "options.h"

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

/* What is done with an option's argument, and so what the member is: a bool; a const char *; a
 * struct str_list; a double of seconds, of at least min; an unsigned int from min to max; one of
 * words, which is an enum's value; the same in bytes, up to max; the ways that only one has. */
enum option_value {
	VALUE_FLAG,
	VALUE_STRING,
	VALUE_LIST,
	VALUE_SECONDS,
	VALUE_COUNT,
	VALUE_WORD,
	VALUE_BYTES,
	VALUE_PIDS,
	VALUE_BUDGET,
	VALUE_HZ,
};

struct option_rule {
	int key;
	unsigned int commands; /* 1 << enum command: those it means something to */
	enum option_value value;
	size_t at; /* of the member, in struct options */
	double min, max;
	const char *const *words; /* NULL at the end */
};

/* Ends with an entry without name, key and doc. */
extern const struct argp_option options_table[];
extern const char options_doc[], options_args_doc[];
/* NULL: it is no option. */
const struct option_rule *options__rule(int key);

/* Sets the rule's member from arg. Ends the program on what is no such value; 0 or ENOMEM. */
error_t options__set(struct argp_state *state, const struct option_rule *rule, const char *arg,
		     struct options *o);

#endif

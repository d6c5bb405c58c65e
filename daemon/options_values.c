/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Arguments of options: times with units, numbers with bounds, words of a list. What is none of
 * them ends the program with a line that says what would be one. Knows no single option but by the
 * name that it has to tell.
 */
#include "options_parts.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "base/vec.h"

#define DEFAULT_HZ 49 /* no multiple of what timers do */

static const char *name_of(const struct option_rule *rule)
{
	const struct argp_option *o = options_table;

	while (o->key != rule->key)
		o++;
	return o->name;
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

static void parse_seconds(struct argp_state *state, const struct option_rule *rule, const char *arg,
			  double *out)
{
	const char *unit;
	bool ok = parse_leading(arg, out, &unit);

	*out *= ok ? unit_s(unit) : 0;
	if (!ok || !unit_s(unit) || *out < rule->min || *out > 1e9)
		argp_error(state,
			   "--%s needs a time from %g to 1e9 seconds, as 10, 500ms, 1.5m or 2h: "
			   "'%s'",
			   name_of(rule), rule->min, arg);
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

static void parse_count(struct argp_state *state, const struct option_rule *rule, const char *arg,
			unsigned int *out)
{
	char *end;
	long v;

	errno = 0;
	v = strtol(arg, &end, 10);
	if (end == arg || *end || errno || (double)v < rule->min || (double)v > rule->max)
		argp_error(state, "--%s needs a number from %.0f to %.0f: '%s'", name_of(rule),
			   rule->min, rule->max, arg);
	*out = (unsigned int)v;
}

/* A number with a suffix: 512k. */
static void parse_bytes(struct argp_state *state, const struct option_rule *rule, const char *arg,
			unsigned int *out)
{
	unsigned long long max = (unsigned long long)rule->max;
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
			   "--%s needs a number of bytes up to %lluM, or one like 512k: '%s'",
			   name_of(rule), max >> 20, arg);
	*out = (unsigned int)v;
}

static void parse_word(struct argp_state *state, const struct option_rule *rule, const char *arg,
		       unsigned int *out)
{
	struct strbuf all = STRBUF_INIT;

	for (unsigned int i = 0; rule->words[i]; i++) {
		if (!strcmp(arg, rule->words[i])) {
			*out = i;
			strbuf__free(&all);
			return;
		}
		strbuf__addf(&all, "%s%s", i ? ", " : "", rule->words[i]);
	}
	argp_error(state, "--%s is one of %s: '%s'", name_of(rule), all.s, arg);
}

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

static error_t push(struct str_list *list, const char *s)
{
	const char **slot = vec__push(list);

	if (!slot)
		return ENOMEM;
	*slot = s;
	return 0;
}

error_t options__set(struct argp_state *state, const struct option_rule *rule, const char *arg,
		     struct options *o)
{
	void *member = (char *)o + rule->at;

	switch (rule->value) {
	case VALUE_FLAG:
		*(bool *)member = true;
		break;
	case VALUE_STRING:
		*(const char **)member = arg;
		break;
	case VALUE_LIST:
		return push(member, arg);
	case VALUE_SECONDS:
		parse_seconds(state, rule, arg, member);
		break;
	case VALUE_COUNT:
		parse_count(state, rule, arg, member);
		break;
	case VALUE_WORD:
		parse_word(state, rule, arg, member);
		break;
	case VALUE_BYTES:
		parse_bytes(state, rule, arg, member);
		break;
	case VALUE_PIDS:
		parse_pid(state, arg, o);
		break;
	case VALUE_BUDGET:
		parse_budget(state, arg, o);
		break;
	case VALUE_HZ:
		*(unsigned int *)member = DEFAULT_HZ;
		if (arg)
			parse_count(state, rule, arg, member);
		break;
	}
	return 0;
}

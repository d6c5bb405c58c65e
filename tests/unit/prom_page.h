/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A reader of Prometheus' text format that takes nothing which Prometheus would not: names, escapes
 * and UTF-8, HELP and TYPE before the samples of a family, no series twice.
 */
#ifndef TESTS_UNIT_PROM_PAGE_H
#define TESTS_UNIT_PROM_PAGE_H

#include <criterion/criterion.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/strbuf.h"
#include "base/utf8.h"
#include "export/export.h"
#include "snapshot/snapshot.h"

#define MAX_SAMPLES 8192
#define MAX_LABELS 12

struct sample {
	char *metric, *labels[MAX_LABELS][2], *value;
	size_t label_cnt;
	char *series; /* all before the value, as written */
};

struct page {
	char *text, *copy;
	struct sample samples[MAX_SAMPLES];
	size_t cnt;
	char *family[256], *type[256];
	size_t family_cnt;
};

static char *name_end(char *at, bool metric)
{
	char *s = at;

	while (isalnum((unsigned char)*at) || *at == '_' || (metric && *at == ':'))
		at++;
	cr_assert(at > s && !isdigit((unsigned char)*s), "no name at '%.30s'", s);
	return at;
}

/* Unescapes in place; the character behind the closing quote. */
static char *label_value(char *at, char **value)
{
	char *to = ++at;

	for (*value = to; *at != '"'; at++) {
		cr_assert(*at && *at != '\n', "an open label value: '%.60s'", *value);
		if (*at == '\\') {
			at++;
			cr_assert(*at == '\\' || *at == '"' || *at == 'n', "escape \\%c", *at);
			*to++ = *at == 'n' ? '\n' : *at;
		} else {
			*to++ = *at;
		}
	}
	at++;
	*to = '\0';
	return at;
}

static void parse_sample(struct page *p, char *line)
{
	struct sample *s = &p->samples[p->cnt++];
	char *at = name_end(line, true), *end;

	cr_assert_lt(p->cnt, (size_t)MAX_SAMPLES);
	s->series = p->copy + (line - p->text);
	s->metric = line;
	cr_assert_eq(*at, '{');
	while (*at == '{' || *at == ',') {
		char **label = s->labels[s->label_cnt++];

		*at++ = '\0';
		label[0] = at;
		at = name_end(at, false);
		cr_assert(at[0] == '=' && at[1] == '"');
		*at++ = '\0';
		at = label_value(at, &label[1]);
	}
	cr_assert(at[0] == '}' && at[1] == ' ', "'%.30s' behind the labels", at);
	p->copy[at - p->text + 1] = '\0';
	s->value = at + 2;
	if (strcmp(s->value, "NaN") != 0) {
		(void)strtod(s->value, &end);
		cr_assert(end > s->value && !*end, "value '%s'", s->value);
	}
}

/* Samples belong to the family whose HELP and TYPE came last, and each family comes once. */
static void parse_comment(struct page *p, char *line)
{
	char *name = line + 7, *rest = strchr(name, ' ');

	cr_assert(rest && rest[1]);
	*rest++ = '\0';
	if (!strncmp(line, "# HELP ", 7)) {
		for (size_t i = 0; i < p->family_cnt; i++)
			cr_assert_str_neq(p->family[i], name, "two of one family");
		p->family[p->family_cnt] = name;
		p->type[p->family_cnt++] = NULL;
		cr_assert_lt(p->family_cnt, 256u);
		cr_assert_null(strchr(rest, '\\'));
	} else {
		cr_assert_eq(strncmp(line, "# TYPE ", 7), 0, "%s", line);
		cr_assert_str_eq(p->family[p->family_cnt - 1], name);
		cr_assert(!strcmp(rest, "counter") || !strcmp(rest, "gauge") ||
			  !strcmp(rest, "histogram"));
		p->type[p->family_cnt - 1] = rest;
	}
}

static void check_family(const struct page *p, const struct sample *s)
{
	const char *family = p->family[p->family_cnt - 1], *type = p->type[p->family_cnt - 1];
	size_t len = strlen(family);
	bool total = len > 6 && !strcmp(family + len - 6, "_total");

	cr_assert(type, "no TYPE for %s", family);
	cr_assert_eq(strncmp(s->metric, family, len), 0, "%s in %s", s->metric, family);
	cr_assert_eq(total, !strcmp(type, "counter"), "%s is a %s", family, type);
	if (!strcmp(type, "histogram"))
		cr_assert(!strcmp(s->metric + len, "_bucket") || !strcmp(s->metric + len, "_sum") ||
			  !strcmp(s->metric + len, "_count"));
	else
		cr_assert_str_eq(s->metric, family);
}

static int by_series(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void check_distinct(const struct page *p)
{
	char **series = calloc(p->cnt + 1, sizeof(*series));

	for (size_t i = 0; i < p->cnt; i++)
		series[i] = p->samples[i].series;
	qsort(series, p->cnt, sizeof(*series), by_series);
	for (size_t i = 1; i < p->cnt; i++)
		cr_assert_str_neq(series[i - 1], series[i], "two of one series");
	free(series);
}

static struct page *render(const struct snapshot *s)
{
	struct page *p = calloc(1, sizeof(*p));
	struct strbuf doc = STRBUF_INIT;
	size_t n;

	cr_assert_eq(export_prom.render(s, &doc), 0);
	for (size_t i = 0; i < doc.len; i += n) {
		bool is_fffd = !strncmp(doc.s + i, "\xef\xbf\xbd", 3);

		cr_assert(utf8__decode(doc.s + i, doc.len - i, &n) != UTF8_BAD || is_fffd,
			  "not UTF-8");
	}
	p->text = strbuf__take(&doc);
	p->copy = strdup(p->text);
	for (char *line = p->text, *end; *line; line = end + 1) {
		end = strchr(line, '\n');
		cr_assert(end, "no line end at the end");
		*end = '\0';
		if (*line == '#') {
			parse_comment(p, line);
		} else {
			parse_sample(p, line);
			check_family(p, &p->samples[p->cnt - 1]);
		}
	}
	check_distinct(p);
	return p;
}

static void page__free(struct page *p)
{
	free(p->text);
	free(p->copy);
	free(p);
}

static const char *label(const struct sample *s, const char *name)
{
	for (size_t i = 0; i < s->label_cnt; i++)
		if (!strcmp(s->labels[i][0], name))
			return s->labels[i][1];
	return NULL;
}

/* The sample of a metric (of a function; with le: of a bucket), or NULL. */
static const struct sample *find(const struct page *p, const char *metric, const char *function,
				 const char *le)
{
	for (size_t i = 0; i < p->cnt; i++) {
		const struct sample *s = &p->samples[i];

		if (!strcmp(s->metric, metric) &&
		    (!function || !strcmp(label(s, "function") ?: "", function)) &&
		    (!le || !strcmp(label(s, "le") ?: "", le)))
			return s;
	}
	return NULL;
}

static const char *value(const struct page *p, const char *metric, const char *function,
			 const char *le)
{
	const struct sample *s = find(p, metric, function, le);

	cr_assert(s, "no %s of '%s' le '%s'", metric, function ? function : "", le ? le : "");
	return s->value;
}

static uint64_t num(const struct page *p, const char *metric, const char *function, const char *le)
{
	const char *text = value(p, metric, function, le);

	cr_assert(!text[strspn(text, "0123456789")], "%s is no integer: %s", metric, text);
	return strtoull(text, NULL, 10);
}

static void expect_seconds(const char *text, uint64_t ns)
{
	char want[48];

	snprintf(want, sizeof(want), "%llu.%09llu", (unsigned long long)(ns / 1000000000),
		 (unsigned long long)(ns % 1000000000));
	cr_expect_str_eq(text, want);
}

#endif

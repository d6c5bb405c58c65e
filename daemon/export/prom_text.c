/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The words of Prometheus' text format: label values, which are escaped and valid UTF-8 whatever a
 * program's symbols or threads are called, and numbers. Knows nothing of snapshots.
 */
#include "export/prom.h"

#include <inttypes.h>
#include <string.h>

#include "base/strbuf.h"
#include "base/utf8.h"

static bool is_shown(uint32_t c)
{
	return c == '\t' || c == '\n' || (c >= 0x20 && c < 0x7f) || c >= 0xa0;
}

void prom__value(struct strbuf *out, const char *s, size_t len)
{
	size_t n;

	for (; len; s += n, len -= n) {
		uint32_t c = utf8__decode(s, len, &n);

		if (c == '\n')
			strbuf__add(out, "\\n", 2);
		else if (c == '"' || c == '\\')
			strbuf__addf(out, "\\%c", (int)c);
		else
			utf8__encode(out, is_shown(c) ? c : UTF8_BAD);
	}
}

void prom__label(struct strbuf *out, const char *name, const char *value)
{
	strbuf__addf(out, "%s=\"", name);
	prom__value(out, value ? value : "", value ? strlen(value) : 0);
	strbuf__addc(out, '"');
}

void prom__seconds(struct strbuf *out, uint64_t ns)
{
	strbuf__addf(out, "%" PRIu64 ".%09" PRIu64, ns / 1000000000, ns % 1000000000);
}

void prom__head(struct strbuf *out, const char *metric, const char *type, const char *help)
{
	strbuf__addf(out, "# HELP %s %s\n# TYPE %s %s\n", metric, help, metric, type);
}

void prom__uint(struct strbuf *out, const char *origin, const char *metric, const char *type,
		uint64_t v, const char *help)
{
	prom__head(out, metric, type, help);
	strbuf__addf(out, "%s{%s} %" PRIu64 "\n", metric, origin, v);
}

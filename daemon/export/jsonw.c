/* SPDX-License-Identifier: BSD-2-Clause */
#include "export/jsonw.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

static void before_value(struct jsonw *w)
{
	if (w->comma && !w->keyed)
		strbuf__addc(w->out, ',');
	w->keyed = false;
	w->comma = true;
}

void jsonw__open(struct jsonw *w, char bracket)
{
	before_value(w);
	strbuf__addc(w->out, bracket);
	w->comma = false;
}

void jsonw__close(struct jsonw *w, char bracket)
{
	strbuf__addc(w->out, bracket);
	w->comma = true;
}

void jsonw__key(struct jsonw *w, const char *key)
{
	size_t len = strlen(key), n = 0;
	char *text = strbuf__room(w->out, len + 4);

	if (!text)
		return;
	if (w->comma)
		text[n++] = ',';
	text[n++] = '"';
	memcpy(text + n, key, len);
	n += len;
	text[n++] = '"';
	text[n++] = ':';
	strbuf__took(w->out, n);
	w->comma = w->keyed = true;
}

void jsonw__line(struct jsonw *w)
{
	if (w->comma)
		strbuf__addc(w->out, ',');
	w->comma = false;
	strbuf__addc(w->out, '\n');
}

void jsonw__null(struct jsonw *w)
{
	before_value(w);
	strbuf__add(w->out, "null", 4);
}

void jsonw__bool(struct jsonw *w, bool v)
{
	before_value(w);
	strbuf__adds(w->out, v ? "true" : "false");
}

/* The comma goes in with the digits: histograms are long. */
static void put_decimal(struct jsonw *w, uint64_t v, bool negative)
{
	char text[24];
	size_t at = sizeof(text);

	do
		text[--at] = (char)('0' + v % 10);
	while (v /= 10);
	if (negative)
		text[--at] = '-';
	if (w->comma && !w->keyed)
		text[--at] = ',';
	strbuf__add(w->out, text + at, sizeof(text) - at);
	w->comma = true;
	w->keyed = false;
}

void jsonw__int(struct jsonw *w, int64_t v)
{
	put_decimal(w, v < 0 ? -(uint64_t)v : (uint64_t)v, v < 0);
}

void jsonw__uint(struct jsonw *w, uint64_t v)
{
	if (v > INT64_MAX) {
		jsonw__real(w, (double)v);
		return;
	}
	put_decimal(w, v, false);
}

void jsonw__real(struct jsonw *w, double v)
{
	char text[32];
	char *comma;

	if (!isfinite(v)) {
		jsonw__null(w);
		return;
	}
	before_value(w);
	/* rows of what was never called are many */
	if (v == 0 && !signbit(v)) {
		strbuf__add(w->out, "0.0", 3);
		return;
	}
	for (int digits = 15; digits <= 17; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, v);
		if (strtod(text, NULL) == v)
			break;
	}
	comma = strchr(text, ','); /* some locales */
	if (comma)
		*comma = '.';
	strbuf__adds(w->out, text);
	if (!strpbrk(text, ".e"))
		strbuf__add(w->out, ".0", 2);
}

static void add_escaped(struct strbuf *out, uint32_t c)
{
	if (c == '"' || c == '\\') {
		strbuf__addc(out, '\\');
		strbuf__addc(out, (char)c);
	} else if (c < 0x20 || c == 0x7f) {
		strbuf__addf(out, "\\u%04x", (unsigned int)c);
	} else {
		utf8__encode(out, c);
	}
}

static size_t plain_prefix(const char *s, size_t len)
{
	size_t n = 0;

	while (n < len && s[n] >= 0x20 && s[n] < 0x7f && s[n] != '"' && s[n] != '\\')
		n++;
	return n;
}

void jsonw__string(struct jsonw *w, const char *s)
{
	size_t len, n;

	if (!s) {
		jsonw__null(w);
		return;
	}
	before_value(w);
	strbuf__addc(w->out, '"');
	for (len = strlen(s); len; s += n, len -= n) {
		n = plain_prefix(s, len);
		if (n)
			strbuf__add(w->out, s, n);
		else
			add_escaped(w->out, utf8__decode(s, len, &n));
	}
	strbuf__addc(w->out, '"');
}

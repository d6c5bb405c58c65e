/* SPDX-License-Identifier: BSD-2-Clause */
#include "ui/text.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/rust_name.h"
#include "base/strbuf.h"
#include "base/utf8.h"

/* 3 significant digits of v / unit; false when that rounds to 1000 or more. */
static bool three_digits(char out[TEXT_CELL], double v, const char *unit)
{
	int decimals = v < 9.995 ? 2 : v < 99.95 ? 1 : 0;

	snprintf(out, TEXT_CELL, "%.*f%s", decimals, v, unit);
	return v < 999.5;
}

void text__duration(char out[TEXT_CELL], uint64_t ns)
{
	if (ns < 1000)
		snprintf(out, TEXT_CELL, "%uns", (unsigned int)ns);
	else if (!three_digits(out, (double)ns / 1e3, "µs") &&
		 !three_digits(out, (double)ns / 1e6, "ms") &&
		 !three_digits(out, (double)ns / 1e9, "s") && ns >= 9999500000000ull)
		(void)(three_digits(out, (double)ns / 3.6e12, "h") ||
		       three_digits(out, (double)ns / 8.64e13, "d"));
}

void text__count(char out[TEXT_CELL], uint64_t n, unsigned int columns)
{
	int len = snprintf(out, TEXT_CELL, "%llu", (unsigned long long)n);

	if ((unsigned int)len <= columns)
		return;
	(void)(three_digits(out, (double)n / 1e3, "k") || three_digits(out, (double)n / 1e6, "M") ||
	       three_digits(out, (double)n / 1e9, "G") ||
	       three_digits(out, (double)n / 1e12, "T") ||
	       three_digits(out, (double)n / 1e15, "P") ||
	       three_digits(out, (double)n / 1e18, "E"));
}

void text__percent(char out[TEXT_CELL], double ratio)
{
	double percent = ratio * 100;

	if (!(percent > 0))
		strcpy(out, "0%");
	else if (percent < 0.005)
		strcpy(out, "<0.01%");
	else
		(void)three_digits(out, percent, "%");
}

void text__cell(struct strbuf *out, const char *s, int width, enum text_style style, bool colour)
{
	static const char *const codes[] = {
		[STYLE_PLAIN] = "",	   [STYLE_BOLD] = "\x1b[1m",  [STYLE_DIM] = "\x1b[2m",
		[STYLE_FLOOR] = "\x1b[2m", [STYLE_WARM] = "\x1b[33m", [STYLE_HOT] = "\x1b[31m"
	};
	int pad = abs(width) - (int)utf8__width(s);

	colour = colour && style != STYLE_PLAIN;
	for (int i = pad; width > 0 && i > 0; i--)
		strbuf__addc(out, ' ');
	if (colour)
		strbuf__adds(out, codes[style]);
	strbuf__adds(out, s);
	if (colour)
		strbuf__adds(out, "\x1b[0m");
	for (int i = pad; width < 0 && i > 0; i--)
		strbuf__addc(out, ' ');
}

void text__clip(struct strbuf *out, const char *line, size_t len, unsigned int columns)
{
	const char *end = line + len;
	size_t n;

	for (unsigned int width = 0; line < end; line += n) {
		uint32_t c = utf8__decode(line, (size_t)(end - line), &n);

		if (c == '\x1b') {
			const char *m = memchr(line, 'm', (size_t)(end - line));

			n = m ? (size_t)(m + 1 - line) : (size_t)(end - line);
		} else {
			width += utf8__columns(c);
			if (width > columns)
				continue;
		}
		strbuf__add(out, line, n);
	}
}

/* Part of a path: what may stand before "::" inside a type, "{impl#3}" included. */
static bool in_path(char c)
{
	return c == '_' || c == '$' || c == ':' || (c >= '0' && c <= '9') ||
	       (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (unsigned char)c >= 0x80;
}

/* The last segment of the path [s, end). */
static const char *last_segment(const char *s, const char *end)
{
	const char *at = end;

	while (at > s && at[-1] != ':')
		at--;
	return at < end ? at : s;
}

/* The '>' that closes the '<' at s, or the end of the string. Arrows ("->") do not count. */
static const char *closing(const char *s)
{
	int depth = 0;

	for (const char *at = s; *at; at++) {
		if (*at == '<')
			depth++;
		else if (*at == '>' && at[-1] != '-' && --depth == 0)
			return at;
	}
	return s + strlen(s);
}

/* a::f::{{closure}}  ->  a::f{}, as in flamegraphs; a closure in a closure is f{2}. Those with a
 * number have to stay apart. */
static void short_closures(struct strbuf *out, const char *s)
{
	while (*s) {
		unsigned int cnt = 0;
		bool first = true;
		size_t len;

		while ((len = rust_name__closure(s, &first)) && first) {
			s += len;
			cnt++;
		}
		if (cnt == 1)
			strbuf__adds(out, "{}");
		else if (cnt)
			strbuf__addf(out, "{%u}", cnt);
		else
			strbuf__addc(out, *s++);
	}
}

/* <a::b::C<d::E> as f::G>::h  ->  <C<E> as G>::h */
static void short_types(struct strbuf *out, const char *s)
{
	const char *end;
	int depth = 0;

	while (*s) {
		if (depth > 0 && in_path(*s)) {
			for (end = s; in_path(*end);)
				end++;
			/* a leading "::" goes on from a bracket: <X>::Assoc */
			if (*s != ':')
				s = last_segment(s, end);
			strbuf__add(out, s, (size_t)(end - s));
			s = end;
			continue;
		}
		if (*s == '<')
			depth++;
		else if (*s == '>' && out->len && out->s[out->len - 1] != '-')
			depth--;
		strbuf__addc(out, *s++);
	}
}

/* <C<E> as G>::h::<T>  ->  <C<…> as G>::h::<…>,  m::<impl G for C<E>>::h  ->  m::<C<…>>::h */
static void no_arguments(struct strbuf *out, const char *s)
{
	while (*s) {
		const char *end = *s == '<' ? closing(s) : s, *type = NULL;

		if (*s == '<' && !strncmp(s, "<impl ", 6))
			type = strstr(s, " for ");
		if (type && type < end) {
			strbuf__addc(out, '<');
			s = type + 5;
		} else if (*s == '<' && out->len && in_path(out->s[out->len - 1])) {
			strbuf__adds(out, "<…");
			s = end;
		} else {
			strbuf__addc(out, *s++);
		}
	}
}

/*
 * The last columns of s that fit, whole characters, no combining one first; from a "::" on when
 * less than 3 characters of the segment before it would be left.
 */
static const char *tail_of(const char *s, size_t columns)
{
	size_t width = utf8__width(s), len = strlen(s), n;

	for (; len; s += n, len -= n) {
		uint32_t c = utf8__decode(s, len, &n);

		if (width <= columns && utf8__columns(c))
			break;
		width -= utf8__columns(c);
	}
	for (int i = 1; i < 3 && len > 8; i++)
		if (s[i] == ':' && s[i - 1] != ':')
			return s + i;
	return len > 8 && s[0] == ':' && s[1] != ':' ? s + 1 : s;
}

void text__name(struct strbuf *out, const char *name, size_t width)
{
	static void (*const shorten[])(
		struct strbuf *, const char *) = { short_closures, short_types, no_arguments };
	struct strbuf now = STRBUF_INIT, next = STRBUF_INIT;

	utf8__add_printable(&now, name);
	for (size_t i = 0; i < 3 && utf8__width(now.s) > width; i++) {
		strbuf__reset(&next);
		shorten[i](&next, now.s);
		strbuf__reset(&now);
		strbuf__adds(&now, next.s);
	}
	if (utf8__width(now.s) > width) {
		strbuf__adds(out, "…");
		strbuf__adds(out, tail_of(now.s, width - 1));
	} else {
		strbuf__adds(out, now.s);
	}
	out->oom |= now.oom || next.oom;
	strbuf__free(&now);
	strbuf__free(&next);
}

static bool terminal_size(FILE *f, struct winsize *ws)
{
	int fd = fileno(f);

	return fd >= 0 && isatty(fd) && ioctl(fd, TIOCGWINSZ, ws) == 0;
}

static unsigned int from_env(const char *name, unsigned int otherwise)
{
	const char *v = getenv(name);
	long n = v ? strtol(v, NULL, 10) : 0;

	return n > 0 && n < 10000 ? (unsigned int)n : otherwise;
}

unsigned int text__terminal_columns(FILE *f)
{
	struct winsize ws;

	if (!terminal_size(f, &ws))
		return 80;
	return ws.ws_col ? ws.ws_col : from_env("COLUMNS", 80);
}

unsigned int text__terminal_rows(FILE *f)
{
	struct winsize ws;

	if (!terminal_size(f, &ws))
		return 24;
	return ws.ws_row ? ws.ws_row : from_env("LINES", 24);
}

void text__gap(struct strbuf *out)
{
	if (out->len && (out->len < 2 || memcmp(out->s + out->len - 2, "\n\n", 2)))
		strbuf__addc(out, '\n');
}

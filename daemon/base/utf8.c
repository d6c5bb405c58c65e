/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/utf8.h"

#include <stdbool.h>
#include <string.h>

#include "base/strbuf.h"

/* The second byte's range says more than 80..bf: no overlong form, no surrogate, no > 10ffff. */
static const struct {
	uint8_t first_lo, first_hi, second_lo, second_hi, bytes;
} forms[] = {
	{ 0xc2, 0xdf, 0x80, 0xbf, 2 }, { 0xe0, 0xe0, 0xa0, 0xbf, 3 }, { 0xe1, 0xec, 0x80, 0xbf, 3 },
	{ 0xed, 0xed, 0x80, 0x9f, 3 }, { 0xee, 0xef, 0x80, 0xbf, 3 }, { 0xf0, 0xf0, 0x90, 0xbf, 4 },
	{ 0xf1, 0xf3, 0x80, 0xbf, 4 }, { 0xf4, 0xf4, 0x80, 0x8f, 4 },
};

uint32_t utf8__decode(const char *s, size_t len, size_t *bytes)
{
	const uint8_t *b = (const uint8_t *)s;
	uint32_t c;

	*bytes = 1;
	if (b[0] < 0x80)
		return b[0];
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		if (b[0] < forms[i].first_lo || b[0] > forms[i].first_hi)
			continue;
		if (len < 2 || b[1] < forms[i].second_lo || b[1] > forms[i].second_hi)
			return UTF8_BAD;
		c = (uint32_t)(b[0] & (0x7f >> forms[i].bytes)) << 6 | (b[1] & 0x3f);
		for (*bytes = 2; *bytes < forms[i].bytes; (*bytes)++) {
			if (*bytes >= len || (b[*bytes] & 0xc0) != 0x80)
				return UTF8_BAD;
			c = c << 6 | (b[*bytes] & 0x3f);
		}
		return c;
	}
	return UTF8_BAD;
}

void utf8__encode(struct strbuf *out, uint32_t c)
{
	if (c < 0x80) {
		strbuf__addc(out, (char)c);
		return;
	}
	if (c < 0x800) {
		strbuf__addc(out, (char)(0xc0 | c >> 6));
	} else {
		if (c < 0x10000) {
			strbuf__addc(out, (char)(0xe0 | c >> 12));
		} else {
			strbuf__addc(out, (char)(0xf0 | c >> 18));
			strbuf__addc(out, (char)(0x80 | (c >> 12 & 0x3f)));
		}
		strbuf__addc(out, (char)(0x80 | (c >> 6 & 0x3f)));
	}
	strbuf__addc(out, (char)(0x80 | (c & 0x3f)));
}

struct range {
	uint32_t lo, hi;
};

static bool in_ranges(uint32_t c, const struct range *r, size_t cnt)
{
	for (size_t i = 0; i < cnt; i++)
		if (c >= r[i].lo && c <= r[i].hi)
			return true;
	return false;
}

/* What identifiers (UAX 31) can hold, not all of Unicode: wcwidth would depend on the locale. */
unsigned int utf8__columns(uint32_t c)
{
	static const struct range zero[] = {
		{ 0x300, 0x36f },   { 0x483, 0x489 },	{ 0x591, 0x5bd },   { 0x610, 0x61a },
		{ 0x64b, 0x65f },   { 0x1ab0, 0x1aff }, { 0x1dc0, 0x1dff }, { 0x200b, 0x200f },
		{ 0x20d0, 0x20ff }, { 0xfe00, 0xfe0f }, { 0xfe20, 0xfe2f }, { 0xe0100, 0xe01ef }
	};
	static const struct range wide[] = { { 0x1100, 0x115f },   { 0x2e80, 0xa4cf },
					     { 0xac00, 0xd7a3 },   { 0xf900, 0xfaff },
					     { 0xfe30, 0xfe6f },   { 0xff00, 0xff60 },
					     { 0xffe0, 0xffe6 },   { 0x1f300, 0x1f64f },
					     { 0x1f680, 0x1f6ff }, { 0x1f900, 0x1f9ff },
					     { 0x20000, 0x3fffd } };

	if (c < 0x300)
		return 1;
	if (in_ranges(c, zero, sizeof(zero) / sizeof(zero[0])))
		return 0;
	return in_ranges(c, wide, sizeof(wide) / sizeof(wide[0])) ? 2 : 1;
}

size_t utf8__width(const char *s)
{
	size_t len = strlen(s), width = 0, n;

	for (; len; s += n, len -= n)
		width += utf8__columns(utf8__decode(s, len, &n));
	return width;
}

static bool unprintable(uint32_t c)
{
	return c < 0x20 || (c >= 0x7f && c < 0xa0) || (c >= 0x200b && c <= 0x200f) ||
	       (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x2069) || c == 0xfeff;
}

void utf8__add_printable(struct strbuf *out, const char *s)
{
	size_t len = strlen(s), n;

	for (; len; s += n, len -= n) {
		uint32_t c = utf8__decode(s, len, &n);

		utf8__encode(out, unprintable(c) ? UTF8_BAD : c);
	}
}

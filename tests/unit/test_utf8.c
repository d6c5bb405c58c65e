/* SPDX-License-Identifier: BSD-2-Clause */
#include <criterion/criterion.h>

#include "base/strbuf.h"
#include "base/utf8.h"

#define BAD "\xef\xbf\xbd"

static const struct {
	const char *in, *out;
	size_t width;
} cases[] = {
	{ "plain", "plain", 5 },
	{ "größe µs", "größe µs", 8 },
	{ "计算", "计算", 4 },
	{ "e\xcc\x81", "e\xcc\x81", 1 },
	{ "\xff\xfe", BAD BAD, 2 },
	{ "cut \xe2\x82", "cut " BAD, 5 },
	{ "\xe2\x82(", BAD "(", 2 },
	{ "\xc0\xaf", BAD BAD, 2 },		       /* overlong */
	{ "\xe0\x80\x80", BAD BAD BAD, 3 },	       /* overlong */
	{ "\xed\xa0\x80", BAD BAD BAD, 3 },	       /* a surrogate */
	{ "\xf4\x90\x80\x80", BAD BAD BAD BAD, 4 },    /* above 10ffff */
	{ "\xf0\x9f\xa6\x80", "\xf0\x9f\xa6\x80", 2 }, /* a crab */
	{ "\xf0\x9f\xa6", BAD, 1 },
	{ "a\x1b[31mb\n\t\x7f", "a" BAD "[31mb" BAD BAD BAD, 10 },
	{ "\xc2\x9b"
	  "31m",
	  BAD "31m", 4 },		      /* C1: also begins an escape sequence */
	{ "x\xe2\x80\xaey", "x" BAD "y", 3 }, /* right-to-left override */
};

Test(utf8, printable)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct strbuf out = STRBUF_INIT;

		utf8__add_printable(&out, cases[i].in);
		cr_expect_str_eq(out.s, cases[i].out, "case %zu: '%s'", i, out.s);
		cr_expect_eq(utf8__width(out.s), cases[i].width, "case %zu: width %zu", i,
			     utf8__width(out.s));
		strbuf__free(&out);
	}
}

Test(utf8, every_character_survives)
{
	for (uint32_t c = 1; c <= 0x10ffff; c += c < 0x11000 ? 1 : 97) {
		struct strbuf out = STRBUF_INIT;
		size_t n;

		if (c >= 0xd800 && c < 0xe000)
			continue;
		utf8__encode(&out, c);
		cr_assert_eq(utf8__decode(out.s, out.len, &n), c);
		cr_assert_eq(n, out.len);
		strbuf__free(&out);
	}
}

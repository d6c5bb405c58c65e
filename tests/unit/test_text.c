/* SPDX-License-Identifier: BSD-2-Clause */
#include <criterion/criterion.h>
#include <stdio.h>

#include "base/strbuf.h"
#include "base/utf8.h"
#include "synth.h"
#include "ui/text.h"

static const struct {
	uint64_t ns;
	const char *text;
} durations[] = {
	{ 0, "0ns" },
	{ 999, "999ns" },
	{ 1000, "1.00µs" },
	{ 1234, "1.23µs" },
	{ 9994, "9.99µs" },
	{ 9996, "10.0µs" },
	{ 99960, "100µs" },
	{ 999499, "999µs" },
	{ 999500, "1.00ms" },
	{ 20000000, "20.0ms" },
	{ 1230000000, "1.23s" },
	{ 999400000000, "999s" },
	{ 3600000000000, "3600s" },
	{ 9999400000000, "9999s" },
	{ 10008000000000, "2.78h" },
	{ 864000000000000000, "10000d" },
	{ UINT64_MAX, "213504d" },
};

Test(text, durations)
{
	char out[TEXT_CELL];

	for (size_t i = 0; i < sizeof(durations) / sizeof(durations[0]); i++) {
		text__duration(out, durations[i].ns);
		cr_expect_str_eq(out, durations[i].text, "%llu: %s",
				 (unsigned long long)durations[i].ns, out);
		cr_expect_leq(utf8__width(out), 7);
	}
}

Test(text, counts_and_percents)
{
	char out[TEXT_CELL];

	text__count(out, 12345678, 8);
	cr_expect_str_eq(out, "12345678");
	text__count(out, 123456789, 8);
	cr_expect_str_eq(out, "123M");
	text__count(out, 9999999, 6);
	cr_expect_str_eq(out, "10.0M");
	text__count(out, UINT64_MAX, 8);
	cr_expect_str_eq(out, "18.4E");
	text__percent(out, 0);
	cr_expect_str_eq(out, "0%");
	text__percent(out, 0.00001);
	cr_expect_str_eq(out, "<0.01%");
	text__percent(out, 0.0123);
	cr_expect_str_eq(out, "1.23%");
	text__percent(out, 0.99996);
	cr_expect_str_eq(out, "100%");
	text__percent(out, 12.34);
	cr_expect_str_eq(out, "1234%");
}

static const struct {
	const char *name;
	size_t width;
	const char *text;
} names[] = {
	{ "role::main", 10, "role::main" },
	{ "role::sv1::Downstream::submit", 22, "…::Downstream::submit" },
	{ "<a::b::Foo as core::fmt::Debug>::fmt", 21, "<Foo as Debug>::fmt" },
	{ "<a::Foo as core::ops::Fn(u8) -> b::Bar>::call", 40, "<Foo as Fn(u8) -> Bar>::call" },
	{ "r::map::<alloc::vec::Vec<a::Long>, fn(u8) -> u8>", 20, "r::map::<…>" },
	{ "m::<impl a::Trait for b::Type<T>>::go", 20, "m::<Type<…>>::go" },
	{ "m::n::<impl a::Trait for b::Type>::{{closure}}", 20, "m::n::<Type>{}" },
	{ "role::main::{{closure}}", 23, "role::main::{{closure}}" },
	{ "role::main::{{closure}}", 22, "role::main{}" },
	{ "role::main::{{closure}}::{{closure}}::f", 17, "role::main{2}::f" },
	{ "role::main::{closure#0}", 22, "role::main{}" },
	{ "role::main::{closure#10}", 22, "…::main::{closure#10}" },
	{ "role::main::{closure#0}::{closure#1}", 30, "role::main{}::{closure#1}" },
	{ "a::<unbalanced", 10, "a::<…" },
	{ "données::计算::哈希率哈希率", 12, "…希率哈希率" },
};

Test(text, names_are_shortened_to_fit)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct strbuf out = STRBUF_INIT;

		text__name(&out, names[i].name, names[i].width);
		cr_expect_str_eq(out.s, names[i].text, "%zu: %s", i, out.s);
		cr_expect_leq(utf8__width(out.s), names[i].width, "%zu: %s", i, out.s);
		strbuf__free(&out);
	}
}

Test(text, names_of_any_width_fit)
{
	for (size_t i = 0; i < SYNTH_FNS; i++)
		for (size_t width = 1; width < 300; width++) {
			struct strbuf out = STRBUF_INIT;

			text__name(&out, synth_names[i], width);
			cr_assert_leq(utf8__width(out.s), width, "%s", out.s);
			strbuf__free(&out);
		}
}

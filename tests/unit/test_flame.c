/* SPDX-License-Identifier: BSD-2-Clause */
#include <criterion/criterion.h>

#include "base/rust_name.h"
#include "base/strbuf.h"
#include "export/export.h"
#include "export/flame.h"
#include "synth.h"
#include "synth_stacks.h"

/* name, label, folded (NULL: as the label) */
static const char *const names[][3] = {
	{ "main", "main", NULL },
	{ "", "", NULL },
	{ "a::f::{{closure}}", "a::f{}", NULL },
	{ "a::f::{{closure}}::{{closure}}", "a::f{2}", NULL },
	{ "a::f::{closure#0}::{closure#12}::{closure}", "a::f{3}", NULL },
	{ "a::f::{{closure}}::g::{{closure}}", "a::f{}::g{}", NULL },
	{ "a::f::{{vtable.shim}}", "a::f{shim}", NULL },
	{ "core::FnOnce::call_once{{vtable.shim}}", "core::FnOnce::call_once{shim}", NULL },
	{ "a::f::{{vtable.shi}}", "a::f::{{vtable.shi}}", NULL },
	{ "<std::sys::thread::Thread>::new::thread_start",
	  "<std::sys::thread::Thread>::new::thread_start", "Thread::new::thread_start" },
	{ "<a::b::X<c::D, e::F>>::f::<g::H>", "<a::b::X<c::D, e::F>>::f::<g::H>", "X<…>::f<…>" },
	{ "<dyn a::T>::f", "<dyn a::T>::f", "<dyn T>::f" },
	{ "<a::X>", "<a::X>", "<X>" },
	{ "m::<a::X>::f", "m::<a::X>::f", "m<…>::f" },
	{ "a::f::{closure#x}", "a::f::{closure#x}", NULL },
	{ "a::f::h0123456789abcdef", "a::f", NULL },
	{ "a::f::h0123456789abcdef::g", "a::f::h0123456789abcdef::g", NULL },
	{ "a::f::h0123456789abcde", "a::f::h0123456789abcde", NULL },
	{ "alloc::vec::Vec<a::T,A>::push", "alloc::vec::Vec<a::T,A>::push",
	  "alloc::vec::Vec<…>::push" },
	{ "a::map::<b::V<c::D>, fn(u32) -> o::Option<u8>>",
	  "a::map::<b::V<c::D>, fn(u32) -> o::Option<u8>>", "a::map<…>" },
	{ "<a::b::X as c::T>::f", "<a::b::X as c::T>::f", "<X as T>::f" },
	{ "<a::X<b::Y> as c::T<d::E>>::f::{{closure}}", "<a::X<b::Y> as c::T<d::E>>::f{}",
	  "<X<…> as T<…>>::f{}" },
	{ "<&mut a::X as c::T>::f", "<&mut a::X as c::T>::f", "<&mut X as T>::f" },
	{ "<(a::X, b::Y) as c::T>::f", "<(a::X, b::Y) as c::T>::f", "<(X, Y) as T>::f" },
	{ "<[u8; 32] as a::H>::hash", "<[u8; 32] as a::H>::hash", "<[u8; 32] as H>::hash" },
	{ "<[T]>::sort", "<[T]>::sort", NULL },
	{ "<<a::X as b::I>::Item as c::T>::f", "<<a::X as b::I>::Item as c::T>::f",
	  "<Item as T>::f" },
	{ "x::y::<impl a::T for b::Y>::f", "x::y::<impl a::T for b::Y>::f",
	  "x::y::<impl T for Y>::f" },
	{ "données::größe<计::T>::计算", "données::größe<计::T>::计算", "données::größe<…>::计算" },
	{ "std::operator<<(int)", "std::operator<<(int)", NULL },
	{ "a<b", "a<b", NULL },
	{ "a>b<<::", "a>b<<::", NULL },
	{ "operator->", "operator->", NULL },
	{ "[truncated: no_rows]", "[truncated: no_rows]", NULL },
	{ "::", "::", NULL },
	{ "<", "<", NULL },
	{ "<>", "<>", NULL },
	{ ">::{{closure}}<", ">{}<", NULL },
};

Test(flame, names_are_made_readable)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct strbuf label = STRBUF_INIT, folded = STRBUF_INIT;

		flame_name__label(names[i][0], &label);
		flame_name__fold(label.s, &folded);
		cr_expect_str_eq(label.s, names[i][1], "%s", names[i][0]);
		cr_expect_str_eq(folded.s, names[i][2] ?: names[i][1], "%s", names[i][0]);
		strbuf__free(&label);
		strbuf__free(&folded);
	}
}

/* Whatever the target calls its functions, nothing grows or goes on without end. */
Test(flame, odd_names_stay_bounded)
{
	static const char bits[] = "<>:: as impl for {closure}#,()[]-=&a\xc3\xa9\xff";
	uint32_t seed = 20260101;
	char name[201];

	for (int round = 0; round < 20000; round++) {
		struct strbuf label = STRBUF_INIT, folded = STRBUF_INIT;

		for (size_t i = 0; i < sizeof(name) - 1; i++) {
			seed = seed * 1664525 + 1013904223;
			name[i] = round ? bits[(seed >> 16) % (sizeof(bits) - 1)] : '<';
		}
		name[sizeof(name) - 1] = '\0';
		flame_name__label(name, &label);
		flame_name__fold(label.s, &folded);
		cr_assert_leq(label.len, strlen(name));
		cr_assert_leq(folded.len, 3 * strlen(name), "%s: %s", name, folded.s);
		strbuf__free(&label);
		strbuf__free(&folded);
	}
}

Test(flame, crates)
{
	const char *crate;

	cr_expect_eq(rust_name__crate("<[u8] as core::hash::Hash>::hash", &crate), 4);
	cr_expect_eq(memcmp(crate, "core", 4), 0);
	cr_expect_eq(rust_name__crate("malloc", &crate), 0);
	cr_expect(rust_name__is_std("<alloc::vec::Vec<own::T> as own::X>::f"));
	cr_expect(!rust_name__is_std("stdx::f"));
	cr_expect(rust_name__is_runtime("tokio::runtime::park"));
	cr_expect(!rust_name__is_runtime("own::tokio::f"));
}

Test(flame, kinds_are_those_that_are_there)
{
	struct snapshot *s = synth__new();

	cr_expect_eq(flame__kinds(s), 0);
	synth__add_stacks(s);
	cr_expect_eq(flame__kinds(s), (1u << FLAME_LIVE_CALLS) - 1);
	synth__add_native(s);
	cr_expect_eq(flame__kinds(s), (1u << FLAME_MAPPED) - 1);
	synth__add_native_growth(s, false);
	cr_expect_eq(flame__kinds(s), ((1u << FLAME_CNT) - 1) & ~(1u << FLAME_MAPPED),
		     "changes of maps were not seen");
	s->memory->has_maps = true;
	cr_expect_eq(flame__kinds(s), (1u << FLAME_CNT) - 1);
	snapshot__free(s);
}

static const struct exporter *const formats[] = { &export_folded, &export_html, &export_svg,
						  &export_pprof, &export_speedscope };

Test(flame, every_kind_in_every_format)
{
	struct snapshot *s = synth__new(), *old = synth__new(), *none = synth__new();

	synth__add_stacks(s);
	synth__add_stacks(old);
	synth__add_native(s);
	synth__add_native(old);
	synth__add_native_growth(s, true);
	synth__add_native_growth(old, false);
	s->memory->has_maps = old->memory->has_maps = true;
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
		for (int kind = 0; kind <= FLAME_ANY; kind++)
			for (int with = 0; with < 3; with++) {
				struct flame_ask ask = { with ? s : none, with > 1 ? old : NULL,
							 (enum flame_kind)kind };
				struct strbuf out = STRBUF_INIT;

				if (with > 1 && formats[i]->no_diff)
					continue;
				cr_expect_eq(formats[i]->flame(&ask, &out), 0);
				cr_expect(!with || out.len, "%s", formats[i]->name);
				strbuf__free(&out);
			}
	snapshot__free(s);
	snapshot__free(old);
	snapshot__free(none);
}

static char *folded(const struct snapshot *s, const struct snapshot *old, enum flame_kind kind)
{
	struct flame_ask ask = { s, old, kind };
	struct strbuf out = STRBUF_INIT;

	cr_assert_eq(export_folded.flame(&ask, &out), 0);
	return strbuf__take(&out);
}

Test(flame, threads_are_roots)
{
	struct snapshot *s = synth__new();
	char *text;

	synth__add_stacks(s);
	synth__stack(s, PROFILE_CPU, "12", FIGURES(.value = 9, .thread = "", .truncated = "x"));
	text = folded(s, NULL, FLAME_CPU);
	cr_expect(strstr(text, "worker-1;__clone3;tokio::"), "%s", text);
	cr_expect(strstr(text, "\n__clone3;tokio::"), "others are as they were: %s", text);
	cr_expect(strstr(text, "[no name];[truncated: x];tokio::"), "%s", text);
	free(text);
	snapshot__free(s);
}

/* Native stacks are the kind, where there are any in both; what lost its stack is in the whole. */
Test(flame, memory_by_native_stacks)
{
	struct snapshot *s = synth__new(), *old = synth__new();
	char *text;

	synth__add_stacks(s);
	synth__add_native(s);
	text = folded(s, NULL, FLAME_LIVE);
	cr_expect(strstr(text, "handle_submit 8192\n"), "%s", text);
	cr_expect(strstr(text, "[stack not kept] 30\n"), "%s", text);
	free(text);
	text = folded(s, NULL, FLAME_ALLOC);
	cr_expect(strstr(text, "[truncated: no_unwind_rows];"), "%s", text);
	cr_expect(strstr(text, "[stack not kept] 60\n"), "%s", text);
	free(text);
	text = folded(s, NULL, FLAME_LIVE_CALLS);
	cr_expect(strstr(text, " 4096\n") && !strstr(text, "clone3"), "%s", text);
	free(text);
	/* an older file without native stacks: like with like */
	synth__add_stacks(old);
	text = folded(s, old, FLAME_LIVE);
	cr_expect(strstr(text, "handle_submit 4096 4096\n"), "%s", text);
	free(text);
	snapshot__free(s);
	snapshot__free(old);
}

Test(flame, growth_by_native_stacks)
{
	struct snapshot *s = synth__new();
	char *text;

	synth__add_stacks(s);
	synth__add_native(s);
	synth__add_native_growth(s, true);
	s->memory->has_maps = true;
	text = folded(s, NULL, FLAME_MAPPED);
	cr_expect(strstr(text, "handle_submit;[kernel] 3145728\n"), "%s", text);
	cr_expect(strstr(text, "[stack not kept] 4096\n"), "%s", text);
	cr_expect_null(strstr(text, "truncated"), "only what was mapped: %s", text);
	free(text);
	text = folded(s, NULL, FLAME_FAULTS);
	cr_expect(strstr(text, "[truncated: no_unwind_rows];"), "%s", text);
	cr_expect(strstr(text, " 320\n"), "%s", text);
	cr_expect(strstr(text, "[stack not kept] 16\n"), "%s", text);
	cr_expect_null(strstr(text, "[kernel]"), "only faults: %s", text);
	free(text);
	snapshot__free(s);
}

Test(flame, old_figures_are_brought_to_the_new_window)
{
	struct snapshot *s = synth__new(), *old = synth__new();
	char *text;

	synth__add_stacks(s);
	synth__add_stacks(old);
	old->window.duration_ns = s->window.duration_ns / 2;
	text = folded(s, old, FLAME_CPU);
	cr_expect(strstr(text, "handle_submit 120 60\n"), "%s", text);
	free(text);
	text = folded(s, old, FLAME_LIVE);
	cr_expect(strstr(text, "handle_submit 4096 4096\n"), "no rate: %s", text);
	free(text);
	old->profiles->of[PROFILE_CPU]->stacks.cnt = 0;
	text = folded(s, old, FLAME_CPU);
	cr_expect(strstr(text, "handle_submit 0 60\n"), "%s", text);
	free(text);
	snapshot__free(s);
	snapshot__free(old);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of every mangling scheme; ELF files of every kind of link; files that are none. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/glob.h"
#include "base/strbuf.h"
#include "symbols/cfi.h"
#include "symbols/demangle.h"
#include "symbols/image.h"

struct name_case {
	const char *mangled, *name, *crate;
	enum name_lang lang;
	const char *tag; /* "" for none */
	bool cold;
};

static const struct name_case names[] = {
	/* Rust, legacy */
	{ "_ZN14translator_sv24main17h315beeb7c8bc2b81E", "translator_sv2::main", "translator_sv2",
	  NAME_RUST, "", false },
	{ "_ZN14translator_sv210inner_main28_$u7b$$u7b$closure$u7d$$u7d$17h95958fa4c0dc2f96E.llvm."
	  "12409859493747285321",
	  "translator_sv2::inner_main::{{closure}}", "translator_sv2", NAME_RUST, "", false },
	{ "_ZN68_$LT$translator_sv2..TranslatorSv2$u20$as$u20$core..clone..Clone$GT$"
	  "5clone17hbb05998f9abae6ffE",
	  "<translator_sv2::TranslatorSv2 as core::clone::Clone>::clone", "translator_sv2",
	  NAME_RUST, "", false },
	{ "_ZN14translator_sv210monitoring133_$LT$impl$u20$stratum_apps..monitoring..server.."
	  "ServerMonitoring$u20$for$u20$translator_sv2..sv2..channel_manager..ChannelManager$GT$"
	  "10get_server17h67bb8d0c8d0ba025E",
	  "translator_sv2::monitoring::<impl stratum_apps::monitoring::server::ServerMonitoring "
	  "for "
	  "translator_sv2::sv2::channel_manager::ChannelManager>::get_server",
	  "translator_sv2", NAME_RUST, "", false },
	{ "_ZN5alloc3vec16Vec$LT$T$C$A$GT$4push17h0123456789abcdefE", "alloc::vec::Vec<T,A>::push",
	  "alloc", NAME_RUST, "", false },
	{ "_ZN34_$LT$str$u20$as$u20$own..Named$GT$4name17h0123456789abcdefE",
	  "<str as own::Named>::name", "own", NAME_RUST, "", false },
	{ "_ZN55_$LT$$RF$mut$u20$own..X$u20$as$u20$core..fmt..Debug$GT$3fmt17h0123456789abcdefE",
	  "<&mut own::X as core::fmt::Debug>::fmt", "own", NAME_RUST, "", false },
	{ "_ZN4core3ptr29drop_in_place$LT$own..Own$GT$17h0123456789abcdefE",
	  "core::ptr::drop_in_place<own::Own>", "core", NAME_RUST, "", false },
	/* Rust, v0 */
	{ "_RNvCshd6KImAYX4a_5cargo4main", "cargo::main", "cargo", NAME_RUST, "", false },
	{ "_RNvNtCs26ezDKuLN16_5cargo4core4main.llvm.99", "cargo::core::main", "cargo", NAME_RUST,
	  "", false },
	{ "_RNvXsq_NtCslNYArtu3iFV_5alloc6stringNtB5_6StringNtNtCsgEmfK2I1SDS_"
	  "4core3fmt7Display3fmt",
	  "<alloc::string::String as core::fmt::Display>::fmt", "alloc", NAME_RUST, "", false },
	{ "_RINvNtCsgEmfK2I1SDS_4core3ptr13drop_in_placeAINtNtCslNYArtu3iFV_5alloc3vec3VechEj10_"
	  "EB4_",
	  "core::ptr::drop_in_place::<[alloc::vec::Vec<u8>; 16]>", "core", NAME_RUST, "", false },
	{ "_RNvCsfLfy6EI15iL_7___rustc20___rust_panic_cleanup", "__rustc::__rust_panic_cleanup",
	  "__rustc", NAME_RUST, "", false },
	{ "_RNCNvCs1234_3own3run0", "own::run::{closure#0}", "own", NAME_RUST, "", false },
	{ "_RNvXCs1234_3owneNtB2_5Named4name", "<str as own::Named>::name", "own", NAME_RUST, "",
	  false },
	/* C++ */
	{ "_ZN12_GLOBAL__N_15helloEi", "(anonymous namespace)::hello", "", NAME_CXX, "", false },
	{ "_ZN5space4overEl.part.0", "space::over", "", NAME_CXX, ".part.0", false },
	{ "_ZNK5space3boxclEi", "space::box::operator()", "", NAME_CXX, "", false },
	/* C, and clones */
	{ "foo", "foo", "", NAME_C, "", false },
	{ "foo.llvm.99", "foo", "", NAME_C, "", false },
	{ "foo.cold", "foo", "", NAME_C, "", true },
	{ "foo.cold.3", "foo", "", NAME_C, "", true },
	{ "foo.part.0", "foo", "", NAME_C, ".part.0", false },
	{ "foo.part.0.cold", "foo", "", NAME_C, ".part.0", true },
	{ "foo.constprop.0", "foo", "", NAME_C, ".constprop.0", false },
	{ "foo.isra.0.constprop.12", "foo", "", NAME_C, ".isra.0.constprop.12", false },
	{ "foo.lto_priv.0", "foo", "", NAME_C, ".lto_priv.0", false },
	{ "foo.bar", "foo.bar", "", NAME_C, "", false },
	{ ".cold", ".cold", "", NAME_C, "", false },
	{ "", "", "", NAME_C, "", false },
	/* not what they seem */
	{ "_ZN3foo17hzzzzzzzzzzzzzzzzE", "foo::hzzzzzzzzzzzzzzzz", "", NAME_CXX, "", false },
	{ "_Rubbish", "_Rubbish", "", NAME_RUST, "", false },
	{ "_ZN", "_ZN", "", NAME_CXX, "", false },
};

Test(symbols, names_are_demangled_by_their_scheme)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		const struct name_case *c = &names[i];
		struct name_parts parts;
		char crate[64], *name;

		name__split(c->mangled, &parts);
		name = name__demangle(c->mangled, &parts);
		cr_expect_str_eq(name, c->name);
		cr_expect_eq(parts.lang, c->lang, "%s", c->mangled);
		cr_expect_eq(parts.cold, c->cold, "%s", c->mangled);
		cr_expect(parts.tag_len == strlen(c->tag) &&
				  !memcmp(parts.tag ? parts.tag : "", c->tag, parts.tag_len),
			  "tag of %s", c->mangled);
		if (name__crate_mangled(c->mangled, &parts, crate, sizeof(crate)))
			cr_expect_str_eq(crate, c->crate, "%s", c->mangled);
		else
			cr_expect_str_eq(c->mangled, "_Rubbish");
		free(name);
	}
}

Test(symbols, the_hash_of_a_legacy_name_is_found)
{
	struct name_parts parts;

	name__split("_ZN3own3run17h0123456789abcdefE.llvm.7", &parts);
	cr_assert_not_null(parts.hash);
	cr_expect_eq(strncmp(parts.hash, "0123456789abcdef", 16), 0);
	name__split("_RNvCs1234_3own3run", &parts);
	cr_expect_null(parts.hash);
}

/* E13 */
Test(symbols, names_of_any_length_stay_whole_and_distinct)
{
	struct strbuf a = STRBUF_INIT, b = STRBUF_INIT;
	struct name_parts parts;
	char *x, *y;

	for (int i = 0; i < 2; i++) {
		struct strbuf *sb = i ? &b : &a;

		strbuf__adds(sb, "_RINvCs1234_3own3run");
		for (int k = 0; k < 2000; k++)
			strbuf__adds(sb, "TmhxE");
		strbuf__adds(sb, i ? "mE" : "hE");
	}
	name__split(a.s, &parts);
	x = name__demangle(a.s, &parts);
	name__split(b.s, &parts);
	y = name__demangle(b.s, &parts);
	cr_expect_gt(strlen(x), 20000);
	cr_expect_str_neq(x, y);
	cr_expect_eq(strncmp(x, "own::run::<(u32, u8, i64), ", 27), 0, "%.40s", x);
	free(x);
	free(y);
	strbuf__free(&a);
	strbuf__free(&b);
}

/* Each pair of back-references doubles what is printed: 2^60 names unless somebody stops it. */
Test(symbols, a_name_that_would_demangle_for_ever_is_left_as_it_is, .timeout = 20)
{
	struct strbuf sb = STRBUF_INIT;
	struct name_parts parts;
	char crate[64], *name;
	size_t last = 0;

	strbuf__adds(&sb, "_RINvC1a1fTmmE");
	last = sb.len - 5 - 2;
	for (int i = 0; i < 60; i++) {
		static const char digits[] =
			"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
		size_t at = sb.len - 2, n = last - 1;
		char ref[8];

		snprintf(ref, sizeof(ref), "%c%c_", digits[n / 62], digits[n % 62]);
		strbuf__addf(&sb, "TB%sB%sE", *ref == '0' ? ref + 1 : ref,
			     *ref == '0' ? ref + 1 : ref);
		last = at;
	}
	strbuf__adds(&sb, "E");
	name__split(sb.s, &parts);
	name = name__demangle(sb.s, &parts);
	cr_assert_not_null(name);
	cr_expect_str_eq(name, sb.s);
	name__crate_mangled(sb.s, &parts, crate, sizeof(crate));
	free(name);
	strbuf__free(&sb);
}

Test(symbols, the_crate_of_a_demangled_name)
{
	static const struct {
		const char *name, *crate;
	} cases[] = {
		{ "own::run", "own" },
		{ "<own::X as core::fmt::Debug>::fmt", "own" },
		{ "<&mut own::X as core::fmt::Debug>::fmt", "own" },
		{ "<[own::X] as core::fmt::Debug>::fmt", "own" },
		{ "<alloc::vec::Vec<own::X> as own::Trait>::f", "alloc" },
		{ "<(own::A, b::B) as core::fmt::Debug>::fmt", "own" },
		{ "<str as own::Named>::name", "own" },
		{ "<T as own::Named>::name", "own" },
		{ "<[u8] as own::Named>::name", "own" },
		{ "<dyn own::Trait>::f", "own" },
		{ "<F as core::ops::function::FnOnce<A>>::call_once", "core" },
		{ "main", "" },
		{ "", "" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const char *crate = "";
		size_t len = name__crate(cases[i].name, &crate);

		cr_expect(len == strlen(cases[i].crate) && !memcmp(crate, cases[i].crate, len),
			  "%s: %.*s", cases[i].name, (int)len, crate);
	}
}

Test(symbols, globs)
{
	static const struct {
		const char *glob, *text;
		bool matches;
	} cases[] = {
		{ "*", "", true },
		{ "*", "a::b", true },
		{ "a::*", "a::b::c", true },
		{ "*::handle_*", "own::x::handle_submit", true },
		{ "*::handle_*", "own::handles", false },
		{ "own::ru?", "own::run", true },
		{ "own::ru?", "own::ru", false },
		{ "t?r", "t\xc3\xbcr", true },
		{ "*{{closure}}", "a::{{closure}}", true },
		{ "a[0]", "a[0]", true },
		{ "a[0]", "a0", false },
		{ "a**b*", "axxbyy", true },
		{ "*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false },
		{ "", "", true },
		{ "", "a", false },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		cr_expect_eq(glob__match(cases[i].glob, cases[i].text), cases[i].matches, "%s %s",
			     cases[i].glob, cases[i].text);
}

Test(symbols, the_needle_of_a_glob_survives_mangling)
{
	static const struct {
		const char *glob, *needle;
	} cases[] = {
		{ "*::handle_submit", "handle_submit" },
		{ "own::*", "own" },
		{ "*{{closure}}", "" },
		{ "*clos*", "" },  /* may be a part of {closure#0} */
		{ "*<u32>*", "" }, /* a letter in v0 */
		{ "*", "" },
		{ "*::f?o", "" },
		{ "*::2fast", "" },
		{ "<own::X as core::fmt::Debug>::fmt", "Debug" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const char *needle = "";
		size_t len = name__glob_needle(cases[i].glob, &needle);

		cr_expect(len == strlen(cases[i].needle) && !memcmp(needle, cases[i].needle, len),
			  "%s: %.*s", cases[i].glob, (int)len, needle);
	}
}

/* ---- files ---- */

static struct image *open_image(const char *name)
{
	struct strbuf path = STRBUF_INIT;
	struct image *img = NULL;
	char *reason = NULL;
	int fd, err;

	strbuf__addf(&path, "%s/%s", ELF_FIXTURES, name);
	fd = open(path.s, O_RDONLY | O_CLOEXEC);
	cr_assert_geq(fd, 0, "%s", path.s);
	err = image__open(fd, &img, &reason);
	cr_assert_eq(err, 0, "%s: %s", name, reason);
	close(fd);
	strbuf__free(&path);
	return img;
}

static const struct symbol *find(const struct image *img, const char *name)
{
	size_t cnt;
	const struct symbol *syms = image__symbols(img, &cnt);

	for (size_t i = 0; i < cnt; i++)
		if (!strcmp(image__str(img, syms[i].name), name))
			return &syms[i];
	return NULL;
}

/* E1: the bytes at the file offset are the function's, however the file was linked. */
Test(symbols, offsets_are_right_in_every_kind_of_link)
{
	static const char *const links[] = { "twins",  "static", "static-pie",
					     "no-pie", "high",	 "relr" };

	for (size_t i = 0; i < sizeof(links) / sizeof(*links); i++) {
		struct image *img = open_image(links[i]);
		const struct symbol *sym = find(img, "twin_b");
		const uint8_t *raw, *mapped;
		uint64_t offset;
		size_t len, avail;

		cr_assert_not_null(sym, "%s", links[i]);
		cr_assert(image__code_offset(img, sym->addr, &offset), "%s", links[i]);
		raw = image__raw(img, &len);
		mapped = image__bytes(img, sym->addr, &avail);
		cr_expect_eq(raw + offset, mapped, "%s", links[i]);
		cr_expect_lt(offset, len);
		cr_expect_eq(image__function_at(img, sym->addr)->addr, sym->addr);
		cr_expect_null(image__function_at(img, sym->addr + 1));
		image__free(img);
	}
}

Test(symbols, local_symbols_know_their_source_file)
{
	struct image *img = open_image("twins");
	size_t cnt, seen = 0;
	const struct symbol *syms = image__symbols(img, &cnt);

	for (size_t i = 0; i < cnt; i++)
		if (!strcmp(image__str(img, syms[i].name), "helper")) {
			const char *file = image__str(img, syms[i].file);

			cr_expect_eq(strncmp(file, "twin_", 5), 0, "%s", file);
			seen |= file[5] == 'a' ? 1 : 2;
		}
	cr_expect_eq(seen, 3);
	image__free(img);
}

Test(symbols, build_id_is_what_readelf_says)
{
	struct image *img = open_image("twins");
	char line[256], want[64] = "";
	FILE *p = popen("readelf -n " ELF_FIXTURES "/twins", "r");

	while (fgets(line, sizeof(line), p))
		sscanf(line, " Build ID: %63s", want);
	pclose(p);
	cr_expect_str_eq(image__build_id(img) ? image__build_id(img) : "", want);
	image__free(img);
}

Test(symbols, pointers_through_relocations_and_without)
{
	/* flow's table of functions: relative relocations in a PIE */
	struct image *img = open_image("flow");
	const struct symbol *plain = find(img, "plain");
	uint64_t value;
	size_t hits = 0;

	for (uint64_t at = 0x1000; at < 0x8000; at += 8)
		hits += image__pointer(img, at, &value) && value == plain->addr;
	cr_expect_geq(hits, 1);
	cr_expect(!image__pointer(img, 0xfffffffffffffff0, &value));
	image__free(img);
}

static void count_rows(void *arg, const struct cfi_row *row)
{
	(void)row;
	++*(size_t *)arg;
}

static void count_pads(void *arg, uint64_t vaddr)
{
	(void)vaddr;
	++*(size_t *)arg;
}

Test(symbols, unwind_rows_and_landing_pads)
{
	struct image *img = open_image("cxx");
	const struct symbol *sym = find(img, "_Z7catchesi");
	struct cfi_fde fde;
	size_t rows = 0, pads = 0;

	cr_assert_not_null(sym);
	cr_assert(cfi__find(img, sym->addr + 1, &fde));
	cr_expect_eq(fde.start, sym->addr);
	cr_expect_eq(fde.end, sym->addr + sym->size);
	cfi__rows(img, &fde, count_rows, &rows);
	cfi__landing_pads(img, &fde, count_pads, &pads);
	cr_expect_geq(rows, 2);
	cr_expect_geq(pads, 1);
	cr_expect(!cfi__find(img, 0x10, &fde));
	image__free(img);
}

Test(symbols, what_is_no_elf_file_is_refused_in_words)
{
	static const struct {
		const char *bytes;
		size_t len;
	} files[] = {
		{ "", 0 },
		{ "#!/bin/sh\n", 10 },
		{ "\x7f"
		  "ELF\x02\x01\x01",
		  7 },
		{ "\x7f"
		  "ELF\x01\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x03\0",
		  100 },
	};
	struct image *img;

	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
		int fd = memfd_create("elf", MFD_CLOEXEC);
		char buf[128] = { 0 }, *reason = NULL;

		memcpy(buf, files[i].bytes, files[i].len < 20 ? files[i].len : 20);
		cr_assert_eq(write(fd, buf, files[i].len), (ssize_t)files[i].len);
		cr_expect_eq(image__open(fd, &img, &reason), -ENOEXEC);
		cr_expect_not_null(reason);
		free(reason);
		close(fd);
	}
}

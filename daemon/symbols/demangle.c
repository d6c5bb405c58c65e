// SPDX-License-Identifier: BSD-2-Clause
/*
 * Splits names into stem and suffixes, and has libiberty demangle them. Does not choose between
 * names (select does) and knows no file.
 */
#include "symbols/demangle.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <libiberty/demangle.h>

#include "base/strbuf.h"

/* Longer than any name that means something: back-references can make a short hostile one endless.
 */
#define MAX_DEMANGLED (1u << 20)

static bool is_hex16(const char *s)
{
	for (int i = 0; i < 16; i++)
		if (!isdigit((unsigned char)s[i]) && (s[i] < 'a' || s[i] > 'f'))
			return false;
	return true;
}

/* _ZN...17h<16 hex>E */
static bool is_legacy_rust(const char *s, size_t len)
{
	return len > 23 && !strncmp(s, "_ZN", 3) && s[len - 1] == 'E' &&
	       !strncmp(s + len - 20, "17h", 3) && is_hex16(s + len - 17);
}

static bool all_digits(const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!isdigit((unsigned char)s[i]))
			return false;
	return len > 0;
}

/* The last suffix of a name that is len long: where its dot is, or len. */
static size_t last_suffix(const char *s, size_t len)
{
	static const char *const words[] = { ".cold",	    ".part",	 ".constprop", ".isra",
					     ".localalias", ".lto_priv", ".clone",     ".llvm",
					     ".warm",	    ".unlikely" };
	const char *last;
	size_t end = len, dot;

	if (len && s[len - 1] == 'E') /* as most names end: no suffix does */
		return len;
	last = memrchr(s, '.', len);
	if (!last)
		return len;
	dot = (size_t)(last - s);
	if (all_digits(s + dot + 1, end - dot - 1) && dot) {
		end = dot;
		last = memrchr(s, '.', dot);
		if (!last)
			return len;
		dot = (size_t)(last - s);
	}
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (end - dot == strlen(words[i]) && !memcmp(s + dot, words[i], end - dot))
			return dot;
	return len;
}

void name__split(const char *mangled, struct name_parts *out)
{
	size_t len = strlen(mangled), end = len;

	memset(out, 0, sizeof(*out));
	for (;;) {
		size_t dot = last_suffix(mangled, end);

		if (dot == end || !dot)
			break;
		if (!strncmp(mangled + dot, ".cold", 5)) {
			out->cold = true;
		} else if (strncmp(mangled + dot, ".llvm", 5)) {
			if (!out->tag_len)
				out->tag_len = end - dot;
			else
				out->tag_len += (size_t)(out->tag - (mangled + dot));
			out->tag = mangled + dot;
		}
		end = dot;
	}
	out->stem_len = end;
	if (is_legacy_rust(mangled, end)) {
		out->lang = NAME_RUST;
		out->hash = mangled + end - 17;
	} else if (!strncmp(mangled, "_R", 2)) {
		out->lang = NAME_RUST;
	} else if (!strncmp(mangled, "_Z", 2)) {
		out->lang = NAME_CXX;
	}
}

struct sink {
	struct strbuf out;
	jmp_buf full;
};

static void collect(const char *s, size_t len, void *arg)
{
	struct sink *sink = arg;

	if (sink->out.len + len > MAX_DEMANGLED || sink->out.oom)
		longjmp(sink->full, 1);
	strbuf__add(&sink->out, s, len);
}

/* Through the callback, for only there a name without end can be stopped. */
static bool demangle_into(struct sink *sink, const char *stem, enum name_lang lang, int options)
{
	if (setjmp(sink->full))
		return false;
	return lang == NAME_RUST ? rust_demangle_callback(stem, options, collect, sink)
				 : cplus_demangle_v3_callback(stem, options, collect, sink);
}

static char *demangle(const char *stem, enum name_lang lang, int options)
{
	struct sink sink = { .out = STRBUF_INIT };
	char *name = NULL;

	if (demangle_into(&sink, stem, lang, options) && sink.out.len)
		name = strbuf__take(&sink.out);
	strbuf__free(&sink.out);
	return name;
}

static char *demangle_as(const char *mangled, const struct name_parts *parts, int options)
{
	char *stem = strndup(mangled, parts->stem_len), *name;

	if (!stem || parts->lang == NAME_C)
		return stem;
	name = demangle(stem, parts->lang, options);
	if (!name)
		return stem;
	free(stem);
	return name;
}

char *name__demangle(const char *mangled, const struct name_parts *parts)
{
	return demangle_as(mangled, parts, DMGL_ANSI);
}

char *name__demangle_full(const char *mangled, const struct name_parts *parts)
{
	return demangle_as(mangled, parts, DMGL_PARAMS | DMGL_ANSI);
}

/* Words that a demangled name shows but a mangled one spells otherwise. */
static bool is_spelt(const char *s, size_t len)
{
	static const char *const words[] = { "closure", "shim",	 "vtable", "reify",  "impl", "dyn",
					     "mut",	"const", "unsafe", "extern", "bool", "char",
					     "str",	"isize", "usize",  "i128",   "u128", "i16",
					     "u16",	"i32",	 "u32",	   "i64",    "u64",  "f32",
					     "f64",	"true",	 "false",  "for",    "type", "f16",
					     "f128" };

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		/* at the edge of a glob's run a part of the word may stand */
		if (len <= strlen(words[i]) && memmem(words[i], strlen(words[i]), s, len))
			return true;
	return false;
}

size_t name__glob_needle(const char *glob, const char **needle)
{
	size_t best = 0;

	while (*glob) {
		size_t len = 0;

		while (isalnum((unsigned char)glob[len]) || glob[len] == '_')
			len++;
		if (len >= 3 && len > best && !isdigit((unsigned char)*glob) &&
		    !is_spelt(glob, len)) {
			best = len;
			*needle = glob;
		}
		glob += len ? len : 1;
	}
	return best;
}

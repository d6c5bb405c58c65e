/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rust names made readable. Works on demangled text alone and takes any: what is not understood is
 * left as it is.
 */
#include "export/flame.h"

#include <string.h>

#include "base/rust_name.h"
#include "base/strbuf.h"

#define MAX_NESTING 64 /* of generics; what is deeper is left as it is */

/* ---- labels ---- */

/* The way to a function through a trait object: "{{vtable.shim}}", a path's last part or not. */
static size_t shim_len(const char *s)
{
	static const char shim[] = "::{{vtable.shim}}";
	size_t colons = strncmp(s, "::", 2) ? 2 : 0;

	return strncmp(s, shim + colons, sizeof(shim) - 1 - colons) ? 0 : sizeof(shim) - 1 - colons;
}

/* "::h0123456789abcdef" */
static bool is_hash(const char *s)
{
	return !strncmp(s, "::h", 3) && strspn(s + 3, "0123456789abcdef") == 16 && !s[19];
}

void flame_name__label(const char *name, struct strbuf *out)
{
	while (*name && !is_hash(name)) {
		unsigned int closures = 0;
		size_t len;
		bool first;

		while ((len = rust_name__closure(name, &first))) {
			name += len;
			closures++;
		}
		if (closures == 1)
			strbuf__adds(out, "{}");
		else if (closures)
			strbuf__addf(out, "{%u}", closures);
		else if ((len = shim_len(name)))
			strbuf__adds(out, "{shim}");
		else
			strbuf__addc(out, *name++);
		name += len;
	}
}

/* ---- generics ---- */

/* The '>' that closes the '<' at s, or NULL. Those of "->" and "=>" close nothing. */
static const char *closing(const char *s, const char *end)
{
	int depth = 0;

	for (const char *c = s; c < end; c++) {
		if (*c == '<')
			depth++;
		else if (*c == '>' && c[-1] != '-' && c[-1] != '=' && !--depth)
			return c;
	}
	return NULL;
}

/* Where a word stands in [s, end), not within brackets; NULL: nowhere. */
static const char *find_outside(const char *s, const char *end, const char *word)
{
	size_t len = strlen(word);
	int depth = 0;

	for (; s + len <= end; s++) {
		if (!depth && !memcmp(s, word, len))
			return s;
		if (strchr("<([{", *s))
			depth++;
		else if (strchr(")]}", *s) || (*s == '>' && s[-1] != '-' && s[-1] != '='))
			depth--;
	}
	return NULL;
}

static void fold(const char *s, const char *end, bool last_only, int nesting, struct strbuf *out);

/* "<a::b::X<T>>::f": a type's own function, by a path that needs no brackets. */
static bool is_own_path(const char *open, const char *close, const char *end)
{
	return end - close > 3 && close[1] == ':' && close[2] == ':' &&
	       rust_name__is_word(close[3]) && rust_name__is_word(open[1]) &&
	       !find_outside(open + 1, close, " ");
}

/* What stands between the brackets. */
static void fold_inside(const char *s, const char *end, bool is_path, int nesting,
			struct strbuf *out)
{
	const char *as = find_outside(s, end, " as ");
	const char *impl =
		end - s > 5 && !memcmp(s, "impl ", 5) ? find_outside(s, end, " for ") : NULL;

	if (as) {
		fold(s, as, true, nesting, out);
		strbuf__adds(out, " as ");
		fold(as + 4, end, true, nesting, out);
	} else if (impl) {
		strbuf__adds(out, "impl ");
		fold(s + 5, impl, true, nesting, out);
		strbuf__adds(out, " for ");
		fold(impl + 5, end, true, nesting, out);
	} else if (is_path) {
		fold(s, end, true, nesting, out);
	} else {
		strbuf__adds(out, "…");
	}
}

/* A text or a part of one. last_only: of each path only the last part. */
static void fold(const char *s, const char *end, bool last_only, int nesting, struct strbuf *out)
{
	size_t path = out->len; /* where the path that is being written begins */

	while (s < end) {
		const char *close = *s == '<' && nesting < MAX_NESTING ? closing(s, end) : NULL;
		bool after_name = out->len > path && rust_name__is_word(out->s[out->len - 1]);

		if (close && !after_name && is_own_path(s, close, end)) {
			fold(s + 1, close, true, nesting + 1, out);
			s = close + 1;
		} else if (close) {
			strbuf__addc(out, '<');
			fold_inside(s + 1, close, !after_name, nesting + 1, out);
			strbuf__addc(out, '>');
			s = close + 1;
		} else if (s[0] == ':' && end - s > 2 && s[1] == ':') {
			/* a turbofish is as good without its colons */
			bool turbo = s[2] == '<' && after_name && strncmp(s + 2, "<impl ", 6) != 0;

			if (last_only && rust_name__is_word(s[2]))
				out->s[out->len = path] = '\0';
			else if (!turbo)
				strbuf__adds(out, "::");
			s += 2;
		} else {
			bool word = rust_name__is_word(*s);

			strbuf__addc(out, *s++);
			if (!word && s[-1] != '{' && s[-1] != '}')
				path = out->len;
		}
	}
}

void flame_name__fold(const char *label, struct strbuf *out)
{
	fold(label, label + strlen(label), false, 0, out);
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * Which crate a Rust function belongs to, from its demangled name or, for a whole symbol table,
 * from the mangled one.
 *
 * A legacy name holds it in its first component: "own", or the escaped text of a type,
 * "_$LT$own..Type$u20$as$u20$core..fmt..Debug$GT$". In a v0 name one walks down the path grammar
 * (RFC 2603) to the crate root of the outermost path; for an impl to the root of its self type,
 * for which the path of the impl itself has to be skipped.
 */
#include "symbols/demangle.h"

#include <ctype.h>
#include <stdint.h>
#include <string.h>

#define MAX_NESTING 200

static bool is_ident(char c)
{
	return isalnum((unsigned char)c) || c == '_' || (c & 0x80);
}

/* What stands before the path of a type: <&*const mut dyn [( */
static const char *skip_sigils(const char *s)
{
	static const char *const words[] = { "mut ", "const ", "dyn ", "impl " };

	for (;;) {
		size_t i;

		while (*s && strchr("<&*[( ", *s))
			s++;
		for (i = 0; i < sizeof(words) / sizeof(*words); i++)
			if (!strncmp(s, words[i], strlen(words[i])))
				break;
		if (i < sizeof(words) / sizeof(*words)) {
			s += strlen(words[i]);
		} else if (*s == '\'') { /* a lifetime */
			s++;
			while (is_ident(*s))
				s++;
		} else {
			return s;
		}
	}
}

static size_t path_crate(const char *s, const char **crate)
{
	size_t len = 0;

	s = skip_sigils(s);
	while (is_ident(s[len]))
		len++;
	if (!len || strncmp(s + len, "::", 2))
		return 0;
	*crate = s;
	return len;
}

/* The " as " of the outermost <X as Trait>, or NULL. */
static const char *outermost_as(const char *s)
{
	int depth = 0;

	for (; *s; s++) {
		if (*s == '<' || *s == '(' || *s == '[')
			depth++;
		else if ((*s == '>' && s[-1] != '-') || *s == ')' || *s == ']')
			depth--;
		if (depth == 1 && !strncmp(s, " as ", 4))
			return s + 4;
		if (!depth)
			return NULL;
	}
	return NULL;
}

size_t name__crate(const char *demangled, const char **crate)
{
	size_t len = path_crate(demangled, crate);
	const char *trait;

	if (len || *demangled != '<')
		return len;
	trait = outermost_as(demangled);
	return trait ? path_crate(trait, crate) : 0;
}

/* The escape at s, of at most len characters: its text and how long it is. NULL: none. */
static const char *escape(const char *s, size_t len, size_t *taken)
{
#define CODE(code, text)                                                                           \
	{                                                                                          \
		code, sizeof(code) - 1, text                                                       \
	}
	static const struct {
		const char *code;
		size_t len;
		const char *text;
	} codes[] = {
		CODE("..", "::"),    CODE("$LT$", "<"),	 CODE("$GT$", ">"),  CODE("$u20$", " "),
		CODE("$RF$", "&"),   CODE("$BP$", "*"),	 CODE("$LP$", "("),  CODE("$RP$", ")"),
		CODE("$C$", ","),    CODE("$u27$", "'"), CODE("$u5b$", "["), CODE("$u5d$", "]"),
		CODE("$u7b$", "{"),  CODE("$u7d$", "}"), CODE("$u3b$", ";"), CODE("$u2b$", "+"),
		CODE("$u22$", "\""),
	};

	if (*s != '$' && *s != '.')
		return NULL;
	for (size_t k = 0; k < sizeof(codes) / sizeof(*codes); k++)
		if (codes[k].len <= len && !memcmp(s, codes[k].code, codes[k].len)) {
			*taken = codes[k].len;
			return codes[k].text;
		}
	return NULL;
#undef CODE
}

/* A component of a legacy name as text: enough of it to see the crates. */
static size_t unescape(const char *s, size_t len, char *out, size_t size)
{
	size_t n = 0, i = *s == '_' && len > 1 && s[1] == '$', taken;

	while (i < len && n + 3 < size) {
		const char *text = escape(s + i, len - i, &taken);

		if (text) {
			out[n++] = *text;
			if (text[1])
				out[n++] = text[1];
			i += taken;
		} else {
			out[n++] = s[i++];
		}
	}
	out[n] = '\0';
	return n;
}

static bool legacy_crate(const char *s, size_t stem_len, char *crate, size_t size)
{
	const char *end = s + stem_len, *found = NULL;
	size_t len = 0;
	char text[512];

	for (s += 3; s < end && isdigit((unsigned char)*s); s++)
		len = len * 10 + (size_t)(*s - '0');
	if (!len || len > (size_t)(end - s))
		return false;
	if (memchr(s, '$', len)) {
		if (unescape(s, len, text, sizeof(text)) + 4 >= sizeof(text))
			return false;
		len = name__crate(text, &found);
		s = found;
	}
	if (len >= size)
		return false;
	if (len)
		memcpy(crate, s, len);
	crate[len] = '\0';
	return true;
}

/* A walk over a v0 name. at counts from behind "_R", as back-references do. */
struct v0 {
	const char *s;
	size_t len, at;
	int depth;
	unsigned steps; /* left: back-references can make a walk long */
	bool bad;
};

struct span {
	size_t at, len;
};

static struct span v0_path(struct v0 *v);
static struct span v0_type(struct v0 *v);

static char next(struct v0 *v)
{
	if (v->at >= v->len || !v->steps--) {
		v->bad = true;
		v->steps = 0;
		return '\0';
	}
	return v->s[v->at++];
}

static bool eat(struct v0 *v, char c)
{
	if (v->bad || v->at >= v->len || v->s[v->at] != c)
		return false;
	v->at++;
	return true;
}

/* Base-62 digits up to '_'. Those of a crate's hash may overflow; nobody reads that value. */
static size_t base62(struct v0 *v)
{
	size_t n = 0;
	char c;

	if (eat(v, '_'))
		return 0;
	while ((c = next(v)) != '_') {
		if (!isalnum((unsigned char)c)) {
			v->bad = true;
			return 0;
		}
		n = n * 62 + (size_t)(isdigit((unsigned char)c)	  ? c - '0'
				      : islower((unsigned char)c) ? c - 'a' + 10
								  : c - 'A' + 36);
	}
	return n + 1;
}

static struct span identifier(struct v0 *v)
{
	struct span id = { 0, 0 };

	if (eat(v, 's'))
		base62(v);
	eat(v, 'u');
	if (v->at >= v->len || !isdigit((unsigned char)v->s[v->at]))
		v->bad = true;
	if (!eat(v, '0'))
		while (!v->bad && v->at < v->len && isdigit((unsigned char)v->s[v->at]) &&
		       id.len < v->len)
			id.len = id.len * 10 + (size_t)(next(v) - '0');
	eat(v, '_');
	id.at = v->at;
	if (v->bad || id.len > v->len - v->at) {
		v->bad = true;
		return (struct span){ 0, 0 };
	}
	v->at += id.len;
	return id;
}

/* Follows a back-reference for its crate; the walk goes on behind it. */
static struct span backref(struct v0 *v, struct span (*what)(struct v0 *))
{
	size_t to = base62(v), back = v->at;
	struct span found = { 0, 0 };

	if (v->bad || to >= back - 1) {
		v->bad = true;
		return found;
	}
	v->at = to;
	found = what(v);
	v->at = back;
	return found;
}

static void constant(struct v0 *v)
{
	if (eat(v, 'p'))
		return;
	if (eat(v, 'B')) {
		base62(v);
		return;
	}
	next(v); /* its type */
	eat(v, 'n');
	while (!v->bad && next(v) != '_')
		;
}

static void generic_arg(struct v0 *v)
{
	if (eat(v, 'L'))
		base62(v);
	else if (eat(v, 'K'))
		constant(v);
	else
		v0_type(v);
}

static void generic_args(struct v0 *v)
{
	while (!v->bad && !eat(v, 'E'))
		generic_arg(v);
}

static struct span v0_path(struct v0 *v)
{
	struct span found = { 0, 0 }, trait;
	char kind = next(v);

	if (v->bad || ++v->depth > MAX_NESTING) {
		v->bad = true;
		return found;
	}
	switch (kind) {
	case 'C':
		found = identifier(v);
		break;
	case 'N':
		next(v); /* namespace */
		found = v0_path(v);
		identifier(v);
		break;
	case 'I':
		found = v0_path(v);
		generic_args(v);
		break;
	case 'M': /* <T>::.. */
	case 'X': /* <T as Trait>::.. */
		if (eat(v, 's'))
			base62(v);
		v0_path(v); /* where the impl stands */
			    /* fall through */
	case 'Y':	    /* <T as Trait>, no impl of its own */
		found = v0_type(v);
		if (kind == 'M')
			break;
		trait = v0_path(v);
		if (!found.len)
			found = trait;
		break;
	case 'B':
		found = backref(v, v0_path);
		break;
	default:
		v->bad = true;
	}
	v->depth--;
	return found;
}

static struct span fn_type(struct v0 *v)
{
	if (eat(v, 'G'))
		base62(v);
	eat(v, 'U');
	if (eat(v, 'K') && !eat(v, 'C'))
		identifier(v);
	while (!v->bad && !eat(v, 'E'))
		v0_type(v);
	v0_type(v);
	return (struct span){ 0, 0 };
}

static struct span dyn_type(struct v0 *v)
{
	struct span found = { 0, 0 };

	if (eat(v, 'G'))
		base62(v);
	while (!v->bad && !eat(v, 'E')) {
		struct span bound = v0_path(v);

		if (!found.len)
			found = bound;
		while (eat(v, 'p')) {
			identifier(v);
			v0_type(v);
		}
	}
	if (eat(v, 'L'))
		base62(v);
	return found;
}

static struct span v0_type(struct v0 *v)
{
	struct span found = { 0, 0 };
	char c = next(v);

	if (v->bad || ++v->depth > MAX_NESTING) {
		v->bad = true;
		return found;
	}
	switch (c) {
	case 'R':
	case 'Q':
		if (eat(v, 'L'))
			base62(v);
		found = v0_type(v);
		break;
	case 'P':
	case 'O':
	case 'S':
		found = v0_type(v);
		break;
	case 'A':
		found = v0_type(v);
		constant(v);
		break;
	case 'T':
		if (eat(v, 'E'))
			break;
		found = v0_type(v);
		generic_args(v); /* the other members, up to E */
		break;
	case 'F':
		found = fn_type(v);
		break;
	case 'D':
		found = dyn_type(v);
		break;
	case 'B':
		found = backref(v, v0_type);
		break;
	default:
		if (islower((unsigned char)c))
			break; /* a basic type */
		v->at--;
		found = v0_path(v);
	}
	v->depth--;
	return found;
}

static bool v0_crate(const char *s, size_t stem_len, char *crate, size_t size)
{
	struct v0 v = { .s = s + 2, .len = stem_len - 2, .steps = 20000 };
	struct span found = v0_path(&v);

	if (v.bad || found.len >= size)
		return false;
	memcpy(crate, v.s + found.at, found.len);
	crate[found.len] = '\0';
	return true;
}

bool name__crate_mangled(const char *mangled, const struct name_parts *parts, char *crate,
			 size_t size)
{
	*crate = '\0';
	if (parts->lang != NAME_RUST)
		return true;
	return parts->hash ? legacy_crate(mangled, parts->stem_len, crate, size)
			   : v0_crate(mangled, parts->stem_len, crate, size);
}

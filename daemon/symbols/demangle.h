/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Symbol names: what the compiler meant. Rust (legacy and v0), C++, C; names of any length. Knows
 * nothing of ELF; the only file that includes libiberty.
 *
 *   _ZN3own3run17h0123456789abcdefE.llvm.99   own::run        Rust, hash 0123456789abcdef
 *   _RNvCs1234_3own3run                       own::run        Rust
 *   _ZN12_GLOBAL__N_15helloEi.part.0          (anonymous namespace)::hello   C++, tag .part.0
 *   copy.cold                                 copy            C, cold
 */
#ifndef SYMBOLS_DEMANGLE_H
#define SYMBOLS_DEMANGLE_H

#include <stdbool.h>
#include <stddef.h>

enum name_lang { NAME_C, NAME_CXX, NAME_RUST };

/* The cheap facts, without demangling. Pointers into the mangled name. */
struct name_parts {
	enum name_lang lang;
	size_t stem_len;  /* the mangled name without suffixes */
	const char *tag;  /* ".part.0.constprop.1"; .llvm.N and .cold are no part of it */
	size_t tag_len;	  /* 0: none */
	const char *hash; /* the 16 digits of a legacy Rust name, or NULL */
	bool cold;	  /* the unlikely part of another function */
};
void name__split(const char *mangled, struct name_parts *out);

/*
 * The demangled name: no hash, no crate disambiguators, no suffixes, C++ without parameters. The
 * mangled stem itself when it cannot be demangled (C, corrupt). NULL only when memory is out.
 */
char *name__demangle(const char *mangled, const struct name_parts *parts);
/* The same with parameters: tells C++ overloads apart. */
char *name__demangle_full(const char *mangled, const struct name_parts *parts);

/*
 * The crate a Rust function belongs to: that of its path; of <X as Trait>::f that of X, or of the
 * trait when X has none (str, [u8], a generic parameter). "" when there is none.
 */
size_t name__crate(const char *demangled, const char **crate); /* points into the name */
/* The same from the mangled name, some twenty times cheaper. False: demangle to learn it. */
bool name__crate_mangled(const char *mangled, const struct name_parts *parts, char *crate,
			 size_t size);

/*
 * A piece of a glob that every mangled Rust name must contain whose demangled name matches it:
 * the longest run of letters that manglings keep. 0 when there is none.
 */
size_t name__glob_needle(const char *glob, const char **needle);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* Whose a function is, by its demangled name alone. Takes any text. */
#ifndef BASE_RUST_NAME_H
#define BASE_RUST_NAME_H

#include <stdbool.h>
#include <stddef.h>

/* Of identifiers; other bytes than ASCII are. */
bool rust_name__is_word(char c);
/* The crate at the beginning of the path; 0: none. Points into name. */
size_t rust_name__crate(const char *name, const char **crate);
/* Of core, alloc, std; of tokio and what it runs on. */
bool rust_name__is_std(const char *name);
bool rust_name__is_runtime(const char *name);
/* How long the closure at s is: "::{{closure}}", "::{closure#7}", "::{closure}"; 0: none. The first
 * one has no number, or 0. */
size_t rust_name__closure(const char *s, bool *first);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/rust_name.h"

#include <ctype.h>
#include <string.h>

bool rust_name__is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_' || (c & 0x80);
}

size_t rust_name__crate(const char *name, const char **crate)
{
	for (const char *s = name; *s; s++) {
		size_t len = 0;

		while (rust_name__is_word(s[len]))
			len++;
		if (len && s[len] == ':' && s[len + 1] == ':') {
			*crate = s;
			return len;
		}
		if (len)
			s += len - 1;
	}
	return 0;
}

static bool is_of(const char *name, const char *const *crates, size_t cnt)
{
	const char *crate;
	size_t len = rust_name__crate(name, &crate);

	for (size_t i = 0; i < cnt && len; i++)
		if (strlen(crates[i]) == len && !memcmp(crates[i], crate, len))
			return true;
	return false;
}

bool rust_name__is_std(const char *name)
{
	static const char *const crates[] = { "core", "alloc", "std" };

	return is_of(name, crates, sizeof(crates) / sizeof(crates[0]));
}

bool rust_name__is_runtime(const char *name)
{
	static const char *const crates[] = { "tokio",
					      "tokio_util",
					      "mio",
					      "futures",
					      "futures_util",
					      "futures_core",
					      "futures_executor",
					      "futures_channel",
					      "async_std",
					      "async_executor",
					      "async_task",
					      "smol" };

	return is_of(name, crates, sizeof(crates) / sizeof(crates[0]));
}

size_t rust_name__closure(const char *s, bool *first)
{
	size_t len = 10, digits;

	*first = true;
	if (!strncmp(s, "::{{closure}}", 13))
		return 13;
	if (strncmp(s, "::{closure", len) != 0)
		return 0;
	if (s[len] == '#') {
		digits = strspn(s + len + 1, "0123456789");
		*first = strspn(s + len + 1, "0") == digits;
		len += 1 + digits;
	}
	return s[len] == '}' ? len + 1 : 0;
}

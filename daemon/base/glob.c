/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/glob.h"

bool glob__match(const char *glob, const char *text)
{
	const char *star = NULL, *resume = NULL;

	while (*text) {
		if (*glob == '*') {
			star = ++glob;
			resume = text;
		} else if (*glob == '?' || *glob == *text) {
			/* ? stands for one character, however many bytes UTF-8 needs for it */
			if (*glob == '?')
				while ((text[1] & 0xc0) == 0x80)
					text++;
			glob++;
			text++;
		} else if (star) {
			glob = star;
			text = ++resume;
		} else {
			return false;
		}
	}
	while (*glob == '*')
		glob++;
	return !*glob;
}

bool glob__match_any(const char *const *globs, size_t cnt, const char *text)
{
	for (size_t i = 0; i < cnt; i++)
		if (glob__match(globs[i], text))
			return true;
	return false;
}

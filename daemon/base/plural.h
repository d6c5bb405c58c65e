/* SPDX-License-Identifier: BSD-2-Clause */
/* Words that go with a number. */
#ifndef BASE_PLURAL_H
#define BASE_PLURAL_H

#include <stdint.h>

static inline const char *plural__s(uint64_t n)
{
	return n == 1 ? "" : "s";
}

static inline const char *plural__verb(uint64_t n, const char *one, const char *more)
{
	return n == 1 ? one : more;
}

#endif

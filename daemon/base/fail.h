/* SPDX-License-Identifier: BSD-2-Clause */
/* The words of a failure, made where most is known and said by whoever started it. */
#ifndef BASE_FAIL_H
#define BASE_FAIL_H

/* *reason becomes the text (malloc'd; NULL when memory is out). Returns err: return fail(...). */
int fail(char **reason, int err, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#endif

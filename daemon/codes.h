/* SPDX-License-Identifier: BSD-2-Clause */
/* From a failure to the program's exit code (enum exit_code), and its one line. */
#ifndef CODES_H
#define CODES_H

int code__of(int err); /* of a -errno */

/* Says the reason, or without one the fallback, as an error; frees reason; returns code. */
int code__say(int code, char *reason, const char *fallback);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* Which roletrace this is: the release and the commit it was built from. */
#ifndef BASE_VERSION_H
#define BASE_VERSION_H

extern const char version__number[]; /* 0.1.0+COMMIT */
extern const char version__tool[];   /* roletrace 0.1.0+COMMIT */

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#include "naming.h"

#include <stdlib.h>

#include "base/strbuf.h"

char *naming__default(const char *comm, int pid)
{
	struct strbuf sb = STRBUF_INIT;

	strbuf__adds(&sb, "json:./roletrace-");
	for (const char *p = comm; *p; p++)
		strbuf__addc(&sb, *p == '/' || (unsigned char)*p < ' ' ? '_' : *p);
	strbuf__addf(&sb, "-%d.json", pid);
	return strbuf__take(&sb);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* The one object that depends on the commit: built with another one, no other is stale. */
#include "base/version.h"

#include "version.gen.h"

const char version__number[] = VERSION;
const char version__tool[] = "roletrace " VERSION;

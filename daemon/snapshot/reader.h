/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The getters of read.c, for parts of the document that have a file of their own. A getter that
 * does not find what it is asked for notes the first thing that is wrong, and returns zero.
 */
#ifndef SNAPSHOT_READER_H
#define SNAPSHOT_READER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "snapshot/snapshot.h"

struct strbuf;

struct reader {
	struct snapshot *s;
	struct strbuf *reason;
	const char *part; /* the member of the document that is being read */
	size_t row;	  /* of part; NO_ROW: it is no list */
	int err;	  /* the first one */
};

#define NO_ROW SIZE_MAX


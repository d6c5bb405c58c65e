/* SPDX-License-Identifier: BSD-2-Clause */
/* The lines of /proc/PID/maps, for the files of this room. */
#ifndef TARGET_MAPS_H
#define TARGET_MAPS_H

#include "target/process.h"

struct strbuf;

struct map_line {
	struct target_map map;
	bool executable;
	dev_t dev;
	ino_t ino;	  /* 0: of no file */
	const char *path; /* within the line; empty: none */
};

int map_lines__read(const struct target *t, struct strbuf *text);
bool map_line__parse(const char *line, struct map_line *out);

#endif

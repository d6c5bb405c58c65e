/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where the debug information of a stripped file is. Two steps, for the file may be hostile and
 * opening others takes rights: first read what it says of itself (without rights), then look
 * (with rights) where such files are kept, and open what is there. Whether a file that was found
 * is the right one, image__add_debug tells (without rights again).
 */
#ifndef SYMBOLS_DEBUGFILE_H
#define SYMBOLS_DEBUGFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a file says of itself. No pointers: it travels between processes. */
struct debug_wish {
	char build_id[132]; /* hex; "" for none */
	char link[256];	    /* name in .gnu_debuglink, a bare one; "" for none */
	uint32_t link_crc;
	bool has_symbols, has_dwarf;	     /* of its own */
	bool allocates;			     /* exports a malloc of whatever name */
	unsigned int ways_taken, ways_given; /* enum dynamic_way */
	char soname[256];		     /* "" for none */
};
/* All empty when the file cannot be read. */
void debug_wish__read(int fd, struct debug_wish *out);

/* A file that may be the one. */
struct debug_candidate {
	int fd;
	char *path;  /* for messages */
	bool asked;  /* the user named it */
	bool linked; /* found by .gnu_debuglink: its CRC must be that of the wish */
};

struct debug_candidates {
	struct debug_candidate *data; /* the best first */
	size_t cnt, cap;
	uint32_t link_crc;
};

/*
 * Opens what there is for a file at path (absolute; " (deleted)" behind it is no harm) inside the
 * folder root, and on the host when that is another: by build-id in /usr/lib/debug/.build-id; by
 * .gnu_debuglink beside it, in .debug/ there, and under /usr/lib/debug. Symbolic links do not lead
 * out of root. 0 or -ENOMEM.
 */
int debugfile__find(const struct debug_wish *wish, const char *root, const char *path,
		    struct debug_candidates *out);
/* Puts a file that the user named in front. 0 or -errno. */
int debugfile__add_asked(const char *path, struct debug_candidates *out);
void debugfile__free(struct debug_candidates *c);

#endif

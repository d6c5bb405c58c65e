/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The traced process: who it is, what it runs, where that is mapped. Knows nothing of symbols or
 * probes. A pid may be reused: the pidfd and the start time say whether it is still the same one.
 */
#ifndef TARGET_PROCESS_H
#define TARGET_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A shared library that the process maps. */
struct target_object {
	char *path;	 /* as it is mapped: may end in " (deleted)" */
	char *open_path; /* a path that opens that very file, while fd is open */
	int fd;
	dev_t dev; /* as /proc/PID/maps shows it */
	ino_t ino;
	bool late; /* not mapped yet */
};

struct target {
	int pid;	       /* as seen here: the thread group */
	int ns_pid;	       /* in its own pid namespace */
	unsigned int ns_below; /* how many pid namespaces that is below ours */
	int proc_tid; /* a living thread: /proc/PID/task/TID works after the main thread's exit */
	bool leader_gone;
	int pidfd;
	char comm[64];
	char *exe;	/* what the link says: may end in " (deleted)" */
	char *exe_path; /* a path that opens that very file: /proc/PID/task/TID/exe */
	int exe_fd;
	dev_t exe_dev; /* as /proc/PID/maps shows it */
	ino_t exe_ino;
	uint64_t start_ticks; /* since boot */
	uint64_t start_unix_ns;
	struct target_object *objects; /* once target__open_objects was asked */
	size_t object_cnt;
};

/*
 * Opens the process. 0, or -errno with one line in *reason (malloc'd): -ESRCH no such process, a
 * zombie, or a kernel thread; -EACCES/-EPERM no right to look into it.
 */
int target__open(int pid, struct target *t, char **reason);
void target__close(struct target *t);

/*
 * Opens the libraries that are mapped executable now. 0 or -errno. What cannot be opened (no
 * rights, unmapped meanwhile) is left out.
 */
int target__open_objects(struct target *t);
/* Opens those that came since, behind the others: objects[*first] and on. 0 or -errno. */
int target__open_new_objects(struct target *t, size_t *first);
void target__close_objects(struct target *t);
/* The file of a mapping ("START-END" and path as /proc/PID/maps shows them); < 0: not to be had. */
int target__open_mapped(const struct target *t, const char *span, const char *path, ino_t ino);

/*
 * Adds the library of that name or path, though it is not mapped, if there is such a file where the
 * loader would look. Adds nothing for a glob or when it is there already. 0 or -errno.
 */
int target__add_late(struct target *t, const char *lib);
/* Whether any is still not mapped; says so of one that is by now. */
bool target__look_for_late(struct target *t);

/*
 * The executable (file 0) or a library (its place in objects, and 1) from which probes do not reach
 * the memory: takes the file of that path in a lower layer of its overlay instead, when that is
 * what is mapped. 0, or -errno: -ENOENT there is none.
 */
int target__go_below(struct target *t, size_t file);

/* When a process started, ticks since boot: with its pid it is that process for good. */
int target__start_ticks(int pid, uint64_t *out);

/* Whether the process still runs (a zombie does not). */
bool target__alive(const struct target *t);

/* Where a byte of the executable's file is mapped executable now; 0: nowhere. */
struct target_map {
	uint64_t start, end, offset;
};
int target__exe_maps(const struct target *t, struct target_map **maps, size_t *cnt);
/* The same of one of its libraries. */
int target__object_maps(const struct target *t, const struct target_object *o,
			struct target_map **maps, size_t *cnt);
/* All executable mappings, of whatever file or of none. */
int target__code_maps(const struct target *t, struct target_map **maps, size_t *cnt);
bool target__is_code(const struct target_map *maps, size_t cnt, uint64_t address);
uint64_t target__address(const struct target_map *maps, size_t cnt, uint64_t offset);

/* Whether any of its threads is under seccomp now. */
bool target__is_filtered(const struct target *t);

/* A file descriptor of its memory, for reading. -errno when that is not allowed. */
int target__open_mem(const struct target *t);

#endif

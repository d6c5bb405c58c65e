/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Work on foreign bytes in a process of its own that holds no rights: it has the files that were
 * open before, and a pipe to say what it found. A crash there is an error here; what would take for
 * ever or all memory is given up. Knows nothing of the work.
 */
#ifndef BASE_JAIL_H
#define BASE_JAIL_H

struct strbuf;

/* What the child does; what it makes goes into reply. 0, or -errno with *reason (malloc'd). */
typedef int (*jail_fn)(void *arg, struct strbuf *reply, char **reason);

/*
 * Runs work(arg) there and appends its reply: trust nothing of it. `what` names the work in
 * *reason. 0; the work's own error; -ENOEXEC when it died, -ETIMEDOUT after a minute, -EPROTO.
 */
int jail__run(jail_fn work, void *arg, const char *what, struct strbuf *reply, char **reason);

/* What this process has to do anyway: there is more than one CPU. */
struct jail_meanwhile {
	void (*fn)(void *arg); /* NULL: nothing */
	void *arg;
};

/* The same; here, something else is done meanwhile. */
int jail__run_while(jail_fn work, void *arg, const struct jail_meanwhile *meanwhile,
		    const char *what, struct strbuf *reply, char **reason);

#endif

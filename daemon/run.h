/* SPDX-License-Identifier: BSD-2-Clause */
/* One process under trace, from its opening to its report. */
#ifndef RUN_H
#define RUN_H

struct last_run;
struct machine;
struct session;

/* The process is run->pid; how the run ended is left in run->end. The program's exit code. */
int run__one(struct session *s, const struct machine *machine, struct last_run *run);

#endif

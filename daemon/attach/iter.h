/* SPDX-License-Identifier: BSD-2-Clause */
/* Runs an iterator program over the threads of a process; what it writes, as bytes. */
#ifndef ATTACH_ITER_H
#define ATTACH_ITER_H

struct bpf_link;
struct bpf_program;
struct strbuf;

/* An iterator over the threads of a process. NULL with errno. */
struct bpf_link *iter__attach(const struct bpf_program *prog, int pid);
/* Appends to out. 0 or -errno. */
int iter__read(const struct bpf_link *link, struct strbuf *out);
/* Once, of the process. */
int iter__run(const struct bpf_program *prog, int pid, struct strbuf *out);

#endif

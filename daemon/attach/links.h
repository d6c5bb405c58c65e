/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Probe sites to uprobe_multi links that last. Functions are divided into batches, each within one
 * file; a batch has a link for its entries and one for its exits (more when the kernel refuses a
 * site: then the batch is halved until the culprit stands alone and is named). What is wanted of
 * functions can be changed without losing an event of the others: the new links come first, the
 * functions' generations are switched, the old links go.
 */
#ifndef ATTACH_LINKS_H
#define ATTACH_LINKS_H

#include <stdbool.h>
#include <stddef.h>

#include "attach/hands.h"
#include "attach/object.h"
#include "plan/plan.h"

struct links;

/* Which programs sit on the sites; the empty ones are the floor of the benchmarks. */
enum links_programs { LINKS_SITES, LINKS_URETPROBE, LINKS_EMPTY_SITES, LINKS_EMPTY_URETPROBE };

/* What is wanted of a function: no probes, its entries counted, all its calls timed. */
enum links_mode { LINKS_NONE, LINKS_COUNTED, LINKS_TIMED };

/*
 * paths open the files to probe, one per object of the plan; pid limits the links to a process (0:
 * any that maps the file).
 */
struct links_opts {
	const char *const *paths; /* borrowed for the links' life */
	int pid;
	enum links_programs programs;
};

/* With the catch sites attached, and no function yet. */
int links__new(struct object *obj, const struct plan *plan, const struct links_opts *opts,
	       struct links **out);
/* Frees it; the open links go to the closer. */
void links__free(struct links *l, struct hands_pile *to);

size_t links__batch_cnt(const struct links *l);
/* The functions [*first, *end) of a batch. */
void links__batch(const struct links *l, size_t batch, rt_u32 *first, rt_u32 *end);

/*
 * modes[fn] for functions [first, end), a new one perhaps. On failure things are as they were, but
 * the events of functions that were to lose probes are ignored. Old links are closed while the
 * caller goes on.
 */
int links__set(struct links *l, rt_u32 first, rt_u32 end, const rt_u8 *modes);
/* Of later links: the process they are limited to, 0 for none. */
void links__limit(struct links *l, int pid);
/* Attaches everything anew, e.g. after a debugger wrote over breakpoints. */
int links__rearm(struct links *l);
/* Tidies up behind old links that are closed by now (wait: all of them). Call now and then. */
void links__tidy(struct links *l, bool wait);
/* Whether no old link is being closed. */
bool links__settled(const struct links *l);

enum links_mode links__mode(const struct links *l, rt_u32 fn);
/* Functions the kernel refused. */
bool links__refused(const struct links *l, rt_u32 fn);
size_t links__site_cnt(const struct links *l);

/* What a short window needs: requests for sites of some functions, with RT_GEN_WINDOW. */
struct links_requests {
	struct hands_request *reqs; /* one per file */
	size_t cnt;
	unsigned long *offsets;
	unsigned long long *cookies;
};
int links__requests(const struct links *l, const rt_u32 *fns, size_t cnt, bool exits,
		    struct links_requests *out);
void links__free_requests(struct links_requests *r);
/* The function's state as it is without a window (RT_CONF); its epoch has been raised. */
rt_u32 links__state(const struct links *l, rt_u32 fn);
void links__raise_epoch(struct links *l, rt_u32 fn);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/isolate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/jail.h"
#include "base/strbuf.h"
#include "plan/build.h"
#include "plan/profile.h"
#include "plan/sources.h"
#include "plan/wire.h"

#define WHAT "reading the executable's symbols"

/* ---- first: what the files say of themselves ---- */

static int read_wishes(void *arg, struct strbuf *reply, char **reason)
{
	const struct plan_input *in = arg;
	struct debug_wish wish;

	for (size_t i = 0; i < in->source_cnt; i++) {
		debug_wish__read(in->sources[i].fd, &wish);
		strbuf__add(reply, &wish, sizeof(wish));
	}
	return 0;
}

/* The child may have been taken over by the file: what it says are strings, and no paths. */
static bool is_sound(const struct debug_wish *w)
{
	return memchr(w->build_id, '\0', sizeof(w->build_id)) &&
	       memchr(w->link, '\0', sizeof(w->link)) &&
	       memchr(w->soname, '\0', sizeof(w->soname)) && !strchr(w->link, '/') &&
	       strspn(w->build_id, "0123456789abcdef") == strlen(w->build_id);
}

static int get_wishes(const struct plan_input *in, struct debug_wish **out, char **reason)
{
	struct strbuf reply = STRBUF_INIT;
	struct debug_wish *wishes = calloc(in->source_cnt, sizeof(*wishes));
	int err = wishes ? jail__run(read_wishes, (void *)in, WHAT, &reply, reason) : -ENOMEM;

	if (!err && reply.len != in->source_cnt * sizeof(*wishes))
		err = -EPROTO;
	if (!err)
		memcpy(wishes, reply.s, reply.len);
	for (size_t i = 0; i < in->source_cnt && !err; i++)
		err = is_sound(&wishes[i]) ? 0 : -EPROTO;
	strbuf__free(&reply);
	if (err) {
		free(wishes);
		return err;
	}
	*out = wishes;
	return 0;
}

/* ---- then: the plan ---- */

struct planning {
	const struct sources *sources;
	const struct plan_request *req;
	const struct profile *profile;
};

static int make_plan(void *arg, struct strbuf *reply, char **reason)
{
	const struct planning *p = arg;
	struct plan *plan;
	int err = plan__build(p->sources, p->req, p->profile, &plan, reason);

	if (!err)
		wire__write(plan, reply);
	return err;
}

static int get_plan(const struct plan_input *in, const struct sources *sources,
		    const struct plan_request *req, const struct profile *profile,
		    struct plan **out, char **reason)
{
	struct planning p = { sources, req, profile };
	struct strbuf reply = STRBUF_INIT;
	int err = jail__run_while(make_plan, &p, &in->meanwhile, WHAT, &reply, reason);

	if (!err)
		err = wire__read(reply.s, reply.len, out);
	strbuf__free(&reply);
	return err;
}

int plan__new_isolated(const struct plan_input *in, const struct plan_request *req,
		       struct plan **out, char **reason)
{
	struct debug_wish *wishes = NULL;
	struct profile *profile = NULL;
	struct sources sources = {};
	int err;

	*reason = NULL;
	/* before rights are dropped: profiles may lie where only the user can read */
	err = profile__load(req->profile, req->profile_dir, req->exe_name, &profile, reason);
	if (!err)
		err = get_wishes(in, &wishes, reason);
	if (!err)
		err = sources__choose(in, wishes, req, &sources, reason);
	if (!err)
		err = sources__find_debug(in, &sources, reason);
	if (!err)
		err = get_plan(in, &sources, req, profile, out, reason);
	sources__free(&sources);
	free(wishes);
	profile__free(profile);
	if (err && !*reason)
		*reason = strdup(strerror(-err));
	return err;
}

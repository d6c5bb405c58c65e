/* SPDX-License-Identifier: BSD-2-Clause */
/* Plans of whole files: what is selected, how rows are named, what must hold of every site. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/strbuf.h"
#include "plan/list.h"
#include "plan/plan.h"

static const char *const everything[] = { "*" };

static int plan_fd(int fd, const struct plan_request *req, struct plan **out, char **reason)
{
	struct plan_request r = *req;

	if (!r.profile_dir)
		r.profile_dir = "/nonexistent";
	return plan__new(fd, &r, out, reason);
}

static int try_plan(const char *name, const struct plan_request *req, struct plan **out,
		    char **reason)
{
	struct strbuf path = STRBUF_INIT;
	int fd, err;

	strbuf__addf(&path, "%s%s", *name == '/' ? "" : ELF_FIXTURES "/", name);
	fd = open(path.s, O_RDONLY | O_CLOEXEC);
	cr_assert_geq(fd, 0, "%s", path.s);
	*out = NULL;
	err = plan_fd(fd, req, out, reason);
	close(fd);
	strbuf__free(&path);
	return err;
}

static struct plan *make_plan(const char *name, const struct plan_request *req)
{
	struct plan *plan;
	char *reason = NULL;

	cr_assert_eq(try_plan(name, req, &plan, &reason), 0, "%s: %s", name, reason);
	return plan;
}

static struct plan *plan_of(const char *name, const char *glob)
{
	const char *globs[] = { glob };

	return make_plan(name, &(struct plan_request){ .functions = globs, .function_cnt = 1 });
}

static const struct plan_fn *row(const struct plan *plan, const char *name)
{
	for (size_t i = 0; i < plan->fn_cnt; i++)
		if (!strcmp(plan->fns[i].name, name))
			return &plan->fns[i];
	return NULL;
}

static const struct plan_fn *must_have(const struct plan *plan, const char *name)
{
	const struct plan_fn *fn = row(plan, name);

	if (!fn)
		plan__print(plan, NULL, stderr);
	cr_assert_not_null(fn, "no row '%s'", name);
	return fn;
}

/* What attach/ relies on. */
static void check_invariants(const struct plan *plan)
{
	size_t site = 0;

	for (uint32_t f = 0; f < plan->fn_cnt; f++) {
		const struct plan_fn *fn = &plan->fns[f];
		uint32_t entries = 0, exits = 0;
		bool edges = false;

		for (; site < plan->site_cnt && plan->sites[site].fn == f; site++) {
			const struct plan_site *s = &plan->sites[site];

			cr_expect_neq(s->offset, 0, "%s", fn->name);
			if (s->kind == RT_SITE_ENTRY) {
				cr_expect_eq(exits, 0, "%s: entries before exits", fn->name);
				entries++;
				cr_expect(s->insn <= fn->entry_insn);
			} else {
				exits++;
				edges |= s->kind == RT_SITE_EDGE || s->kind == RT_SITE_EDGE_JCC;
				cr_expect(fn->has_edges || !s->sp_words, "%s", fn->name);
				cr_expect(s->kind != RT_SITE_RET || !s->sp_words, "%s", fn->name);
				cr_expect(s->insn <= fn->exit_insn);
			}
			cr_expect(s->kind == RT_SITE_JCC || s->kind == RT_SITE_EDGE_JCC ||
				  !s->cond);
		}
		cr_expect_eq(entries, fn->entry_sites, "%s", fn->name);
		cr_expect_eq(exits, fn->exit_sites, "%s", fn->name);
		cr_expect(fn->has_edges || !edges, "%s", fn->name);
		cr_expect(plan->exit == PLAN_EXIT_AUTO || !fn->has_edges, "%s", fn->name);
		cr_expect_gt(entries, 0, "%s", fn->name);
		cr_expect_eq(fn->addresses, fn->entry_sites);
		if (plan->exit != PLAN_EXIT_URETPROBE)
			cr_expect_eq(fn->never_returns, !exits, "%s", fn->name);
		cr_expect_eq(plan->sites[site - 1].fn, f);
	}
	cr_expect_eq(site, plan->site_cnt);
}

static int by_offset(const void *a, const void *b)
{
	const struct plan_site *x = a, *y = b;

	return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* Two sites at one place would both be called, in no promised order. */
static void check_no_place_twice(const struct plan *plan)
{
	struct plan_site *s = malloc((plan->site_cnt + 1) * sizeof(*s));

	memcpy(s, plan->sites, plan->site_cnt * sizeof(*s));
	qsort(s, plan->site_cnt, sizeof(*s), by_offset);
	for (size_t i = 1; i < plan->site_cnt; i++)
		cr_expect_neq(s[i - 1].offset, s[i].offset, "%s and %s meet at %#lx",
			      plan->fns[s[i - 1].fn].name, plan->fns[s[i].fn].name, s[i].vaddr);
	free(s);
}

Test(plan, what_must_hold_of_every_plan, .timeout = 120)
{
	static const char *const files[] = {
		"flow",	  "twins", "cxx",  "cxx-cold",		"static",	 "static-pie",
		"no-pie", "high",  "relr", "legacy/own_server", "v0/own_server", "/proc/self/exe"
	};

	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++)
		for (int uret = 0; uret < 2; uret++) {
			struct plan *plan = make_plan(
				files[i], &(struct plan_request){ .functions = everything,
								  .function_cnt = 1,
								  .exit = uret ? PLAN_EXIT_URETPROBE
									       : PLAN_EXIT_AUTO });

			cr_expect_eq(plan->exit, uret ? PLAN_EXIT_URETPROBE : PLAN_EXIT_AUTO);
			cr_expect_gt(plan->fn_cnt, 3, "%s", files[i]);
			check_invariants(plan);
			check_no_place_twice(plan);
			plan__free(plan);
		}
}

/* P13: one bad function costs itself only, and by name. */
Test(plan, refused_functions_are_named)
{
	static const struct {
		const char *name;
		enum plan_refusal why;
	} refused[] = { { "trap_first", PLAN_UNPROBEABLE },
			{ "no_size", PLAN_NO_SIZE },
			{ "thunk", PLAN_THUNK },
			{ "object_inside", PLAN_DATA_INSIDE },
			{ "resolver", PLAN_IFUNC },
			{ "runs_on", PLAN_FALLS_THROUGH } };
	struct plan *plan = plan_of("flow", "*");

	for (size_t r = 0; r < sizeof(refused) / sizeof(*refused); r++) {
		bool found = false;

		for (size_t i = 0; i < plan->skip_cnt; i++)
			if (!strcmp(plan->skipped[i].name, refused[r].name)) {
				found = true;
				cr_expect_eq(plan->skipped[i].why, refused[r].why, "%s",
					     refused[r].name);
			}
		cr_expect(found, "%s", refused[r].name);
		cr_expect_null(row(plan, refused[r].name));
	}
	must_have(plan, "plain");
	cr_expect_null(row(plan, "hot.cold"), "a cold part is no function");
	cr_expect_null(row(plan, "an_untyped_table"));
	plan__free(plan);
	for (int why = 0; why < PLAN_REFUSAL_CNT; why++)
		cr_expect_gt(strlen(plan_refusal_text(why)), 3, "words for %d", why);
}

Test(plan, aliases_at_one_address_are_one_row)
{
	struct plan *plan = plan_of("flow", "plain*");
	const struct plan_fn *fn = must_have(plan, "plain");

	cr_expect_eq(plan->fn_cnt, 1);
	cr_expect_eq(fn->alias_cnt, 1);
	cr_expect_str_eq(fn->aliases[0], "plain_alias");
	cr_expect_eq(fn->addresses, 1);
	plan__free(plan);
	/* asked for by its other name, it goes by that */
	plan = plan_of("flow", "plain_alias");
	cr_expect_str_eq(must_have(plan, "plain_alias")->aliases[0], "plain");
	plan__free(plan);
}

/* E8 */
Test(plan, functions_of_one_name_are_told_apart)
{
	struct plan *plan = plan_of("twins", "helper");

	cr_expect_eq(plan->fn_cnt, 2);
	must_have(plan, "helper (twin_a.c)");
	must_have(plan, "helper (twin_b.c)");
	plan__free(plan);
}

Test(plan, endbr64_is_moved_over)
{
	struct plan *plan = plan_of("twins", "twin_b");

	cr_expect_eq(plan->fn_cnt + plan->skip_cnt, 1);
	plan__free(plan);
}

Test(plan, overloads_are_told_apart_by_their_parameters)
{
	struct plan *plan = plan_of("cxx", "space::over");

	cr_expect_eq(plan->fn_cnt, 2);
	must_have(plan, "space::over(int)");
	must_have(plan, "space::over(long)");
	plan__free(plan);
	plan = plan_of("cxx", "*hidden");
	must_have(plan, "(anonymous namespace)::hidden");
	plan__free(plan);
}

/* What only unwinding reaches is code, in the hot part and in a cold one. */
Test(plan, landing_pads_are_code)
{
	static const char *const files[] = { "cxx", "cxx-cold" };

	for (int i = 0; i < 2; i++) {
		struct plan *plan = plan_of(files[i], "catches");

		cr_expect_geq(must_have(plan, "catches")->exit_sites, 1, "%s", files[i]);
		cr_expect(plan->unswept, "%s: without the library that catches", files[i]);
		plan__free(plan);
	}
}

Test(plan, return_probes_stand_on_the_first_instruction)
{
	const char *globs[] = { "sub_first", "thunk", "computed_jump", "lock_then_push",
				"loop_at_entry" };
	struct plan_request req = { .functions = globs, .function_cnt = 5 };
	struct plan *sites = make_plan("flow", &req), *uret;

	req.exit = PLAN_EXIT_URETPROBE;
	uret = make_plan("flow", &req);
	must_have(sites, "sub_first");
	must_have(sites, "lock_then_push");
	cr_expect_eq(sites->fn_cnt, 2);
	must_have(uret, "sub_first");
	must_have(uret, "thunk");
	must_have(uret, "computed_jump");
	cr_expect_eq(uret->fn_cnt, 3,
		     "not behind an instruction that takes no probe, nor in a loop");
	cr_expect_eq(uret->site_cnt, 3);
	for (size_t i = 0; i < uret->site_cnt; i++)
		cr_expect_eq(uret->sites[i].sp_words, 0);
	plan__free(sites);
	plan__free(uret);
}

/* ---- Rust ---- */

static void check_own(const char *file, const char *total, unsigned totals, const char *async)
{
	struct plan *plan = make_plan(file, &(struct plan_request){ .exe_name = file });
	const struct plan_fn *fn;

	/* the program's crate and its package's library, nothing of std */
	for (size_t i = 0; i < plan->fn_cnt; i++)
		cr_expect(!strcmp(plan->fns[i].crate, "own") ||
				  !strcmp(plan->fns[i].crate, "own_server"),
			  "%s: %s", plan->fns[i].crate, plan->fns[i].name);
	must_have(plan, "own_server::main");
	must_have(plan, "own::only_in_lib");
	must_have(plan, "<str as own::Named>::name");
	must_have(plan, "<own::Store<u8> as core::fmt::Display>::fmt");
	fn = must_have(plan, total);
	cr_expect_eq(fn->addresses, totals, "%s: instances", total);
	fn = must_have(plan, async);
	cr_expect_eq(fn->kind, PLAN_ASYNC);
	cr_expect_eq(must_have(plan, "own_server::with_closures")->kind, PLAN_FN);
	for (size_t i = 0; i < plan->fn_cnt; i++)
		if (strstr(plan->fns[i].name, "with_closures::{"))
			cr_expect_eq(plan->fns[i].kind, PLAN_FN, "%s", plan->fns[i].name);
	cr_expect_geq(plan->catch_cnt, 1);
	cr_expect_not(plan->unswept, "panics are seen where they are caught");
	cr_expect_null(plan->hint);
	plan__free(plan);
}

Test(plan, the_default_is_the_programs_own_crates)
{
	check_own("legacy/own_server", "own::Store<T>::total", 2,
		  "own_server::two_awaits::{{closure}}");
	check_own("v0/own_server", "<own::Store<u32>>::total", 1,
		  "own_server::two_awaits::{closure#0}");
}

Test(plan, closures_of_one_parent_are_rows_of_their_own)
{
	struct plan *plan = plan_of("legacy/own_server", "own_server::with_closures::{{closure}}");

	cr_expect_eq(plan->fn_cnt, 2);
	cr_expect_str_neq(plan->fns[0].name, plan->fns[1].name);
	cr_expect_eq(strncmp(plan->fns[0].name, "own_server::with_closures::{{closure}} #", 40), 0);
	plan__free(plan);
}

Test(plan, crates_functions_and_excludes_by_glob)
{
	const char *crates[] = { "ow?" }, *functions[] = { "*::with_closures" };
	const char *excludes[] = { "own::Store*" };
	struct plan_request req = { .crates = crates,
				    .crate_cnt = 1,
				    .functions = functions,
				    .function_cnt = 1,
				    .excludes = excludes,
				    .exclude_cnt = 1 };
	struct plan *plan = make_plan("legacy/own_server", &req);

	must_have(plan, "own::only_in_lib");
	must_have(plan, "own_server::with_closures");
	cr_expect_null(row(plan, "own_server::main"));
	cr_expect_null(row(plan, "own::Store<T>::total"));
	plan__free(plan);
}

Test(plan, drop_glue_and_shims_are_no_functions)
{
	struct plan *plan = plan_of("v0/own_server", "*");

	for (size_t i = 0; i < plan->fn_cnt; i++)
		cr_expect(!strstr(plan->fns[i].name, "drop_in_place") &&
				  !strstr(plan->fns[i].name, "{shim:"),
			  "%s", plan->fns[i].name);
	plan__free(plan);
}

/* ---- what is said when there is nothing ---- */

Test(plan, without_symbols_the_plan_is_empty_and_says_so)
{
	struct plan *plan = make_plan("stripped", &(struct plan_request){ .exe_name = "stripped" });

	cr_expect_eq(plan->fn_cnt, 0);
	cr_expect(plan->no_symbols);
	cr_assert_not_null(plan->hint);
	cr_expect_not_null(strstr(plan->hint, "stripped"));
	plan__free(plan);
}

Test(plan, a_c_program_without_a_choice_is_empty_and_says_so)
{
	struct plan *plan = make_plan("twins", &(struct plan_request){ .exe_name = "twins" });

	cr_expect_eq(plan->fn_cnt, 0);
	cr_expect(!plan->no_symbols);
	cr_assert_not_null(plan->hint);
	cr_expect_not_null(strstr(plan->hint, "--function"));
	plan__free(plan);
}

static void check_nothing(const char *file, const struct plan_request *req, const char *what)
{
	struct plan *plan;
	char *reason = NULL;

	cr_expect_eq(try_plan(file, req, &plan, &reason), -ENOENT);
	cr_assert_not_null(reason);
	cr_expect_not_null(strstr(reason, what), "%s", reason);
	cr_expect_null(strchr(reason, '\n'));
	free(reason);
}

Test(plan, a_choice_that_matches_nothing_is_an_error)
{
	const char *globs[] = { "own::only_in_lib", "nothing_of_that_name" },
		   *none[] = { "nobody" };

	check_nothing("legacy/own_server",
		      &(struct plan_request){ .functions = globs, .function_cnt = 2 },
		      "nothing_of_that_name");
	check_nothing("stripped", &(struct plan_request){ .functions = globs, .function_cnt = 1 },
		      "own::only_in_lib");
	check_nothing("legacy/own_server", &(struct plan_request){ .crates = none, .crate_cnt = 1 },
		      "nobody");
}

/* ---- debug information ---- */

Test(plan, functions_that_exist_only_inlined_are_named)
{
	struct plan_request req = { .exe_name = "own_server", .want_inlined = true };
	struct plan *plan = make_plan("debug/own_server", &req);
	bool found = false;

	for (size_t i = 0; i < plan->inlined_cnt; i++) {
		const char *name = plan->inlined_only[i];

		found |= strstr(name, "own_server::Twice") && strstr(name, "poll");
		cr_expect_null(row(plan, name), "%s is a row, too", name);
		cr_expect_not_null(strstr(name, "own"), "%s is not ours", name);
	}
	cr_expect(found, "of %zu names", plan->inlined_cnt);
	cr_assert_not_null(must_have(plan, "own_server::with_closures")->file);
	cr_expect_not_null(
		strstr(must_have(plan, "own_server::with_closures")->file, "own_server.rs"));
	cr_expect_gt(must_have(plan, "own_server::with_closures")->line, 10);
	plan__free(plan);
	req.want_inlined = false;
	plan = make_plan("debug/own_server", &req);
	cr_expect_eq(plan->inlined_cnt, 0);
	plan__free(plan);
}

Test(plan, asking_for_an_inlined_function_says_why_not)
{
	const char *globs[] = { "*own_server::Twice*::poll" };
	struct plan_request req = { .functions = globs, .function_cnt = 1 };

	check_nothing("debug/own_server", &req, "inlined");
	check_nothing("legacy/own_server", &req, "matches nothing");
}

/* ---- profiles ---- */

static void write_file(const char *dir, const char *name, const char *text)
{
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "w");
	cr_assert_not_null(f);
	fputs(text, f);
	fclose(f);
}

static void remove_dir(const char *dir)
{
	char command[300];

	snprintf(command, sizeof(command), "rm -rf '%s'", dir);
	cr_expect_eq(system(command), 0);
}

Test(plan, profiles)
{
	char dir[] = "/tmp/roletrace-profiles-XXXXXX", *reason = NULL;
	struct plan_request req = { .profile_dir = dir, .exe_name = "/opt/role_sv2" };
	struct plan *plan;

	cr_assert_not_null(mkdtemp(dir));
	write_file(dir, "a.conf", "# nobody\nexe nobody\ncrate std\n");
	write_file(dir, "role.conf", "exe   *_sv2   # roles\n\ncrate own\nexclude own::only*\r\n");
	plan = make_plan("legacy/own_server", &req);
	cr_expect_str_eq(plan->profile, "role");
	must_have(plan, "own::Store<T>::total");
	cr_expect_null(row(plan, "own::only_in_lib"));
	plan__free(plan);

	req.exe_name = "/opt/other";
	plan = make_plan("legacy/own_server", &req);
	cr_expect_null(plan->profile);
	plan__free(plan);

	req.profile = "a";
	plan = make_plan("legacy/own_server", &req);
	cr_expect_str_eq(plan->profile, "a");
	plan__free(plan);

	req.profile = "missing";
	cr_expect_eq(try_plan("legacy/own_server", &req, &plan, &reason), -EINVAL);
	cr_expect_not_null(strstr(reason, "missing"));
	free(reason);

	req.profile = NULL;
	write_file(dir, "a.conf", "exe x\nexes y\n");
	cr_expect_eq(try_plan("legacy/own_server", &req, &plan, &reason), -EINVAL);
	cr_expect_not_null(strstr(reason, "a.conf:2: "), "%s", reason);
	free(reason);
	write_file(dir, "a.conf", "crate\n");
	cr_expect_eq(try_plan("legacy/own_server", &req, &plan, &reason), -EINVAL);
	cr_expect_not_null(strstr(reason, "a.conf:1: "), "%s", reason);
	free(reason);
	remove_dir(dir);
}

/* ---- printing ---- */

Test(plan, list_says_what_is_probed_and_what_is_not)
{
	struct plan *plan = plan_of("flow", "*");
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	plan__print(plan, NULL, out);
	fclose(out);
	cr_expect_not_null(strstr(text, "two_rets"));
	cr_expect_not_null(strstr(text, "trap_first: the kernel refuses"));
	cr_expect_not_null(strstr(text, "= plain_alias"));
	free(text);
	plan__free(plan);
}

/* ---- files that are broken ---- */

static uint32_t next_random(uint32_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state;
}

static void plan_bytes(const void *bytes, size_t len)
{
	struct plan_request req = { .functions = everything, .function_cnt = 1 };
	int fd = memfd_create("elf", MFD_CLOEXEC);
	struct plan *plan = NULL;
	char *reason = NULL;
	int err;

	cr_assert_eq(write(fd, bytes, len), (ssize_t)len);
	err = plan_fd(fd, &req, &plan, &reason);
	if (err)
		cr_expect(reason && *reason && !strchr(reason, '\n'), "error %d in words", err);
	else
		plan__free(plan);
	free(reason);
	close(fd);
}

/* Whatever the bytes: a plan or a reason, never a crash. Run with SAN=1 it means more. */
Test(plan, corrupt_files_are_refused_or_planned, .timeout = 120)
{
	static const char *const files[] = { "flow", "cxx-cold", "relr" };
	uint32_t random = 1;

	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
		char path[512];
		struct stat st;
		char *orig, *bytes;
		FILE *f;

		snprintf(path, sizeof(path), "%s/%s", ELF_FIXTURES, files[i]);
		cr_assert_eq(stat(path, &st), 0);
		orig = malloc((size_t)st.st_size);
		bytes = malloc((size_t)st.st_size);
		f = fopen(path, "r");
		cr_assert_eq(fread(orig, 1, (size_t)st.st_size, f), (size_t)st.st_size);
		fclose(f);
		for (int n = 0; n < 100; n++)
			plan_bytes(orig, next_random(&random) % (size_t)st.st_size);
		for (int n = 0; n < 200; n++) {
			memcpy(bytes, orig, (size_t)st.st_size);
			for (uint32_t k = next_random(&random) % 20; k--;) {
				/* half of the time where the headers are */
				size_t room = next_random(&random) % 2 ? 1024 : (size_t)st.st_size;

				bytes[next_random(&random) % room] = (char)next_random(&random);
			}
			plan_bytes(bytes, (size_t)st.st_size);
		}
		free(orig);
		free(bytes);
	}
}

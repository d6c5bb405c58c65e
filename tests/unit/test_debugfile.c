/* SPDX-License-Identifier: BSD-2-Clause */
/* Separate debug files, versions, imports, source lines; plans of several files. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "plan/isolate.h"
#include "plan/plan.h"
#include "plan/sources.h"
#include "symbols/debugfile.h"
#include "symbols/dynamic.h"
#include "symbols/image.h"
#include "symbols/lines.h"

static int open_fixture(const char *name)
{
	char path[512];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", ELF_FIXTURES, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	cr_assert_geq(fd, 0, "%s", path);
	return fd;
}

static struct image *open_image(const char *name)
{
	struct image *img = NULL;
	char *reason = NULL;
	int fd = open_fixture(name);

	cr_assert_eq(image__open(fd, &img, &reason), 0, "%s: %s", name, reason);
	close(fd);
	return img;
}

/* ---- LIB:GLOB ---- */

Test(debugfile, a_single_colon_ends_the_library)
{
	static const struct {
		const char *function;
		size_t len;
	} cases[] = {
		{ "malloc", 0 },
		{ "own::store::add", 0 },
		{ "<own::A as own::B>::f", 0 },
		{ "libc.so.6:malloc", 9 },
		{ "libc*:*", 5 },
		{ "libstdc++.so.6:std::string::append", 14 },
		{ "*::f", 0 },
		{ "/opt/lib/*.so:own::f", 13 },
		{ "", 0 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		cr_expect_eq(sources__lib_len(cases[i].function), cases[i].len, "%s",
			     cases[i].function);
}

/* ---- versions ---- */

static void check_versions(const char *file, enum symbol_source source)
{
	struct image *img = open_image(file);
	size_t cnt, olds = 0, defaults = 0;
	const struct symbol *s = image__symbols(img, &cnt);

	cr_expect_eq(image__source(img), source);
	for (size_t i = 0; i < cnt; i++) {
		const char *name = image__str(img, s[i].name);
		const char *version = image__str(img, s[i].version);

		cr_expect_null(strchr(name, '@'), "%s", name);
		if (!strcmp(name, "traced_versioned")) {
			olds += s[i].old && !strcmp(version, "@V1");
			defaults += !s[i].old && !strcmp(version, "@@V2");
		} else {
			/* only one of that name: its version tells nothing apart */
			cr_expect(!s[i].old && !s[i].version, "%s%s", name, version);
		}
	}
	cr_expect_eq(olds, 1);
	cr_expect_eq(defaults, 1);
	image__free(img);
}

Test(debugfile, versions_that_tell_functions_apart)
{
	check_versions("versions.so", SYMBOLS_OWN);
	check_versions("versions-stripped.so", SYMBOLS_EXPORTED);
}

/* ---- separate debug files ---- */

Test(debugfile, what_a_file_says_of_its_debug_file)
{
	struct debug_wish wish;
	int fd = open_fixture("split");

	debug_wish__read(fd, &wish);
	close(fd);
	cr_expect_eq(strlen(wish.build_id), 40);
	cr_expect_str_eq(wish.link, "split.debug");
	cr_expect(!wish.has_symbols && !wish.has_dwarf);
	fd = open_fixture("versions.so");
	debug_wish__read(fd, &wish);
	close(fd);
	cr_expect_str_eq(wish.soname, "libversions.so");
	cr_expect_str_eq(wish.link, "");
	cr_expect(wish.has_symbols);
}

static void check_debug(const char *debug, const uint32_t *crc, const char *why)
{
	struct image *img = open_image("split");
	int fd = open_fixture(debug);
	char *reason = NULL;
	int err = image__add_debug(img, fd, crc, &reason);

	if (why) {
		cr_expect_eq(err, -EBADF, "%s", debug);
		cr_expect(reason && strstr(reason, why), "%s: %s", debug, reason);
		cr_expect_neq(image__source(img), SYMBOLS_SEPARATE);
	} else {
		size_t cnt;

		cr_expect_eq(err, 0, "%s: %s", debug, reason);
		cr_expect_eq(image__source(img), SYMBOLS_SEPARATE);
		image__symbols(img, &cnt);
		cr_expect_gt(cnt, 3);
	}
	free(reason);
	close(fd);
	image__free(img);
}

Test(debugfile, only_its_own_debug_file_is_taken)
{
	struct debug_wish wish;
	uint32_t wrong;
	int fd = open_fixture("split");

	debug_wish__read(fd, &wish);
	close(fd);
	wrong = wish.link_crc ^ 1;
	check_debug("split.debug", NULL, NULL);
	check_debug("split.debug", &wish.link_crc, NULL);
	check_debug("split.debug", &wrong, "CRC");
	check_debug("split-full", NULL, NULL);
	check_debug("split-other.debug", NULL, "build-id");
	check_debug("split-no-id.debug", NULL, "segments");
	check_debug("legacy/libown.rlib", NULL, "ELF");
}

/* ---- imports ---- */

static int keep_provider(void *arg, const char *name, const char *provider, const char *needed)
{
	cr_expect_not_null(strstr(needed, "libc.so.6"));
	if (!strcmp(name, "__libc_start_main"))
		snprintf(arg, 64, "%s", provider ? provider : "?");
	return 0;
}

Test(debugfile, imports_and_who_provides_them)
{
	char provider[64] = "";
	int fd = open_fixture("split");

	cr_expect_eq(dynamic__imports(fd, keep_provider, provider), 0);
	close(fd);
	cr_expect_str_eq(provider, "libc.so.6");
}

/* ---- lines ---- */

Test(debugfile, lines_of_functions_by_address)
{
	struct image *img = open_image("split-full");
	size_t cnt, n = 0;
	const struct symbol *s = image__symbols(img, &cnt);
	struct line_of lines[64] = {};
	int fd = open_fixture("split.debug");

	for (size_t i = 0; i < cnt && n < 64; i++)
		if (!strcmp(image__str(img, s[i].name), "helper") ||
		    !strcmp(image__str(img, s[i].name), "_start"))
			lines[n++] = (struct line_of){ .vaddr = s[i].addr, .id = (uint32_t)n };
	cr_assert_gt(n, 1);
	cr_expect_eq(lines__find(fd, lines, n, NS_PER_SEC), LINES_DONE);
	for (size_t i = 0, twins = 0; i < n; i++) {
		twins += lines[i].file && strstr(lines[i].file, "/twin_") && lines[i].line;
		cr_expect(i + 1 < n || twins == n - 1, "of %zu twins %zu have a line", n - 1,
			  twins);
		free(lines[i].file);
	}
	close(fd);
	fd = open_fixture("split");
	cr_expect_eq(lines__find(fd, lines, n, NS_PER_SEC), LINES_NONE);
	close(fd);
	image__free(img);
}

/* ---- plans of several files ---- */

static void check_several(const struct plan *plan)
{
	size_t mine = 0, theirs = 0;

	cr_assert_eq(plan->object_cnt, 2);
	cr_expect_str_eq(plan->objects[0].name, "split");
	cr_expect_str_eq(plan->objects[1].name, "versions.so");
	cr_expect_eq(plan->objects[1].source, 2);
	cr_expect_str_eq(plan->build_id, plan->objects[0].build_id);
	cr_expect_not_null(strstr(plan->objects[0].debug_file, "split.debug"));
	cr_expect_null(plan->objects[1].debug_file);
	for (size_t i = 0; i < plan->fn_cnt; i++) {
		bool lib = !strncmp(plan->fns[i].name, "versions.so:traced_", 19);

		cr_expect_eq(plan->fns[i].object, lib, "%s", plan->fns[i].name);
		mine += !lib;
		theirs += lib;
		cr_expect(lib || (plan->fns[i].file && plan->fns[i].line), "%s", plan->fns[i].name);
	}
	cr_expect_eq(mine, 2);
	cr_expect_eq(theirs, 5);
	for (size_t i = 0; i < plan->site_cnt; i++)
		cr_expect_eq(plan->sites[i].object, plan->fns[plan->sites[i].fn].object);
}

static void make_several(const char *const *globs, size_t cnt, int *err, struct plan **plan,
			 char **reason)
{
	struct plan_source sources[] = {
		{ open_fixture("split"), ELF_FIXTURES "/split" },
		{ open_fixture("flow"), ELF_FIXTURES "/flow" },
		{ open_fixture("versions.so"), ELF_FIXTURES "/versions.so (deleted)" },
	};
	struct plan_input in = { .sources = sources, .source_cnt = 3 };
	struct plan_request req = { .functions = globs,
				    .function_cnt = cnt,
				    .profile_dir = "/nonexistent",
				    .exe_name = sources[0].path };

	*err = plan__new_isolated(&in, &req, plan, reason);
	for (size_t i = 0; i < 3; i++)
		close(sources[i].fd);
}

Test(debugfile, a_plan_of_the_program_and_a_library)
{
	/* by its file, by its soname */
	const char *globs[] = { "helper", "versions.so:traced_*", "libversions*:traced_plain" };
	struct plan *plan = NULL;
	char *reason = NULL;
	int err;

	make_several(globs, 3, &err, &plan, &reason);
	cr_assert_eq(err, 0, "%s", reason);
	check_several(plan);
	plan__free(plan);
}

Test(debugfile, files_of_one_name_are_told_apart)
{
	struct plan_source sources[] = {
		{ open_fixture("split"), ELF_FIXTURES "/split" },
		{ open_fixture("legacy/own_server"), ELF_FIXTURES "/legacy/own_server" },
		{ open_fixture("v0/own_server"), ELF_FIXTURES "/v0/own_server" },
	};
	const char *glob = "own_server:own_server::with_closures";
	struct plan_input in = { .sources = sources, .source_cnt = 3 };
	struct plan_request req = { .functions = &glob,
				    .function_cnt = 1,
				    .profile_dir = "/nonexistent",
				    .exe_name = sources[0].path };
	struct plan *plan = NULL;
	char *reason = NULL;

	cr_assert_eq(plan__new_isolated(&in, &req, &plan, &reason), 0, "%s", reason);
	cr_assert_eq(plan->fn_cnt, 2);
	cr_expect_str_eq(plan->fns[0].name,
			 ELF_FIXTURES "/legacy/own_server:own_server::with_closures");
	cr_expect_str_eq(plan->fns[1].name,
			 ELF_FIXTURES "/v0/own_server:own_server::with_closures");
	plan__free(plan);
	for (size_t i = 0; i < 3; i++)
		close(sources[i].fd);
}

Test(debugfile, what_no_file_has_is_an_error)
{
	static const struct {
		const char *glob, *says;
	} cases[] = {
		{ "libnone.so:f", "no mapped file is called 'libnone.so' (mapped: split, flow, "
				  "versions.so)" },
		{ "versions.so:no_such", "'versions.so:no_such' matches nothing" },
		{ "__libc_start_main", "--function 'libc.so.6:__libc_start_main'" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct plan *plan = NULL;
		char *reason = NULL;
		int err;

		make_several(&cases[i].glob, 1, &err, &plan, &reason);
		cr_expect_eq(err, -ENOENT, "%s", cases[i].glob);
		cr_expect(reason && strstr(reason, cases[i].says), "%s: %s", cases[i].glob, reason);
		cr_expect(reason && !strchr(reason, '\n'));
		free(reason);
	}
}

/* ---- files that are broken ---- */

static uint32_t next_random(uint32_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state;
}

static int ignore(void *arg, const char *name, const char *provider, const char *needed)
{
	return name[0] == '\1' && provider && needed[0];
}

/* Everything that reads a foreign debug file or library, on bytes. */
static void read_bytes(const void *bytes, size_t len)
{
	struct image *img = open_image("split"), *own = NULL;
	struct line_of lines[2] = { { .vaddr = 0x1000 }, { .vaddr = 0x1139 } };
	int fd = memfd_create("elf", MFD_CLOEXEC);
	struct debug_wish wish;
	char *reason = NULL;

	cr_assert_eq(write(fd, bytes, len), (ssize_t)len);
	debug_wish__read(fd, &wish);
	cr_expect_null(strchr(wish.link, '/'));
	dynamic__imports(fd, ignore, NULL);
	image__add_debug(img, fd, NULL, &reason);
	free(reason);
	reason = NULL;
	if (!image__open(fd, &own, &reason))
		image__free(own);
	lines__find(fd, lines, 2, NS_PER_SEC / 10);
	free(lines[0].file);
	free(lines[1].file);
	free(reason);
	image__free(img);
	close(fd);
}

Test(debugfile, corrupt_debug_files_are_survived, .timeout = 120)
{
	static const char *const files[] = { "split.debug", "versions.so", "versions-stripped.so" };
	uint32_t random = 7;

	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
		int fd = open_fixture(files[i]);
		struct stat st;
		char *orig, *bytes;

		cr_assert_eq(fstat(fd, &st), 0);
		orig = malloc((size_t)st.st_size);
		bytes = malloc((size_t)st.st_size);
		cr_assert_eq(read(fd, orig, (size_t)st.st_size), st.st_size);
		close(fd);
		for (int n = 0; n < 300; n++) {
			size_t len = (size_t)st.st_size;

			memcpy(bytes, orig, len);
			for (uint32_t k = next_random(&random) % 20; k--;) {
				/* a third each: headers, anywhere, section headers at the end */
				uint32_t where = next_random(&random) % 3;
				size_t room = where && len > 2048 ? 2048 : len;
				size_t from = where == 2 ? len - room : 0;

				bytes[from + next_random(&random) % room] =
					(char)next_random(&random);
			}
			if (next_random(&random) % 4 == 0)
				len = next_random(&random) % len;
			read_bytes(bytes, len);
		}
		free(orig);
		free(bytes);
	}
}

// SPDX-License-Identifier: BSD-2-Clause
/* Finds and parses role profiles. Does not know what they select from. */
#include "plan/profile.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/glob.h"
#include "base/strbuf.h"
#include "base/vec.h"
#include "symbols/demangle.h"

#define SUFFIX ".conf"

struct strings {
	char **data;
	size_t cnt, cap;
};

struct parse {
	const char *path;
	const char *exe;
	bool applies;
	struct strings crates, excludes;
	char **reason;
};

static int complain(struct parse *p, int line, const char *what, const char *word)
{
	struct strbuf sb = STRBUF_INIT;

	strbuf__addf(&sb, "%s:%d: %s '%s'", p->path, line, what, word);
	*p->reason = strbuf__take(&sb);
	return -EINVAL;
}

static int keep(struct strings *list, const char *value)
{
	char **slot = vec__push(list);

	return slot && (*slot = strdup(value)) ? 0 : -ENOMEM;
}

static char *trim(char *s)
{
	char *end;

	s += strspn(s, " \t\r");
	end = s + strlen(s);
	while (end > s && strchr(" \t\r", end[-1]))
		*--end = '\0';
	return s;
}

static int parse_line(struct parse *p, int nr, char *line)
{
	char *word, *value;

	line[strcspn(line, "#")] = '\0';
	word = trim(line);
	if (!*word)
		return 0;
	value = word + strcspn(word, " \t");
	if (*value)
		*value++ = '\0';
	value = trim(value);
	if (!*value)
		return complain(p, nr, "no value for", word);
	if (!strcmp(word, "exe")) {
		p->applies |= p->exe && glob__match(value, p->exe);
		return 0;
	}
	if (!strcmp(word, "crate"))
		return keep(&p->crates, value);
	if (!strcmp(word, "exclude"))
		return keep(&p->excludes, value);
	return complain(p, nr, "unknown word", word);
}

static int parse_text(struct parse *p, char *text)
{
	char *line = text, *next;
	int err = 0;

	for (int nr = 1; !err && line; nr++, line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		err = parse_line(p, nr, line);
	}
	return err;
}

static char *stem_of(const char *path)
{
	const char *name = strrchr(path, '/');

	name = name ? name + 1 : path;
	return strndup(name, strlen(name) - strlen(SUFFIX));
}

/* Reads one file; *out is set when it is wanted: always when named, else when it applies. */
static int read_profile(const char *path, const char *exe, bool named, struct profile **out,
			char **reason)
{
	struct parse p = { .path = path, .exe = exe, .reason = reason };
	struct profile *profile = calloc(1, sizeof(*profile));
	struct strbuf text = STRBUF_INIT;
	int err = profile ? fs__read(path, &text) : -ENOMEM;

	if (!err)
		err = parse_text(&p, text.s);
	strbuf__free(&text);
	if (profile) {
		profile->crates = p.crates.data;
		profile->crate_cnt = p.crates.cnt;
		profile->excludes = p.excludes.data;
		profile->exclude_cnt = p.excludes.cnt;
		if (!err && !(profile->name = stem_of(path)))
			err = -ENOMEM;
	}
	if (err || (!named && !p.applies))
		profile__free(profile);
	else
		*out = profile;
	return err;
}

static int is_conf(const struct dirent *d)
{
	size_t len = strlen(d->d_name);

	return d->d_name[0] != '.' && len > strlen(SUFFIX) &&
	       !strcmp(d->d_name + len - strlen(SUFFIX), SUFFIX);
}

static int search(const char *dir, const char *name, const char *exe, struct profile **out,
		  char **reason)
{
	struct dirent **files;
	int cnt = scandir(dir, &files, is_conf, alphasort), err = 0;

	for (int i = 0; i < cnt; i++) {
		struct strbuf path = STRBUF_INIT;
		bool named = name && strlen(files[i]->d_name) == strlen(name) + strlen(SUFFIX) &&
			     !strncmp(files[i]->d_name, name, strlen(name));

		strbuf__addf(&path, "%s/%s", dir, files[i]->d_name);
		if (!err && !*out && (named || !name))
			err = path.oom ? -ENOMEM : read_profile(path.s, exe, named, out, reason);
		strbuf__free(&path);
		free(files[i]);
	}
	if (cnt >= 0)
		free(files);
	return err;
}

/* build/roletrace -> profiles/ */
static int search_beside(const char *name, const char *exe, struct profile **out, char **reason)
{
	char self[PATH_MAX];
	struct strbuf dir = STRBUF_INIT;
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
	int err;

	if (len <= 0)
		return 0;
	self[len] = '\0';
	*strrchr(self, '/') = '\0';
	strbuf__addf(&dir, "%s/../profiles", self);
	err = dir.oom ? -ENOMEM : search(dir.s, name, exe, out, reason);
	strbuf__free(&dir);
	return err;
}

int profile__load(const char *name, const char *dir, const char *exe, struct profile **out,
		  char **reason)
{
	const char *base = exe ? strrchr(exe, '/') : NULL;
	int err;

	*out = NULL;
	base = base ? base + 1 : exe;
	err = search(dir ? dir : PROFILE_DIR, name, base, out, reason);
	if (!err && !*out && !dir)
		err = search_beside(name, base, out, reason);
	if (!err && !*out && name) {
		struct strbuf sb = STRBUF_INIT;

		strbuf__addf(&sb, "no profile '%s' in %s", name, dir ? dir : PROFILE_DIR);
		*reason = strbuf__take(&sb);
		err = -EINVAL;
	}
	return err;
}

static void free_list(char **list, size_t cnt)
{
	for (size_t i = 0; i < cnt; i++)
		free(list[i]);
	free(list);
}

void profile__free(struct profile *profile)
{
	if (!profile)
		return;
	free(profile->name);
	free_list(profile->crates, profile->crate_cnt);
	free_list(profile->excludes, profile->exclude_cnt);
	free(profile);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "attach/unwinder.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "attach/mmaps.h"
#include "base/clock.h"
#include "base/log.h"
#include "plan/unwind.h"
#include "target/process.h"

/* For what is mapped later, at least. */
#define SPARE_ROWS (1u << 20)
#define SPARE_PAGES 8192u
#define SPARE_RULES 32768u
#define MAX_ROWS (16u << 20) /* 64 MB */

#define LOOK_INTERVAL_NS NS_PER_SEC
#define LOOK_SOON_NS (50 * NS_PER_MS)
#define LOOK_SHARE 200	/* by the clock: at most one part of so many of the time */
#define URGENT_SHARE 50 /* all looks, those on events too, but for ... */
#define URGENT_FREE_NS (50 * NS_PER_MS)

/* A map as memory. */
struct area {
	struct bpf_map *map;
	void *data;
	size_t bytes;
	uint32_t cap, used; /* elements; rows count singly */
};

struct unwinder {
	const struct target *target;
	struct code code;
	struct unwind_table *tables; /* by file; their arrays only until they are in the maps */
	size_t table_cnt;
	struct area maps, dir, objects, pages, rows, rules;
	struct mmaps *mmaps; /* NULL: not to be had, then the mappings are looked at by the clock */
	uint64_t first_look_ns, last_look_ns, look_cost_ns, looks_ns, unknown;
	bool stale; /* something was mapped since the last look */
	bool filled;
};

/* ---- tables ---- */

static int compile_new_files(struct unwinder *u)
{
	struct unwind_table *t = realloc(u->tables, (u->code.file_cnt + 1) * sizeof(*t));

	if (!t)
		return -ENOMEM;
	u->tables = t;
	for (; u->table_cnt < u->code.file_cnt; u->table_cnt++) {
		const struct code_file *f = &u->code.files[u->table_cnt];
		char *reason = NULL;

		memset(&t[u->table_cnt], 0, sizeof(*t));
		if (unwind__compile_isolated(f->fd, &t[u->table_cnt], &reason)) {
			log_warn("attach: no unwind tables of '%s': %s", f->path,
				 reason ? reason : "?");
		}
		free(reason);
	}
	return 0;
}

int unwinder__new(const struct target *target, struct unwinder **out, char **reason)
{
	struct unwinder *u = calloc(1, sizeof(*u));
	int err;

	*reason = NULL;
	if (!u)
		return -ENOMEM;
	u->target = target;
	err = code__look(&u->code, target);
	if (err >= 0)
		err = compile_new_files(u);
	if (err) {
		*reason = strdup("cannot read what the process maps");
		unwinder__free(u);
		return err;
	}
	*out = u;
	return 0;
}

/* ---- maps ---- */

static uint32_t with_spare(uint64_t used, uint32_t spare)
{
	uint64_t cap = used + (used / 4 > spare ? used / 4 : spare);

	return cap < MAX_ROWS ? (uint32_t)cap : MAX_ROWS;
}

int unwinder__size(struct unwinder *u, const struct unwinder_maps *m)
{
	uint64_t rows = 0, pages = 0, rules = 0;
	int err;

	for (size_t i = 0; i < u->table_cnt; i++) {
		rows += u->tables[i].row_cnt;
		pages += u->tables[i].page_cnt;
		rules += u->tables[i].rule_cnt;
	}
	u->maps = (struct area){ .map = m->maps, .cap = 2 * RT_UNWIND_MAX_MAPS };
	u->dir = (struct area){ .map = m->dir, .cap = 1 };
	u->objects = (struct area){ .map = m->objects, .cap = RT_UNWIND_MAX_OBJECTS };
	u->pages = (struct area){ .map = m->pages, .cap = with_spare(pages, SPARE_PAGES) };
	u->rows = (struct area){ .map = m->rows, .cap = with_spare(rows, SPARE_ROWS) & ~1u };
	u->rules = (struct area){ .map = m->rules, .cap = with_spare(rules, SPARE_RULES) };
	err = bpf_map__set_max_entries(m->pages, u->pages.cap);
	err = err ?: bpf_map__set_max_entries(m->rows, u->rows.cap / 2);
	return err ?: bpf_map__set_max_entries(m->rules, u->rules.cap);
}

static int map_area(struct area *a)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	a->bytes = (size_t)bpf_map__max_entries(a->map) * bpf_map__value_size(a->map);
	a->bytes = (a->bytes + page - 1) / page * page;
	a->data = mmap(NULL, a->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(a->map), 0);
	if (a->data != MAP_FAILED)
		return 0;
	a->data = NULL;
	return -errno;
}

static bool fits(const struct area *a, uint32_t more)
{
	return more <= a->cap - a->used;
}

static void drop_arrays(struct unwind_table *t)
{
	free(t->pages);
	free(t->rows);
	free(t->rules);
	t->pages = NULL;
	t->rows = NULL;
	t->rules = NULL;
}

/* Appends a file's table; its object is complete before any mapping names it. */
static void put_table(struct unwinder *u, size_t file)
{
	struct rt_unwind_object *o = (struct rt_unwind_object *)u->objects.data + file + 1;
	struct unwind_table *t = &u->tables[file];
	struct rt_unwind_page *pages = u->pages.data;

	if (!t->page_cnt || !t->pages)
		return;
	if (!fits(&u->pages, t->page_cnt) || !fits(&u->rows, t->row_cnt) ||
	    !fits(&u->rules, t->rule_cnt)) {
		log_warn("attach: no room for the unwind tables of '%s'", u->code.files[file].path);
		drop_arrays(t);
		return;
	}
	memcpy((uint32_t *)u->rows.data + u->rows.used, t->rows, t->row_cnt * sizeof(*t->rows));
	memcpy((struct rt_unwind_rule *)u->rules.data + u->rules.used, t->rules,
	       t->rule_cnt * sizeof(*t->rules));
	for (uint32_t i = 0; i < t->page_cnt; i++)
		pages[u->pages.used + i] =
			(struct rt_unwind_page){ .first = u->rows.used + t->pages[i].first,
						 .last = t->pages[i].last,
						 .step = t->pages[i].step };
	*o = (struct rt_unwind_object){ .base = t->base,
					.first_page = u->pages.used,
					.page_cnt = t->page_cnt,
					.first_rule = u->rules.used,
					.rule_cnt = t->rule_cnt };
	u->rows.used += t->row_cnt;
	u->rules.used += t->rule_cnt;
	u->pages.used += t->page_cnt;
	drop_arrays(t);
}

/* The mapping in terms of its file's addresses; one of no known segment is of no object. */
static struct rt_unwind_map translate(const struct unwinder *u, const struct code_map *m)
{
	struct rt_unwind_map out = { .start = m->start, .end = m->end, .vaddr = m->start };
	bool known = m->file && m->file <= u->table_cnt;
	const struct unwind_table *t = known ? &u->tables[m->file - 1] : NULL;

	for (uint32_t i = 0; t && i < t->segment_cnt; i++) {
		const struct code_segment *seg = &t->segments[i];

		if (m->offset >= seg->offset + seg->bytes ||
		    m->offset + (m->end - m->start) <= seg->offset)
			continue;
		out.vaddr = seg->vaddr + m->offset - seg->offset;
		out.object = m->file;
		break;
	}
	return out;
}

static void put_maps(struct unwinder *u)
{
	volatile struct rt_unwind_dir *dir = u->dir.data;
	uint32_t gen = dir->gen + 1, bank = gen & 1, n = 0;
	struct rt_unwind_map *maps = u->maps.data;

	maps += bank * RT_UNWIND_MAX_MAPS;
	for (size_t i = 0; i < u->code.map_cnt && n < RT_UNWIND_MAX_MAPS; i++)
		maps[n++] = translate(u, &u->code.maps[i]);
	dir->cnt[bank] = n;
	__atomic_store_n(&dir->gen, gen, __ATOMIC_RELEASE);
}

int unwinder__fill(struct unwinder *u)
{
	struct area *areas[] = { &u->maps, &u->dir, &u->objects, &u->pages, &u->rows, &u->rules };

	for (size_t i = 0; i < sizeof(areas) / sizeof(areas[0]); i++) {
		int err = map_area(areas[i]);

		if (err)
			return err;
	}
	for (size_t i = 0; i < u->table_cnt; i++)
		put_table(u, i);
	put_maps(u);
	u->filled = true;
	u->mmaps = mmaps__new(u->target->pid);
	if (!u->mmaps)
		log_warn("attach: cannot see what the target maps while it does: %s",
			 strerror(errno));
	u->stale = true; /* what it mapped meanwhile */
	return 0;
}

/* ---- while it runs ---- */

static void look(struct unwinder *u)
{
	size_t known = u->table_cnt;
	uint64_t begin = clock__mono_ns();
	int changed = code__look(&u->code, u->target);

	u->look_cost_ns = clock__mono_ns() - begin;
	u->looks_ns += u->look_cost_ns;
	if (changed <= 0)
		return;
	/* at once, so that nothing is taken for what was there before; rows of new files follow */
	put_maps(u);
	if (u->code.file_cnt == known || compile_new_files(u))
		return;
	for (size_t i = known; i < u->table_cnt; i++)
		put_table(u, i);
	put_maps(u);
}

void unwinder__look(struct unwinder *u, uint64_t now_ns, uint64_t unknown)
{
	uint64_t pause = LOOK_INTERVAL_NS;

	if (!u->filled)
		return;
	u->stale |= u->mmaps && mmaps__changed(u->mmaps);
	if (!u->first_look_ns)
		u->first_look_ns = now_ns;
	if (unknown != u->unknown)
		pause = LOOK_SOON_NS;
	if (pause < u->look_cost_ns * LOOK_SHARE)
		pause = u->look_cost_ns * LOOK_SHARE;
	if (u->stale && u->looks_ns < URGENT_FREE_NS + (now_ns - u->first_look_ns) / URGENT_SHARE)
		pause = 0;
	if (now_ns < u->last_look_ns + pause)
		return;
	u->unknown = unknown;
	u->stale = false;
	look(u);
	u->last_look_ns = now_ns;
}

void unwinder__free(struct unwinder *u)
{
	struct area *areas[] = { &u->maps, &u->dir, &u->objects, &u->pages, &u->rows, &u->rules };

	if (!u)
		return;
	for (size_t i = 0; i < sizeof(areas) / sizeof(areas[0]); i++)
		if (areas[i]->data)
			munmap(areas[i]->data, areas[i]->bytes);
	for (size_t i = 0; i < u->table_cnt; i++)
		drop_arrays(&u->tables[i]);
	free(u->tables);
	mmaps__free(u->mmaps);
	code__free(&u->code);
	free(u);
}

int unwinder__fd(const struct unwinder *u)
{
	return u->mmaps ? mmaps__fd(u->mmaps) : -1;
}

const struct code *unwinder__code(const struct unwinder *u)
{
	return &u->code;
}

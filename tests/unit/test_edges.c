/* SPDX-License-Identifier: BSD-2-Clause */
/* Cheaper exits: a row per shape of tests/fixtures/elf/edges.S. What real code makes of it is
 * held against the processor by tests/oracle. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "plan/flow.h"
#include "symbols/image.h"

enum { R = RT_SITE_RET, T = RT_SITE_TAIL, G = RT_SITE_EDGE, C = RT_SITE_EDGE_JCC };
enum { JE = 4, JNE = 5 };

static const struct shape {
	const char *name;
	struct {
		uint8_t kind, cond, sp_words;
	} edges[3]; /* at NAME.g1, NAME.g2...; none: exits stay as they are */
} shapes[] = {
	{ "joined", { { C, JE, 1 }, { G, 0, 1 } } },
	{ "falls", { { C, JE, 1 }, { G, 0, 1 } } },
	{ "straight", {} },
	{ "mixed", { { C, JE, 1 }, { R, 0, 0 } } },
	{ "loops", {} },
	{ "both", { { G, 0, 1 } } },
	{ "manners", {} },
	{ "copies", {} },
	{ "moves_stack", {} },
	{ "deep", { { G, 0, 5 } } },
	{ "many", {} },
	{ "short", { { G, 0, 1 } } },
	{ "entry_only", {} },
};

static uint64_t address(const struct image *img, const char *name)
{
	size_t cnt;
	const struct symbol *syms = image__symbols(img, &cnt);

	for (size_t i = 0; i < cnt; i++)
		if (!strcmp(image__str(img, syms[i].name), name))
			return syms[i].addr;
	return 0;
}

static size_t edges_of(const struct shape *shape)
{
	size_t n = 0;

	while (n < 3 && shape->edges[n].kind)
		n++;
	return n;
}

static void check_shape(const struct image *img, const struct shape *shape)
{
	const struct symbol *sym = image__function_at(img, address(img, shape->name));
	size_t want = edges_of(shape);
	struct flow flow;

	cr_assert_not_null(sym, "%s", shape->name);
	cr_assert_eq(flow__analyse(img, sym, sym->size, &flow), 0);
	cr_assert_eq(flow.why, PLAN_OK, "%s: %s", shape->name, plan_refusal_text(flow.why));
	cr_expect_eq(flow.edge_cnt, want, "%s: %zu edges", shape->name, flow.edge_cnt);
	for (size_t i = 0; i < want && flow.edge_cnt == want; i++) {
		const struct flow_site *s = &flow.edges[i];
		char label[64];

		snprintf(label, sizeof(label), "%s.g%zu", shape->name, i + 1);
		cr_expect_eq(s->vaddr, address(img, label), "%s: at %#lx", label, s->vaddr);
		cr_expect_eq(s->kind, shape->edges[i].kind, "%s: kind %d", label, s->kind);
		cr_expect_eq(s->cond, shape->edges[i].cond, "%s: condition %d", label, s->cond);
		cr_expect_eq(s->sp_words, shape->edges[i].sp_words, "%s: %d words", label,
			     s->sp_words);
		cr_expect_eq(s->insn,
			     shape->edges[i].kind == R ? RT_INSN_STEPPED : RT_INSN_EMULATED, "%s",
			     label);
	}
	flow__free(&flow);
}

Test(edges, every_shape)
{
	int fd = open(ELF_FIXTURES "/edges", O_RDONLY | O_CLOEXEC);
	struct image *img = NULL;
	char *reason = NULL;

	cr_assert_eq(image__open(fd, &img, &reason), 0, "%s", reason);
	for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++)
		check_shape(img, &shapes[i]);
	image__free(img);
	close(fd);
}

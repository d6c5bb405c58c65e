/* SPDX-License-Identifier: BSD-2-Clause */
#include <criterion/criterion.h>
#include <pty.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/strbuf.h"
#include "says.h"
#include "synth.h"
#include "synth_stacks.h"
#include "ui/live.h"
#include "ui/text.h"

Test(live, is_silent_and_plain_where_there_is_no_terminal)
{
	struct snapshot *s = synth__new();
	struct live *l = live__new(&(struct report_opts){ .colour = true });
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	live__draw(l, s, NULL, f);
	live__clear(l, f);
	fflush(f);
	cr_expect_eq(len, 0);
	for (int i = 0; i <= 100; i++)
		live__progress(l, f, (uint64_t)i * 100000000, 10000000000, 5, 0.01);
	live__clear(l, f);
	fclose(f);
	expect_says(text, "25%  2.50s of 10.0s  5 calls  overhead 1.00% of a CPU\n");
	expect_says(text, "75%");
	expect_silent(text, "\x1b");
	expect_silent(text, "\r");
	free(text);
	live__free(l);
	snapshot__free(s);
}

Test(live, clipping_counts_columns_and_keeps_colours)
{
	struct strbuf out = STRBUF_INIT;
	const char *line = "\x1b[1mµµ计算\x1b[0mrest";

	text__clip(&out, line, strlen(line), 5);
	cr_expect_str_eq(out.s, "\x1b[1mµµ计\x1b[0m", "%s", out.s);
	strbuf__free(&out);
}

/*
 * What the terminal has been sent, NUL-terminated. It arrives in pieces, in the kernel's own time:
 * a mark behind it tells the end.
 */
static void receive(FILE *tty, int master, char out[16384])
{
	const char mark = '\x01';
	size_t len = 0;
	ssize_t n;

	fputc(mark, tty);
	fflush(tty);
	while (!len || out[len - 1] != mark) {
		n = read(master, out + len, 16384 - len);
		cr_assert_gt(n, 0);
		len += (size_t)n;
	}
	out[len - 1] = '\0';
}

/* What one draw sends to a terminal of that size, NUL-terminated. */
static void draw(struct live *l, const struct snapshot *s, FILE *tty, int master,
		 unsigned short columns, char out[16384])
{
	struct winsize ws = { .ws_row = 24, .ws_col = columns };

	ioctl(master, TIOCSWINSZ, &ws);
	live__draw(l, s, NULL, tty);
	receive(tty, master, out);
	cr_assert(*out);
}

static unsigned int lines_in(const char *text, unsigned int columns)
{
	unsigned int lines = 0;

	for (const char *end; (end = strchr(text, '\n')); text = end + 1, lines++) {
		struct strbuf clipped = STRBUF_INIT;

		/* no wider than the screen: nothing is left to clip */
		text += *text == '\r';
		text__clip(&clipped, text, (size_t)(end - text), columns + 3); /* "[K" and CR */
		cr_expect_eq(clipped.len, (size_t)(end - text));
		strbuf__free(&clipped);
	}
	return lines;
}

Test(live, redraws_in_place_and_survives_resizing)
{
	struct snapshot *s = synth__new();
	struct live *l = live__new(&(struct report_opts){ .colour = false });
	int master, slave;
	char text[16384], up[16];
	unsigned int lines;
	FILE *tty;

	if (openpty(&master, &slave, NULL, NULL, NULL))
		cr_skip_test("no pseudo terminals here (/dev/pts)");
	tty = fdopen(slave, "w");
	draw(l, s, tty, master, 80, text);
	expect_silent(text, "A\x1b");
	expect_says(text, "translator_sv2 (pid 4242)  00:00:10");
	expect_says(text, "poll …");
	lines = lines_in(text, 80);
	cr_expect(lines > 5 && lines < 24);

	draw(l, s, tty, master, 80, text);
	snprintf(up, sizeof(up), "\r\x1b[%uA", lines);
	cr_expect_eq(strncmp(text, up, strlen(up)), 0, "as high as the frame: '%.6s'", text + 1);

	draw(l, s, tty, master, 50, text);
	cr_expect_gt(atoi(text + 3), (int)lines, "the old lines have wrapped");
	cr_expect_eq(lines_in(text, 50), lines);
	for (const char *e = text; (e = strchr(e, '\x1b')); e++)
		cr_expect(strchr("AKJ", e[strcspn(e, "AKJ")]), "only moves and clears");

	live__clear(l, tty);
	receive(tty, master, text);
	snprintf(up, sizeof(up), "\r\x1b[%uA\x1b[J", lines);
	cr_expect_str_eq(text, up);
	fclose(tty);
	close(master);
	live__free(l);
	snapshot__free(s);
}

/* What was asked for beside calls has its line while tracing goes on. */
Test(live, says_what_else_was_asked_for)
{
	struct snapshot *s = synth__new();
	struct snapshot_stall stalls[2] = { { .over_unix_ns = 7 }, { .over_unix_ns = 0 } };
	struct live *l = live__new(&(struct report_opts){});
	int master, slave;
	char out[16384];
	FILE *tty;

	cr_assert_eq(openpty(&master, &slave, NULL, NULL, NULL), 0);
	tty = fdopen(slave, "w");
	draw(l, s, tty, master, 120, out);
	expect_silent(out, "most in");
	expect_silent(out, "hang");
	synth__add_stacks(s);
	synth__add_unprobed(s);
	s->memory = snapshot_memory__new();
	s->memory->mode = MEMORY_LIVE;
	s->memory->source = "glibc";
	s->memory->sums = (struct snapshot_sums){ .alloc_bytes = 50176,
						  .alloc_count = 500,
						  .freed_count = 56 };
	s->stalls = stalls;
	s->stall_cnt = 2;
	draw(l, s, tty, master, 120, out);
	expect_says(out, "1 stall: threads hang");
	expect_says(out, "Downstream::handle_submit (30 of 59 samples)  waits most in ");
	expect_says(out, "Downstream::handle_submit (1.27%)");
	expect_says(out, "live +49.0KB in +444 blocks");
	s->stalls = NULL;
	s->stall_cnt = 0;
	fclose(tty);
	close(master);
	live__free(l);
	snapshot__free(s);
}

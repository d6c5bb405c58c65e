/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether a process may leave functions otherwise than by returning in the ways that a return probe
 * does not survive: unwinding (it finds the kernel's trampoline where it looks for the caller, and
 * aborts), and another stack (the kernel takes the calls on the old one for left).
 */
#ifndef PLAN_LEAPS_H
#define PLAN_LEAPS_H

struct build;

/*
 * Of the object that was added last, whose file is open at fd: *why in words (malloc'd), NULL where
 * nothing speaks for it. Goes by names, so a stripped or hand-made one may do so unseen. 0 or
 * -ENOMEM.
 */
int leaps__find(int fd, const struct build *b, char **why);

/* Ways to leave calls behind that are no longer on any stack. */
enum leap_kind {
	LEAP_PANIC = 1,	    /* unwinds, up to a catch of its language's runtime */
	LEAP_EXCEPTION = 2, /* C++'s */
	LEAP_JUMP = 4,	    /* longjmp */
	LEAP_SWITCH = 8,    /* to another stack, that of before is left alone */
};

/* Of a function of that name, or 0. */
unsigned int leaps__kind(const char *symbol);
/* Those that the object that was added last may do, by what it imports and what is linked in. */
unsigned int leaps__kinds(int fd, const struct build *b);

#endif

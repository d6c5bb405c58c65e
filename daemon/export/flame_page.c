/* SPDX-License-Identifier: BSD-2-Clause */
#include "export/flame_page.h"

/* Paths are from the top of the tree, where make runs. */
#define EMBED(name, path)                                                                          \
	__asm__(".section .rodata\n"                                                               \
		"flame_page_" #name ":\n"                                                          \
		".incbin \"daemon/export/flame/" path "\"\n"                                       \
		"flame_page_" #name "_end:\n"                                                      \
		".previous\n");                                                                    \
	extern const char flame_page_##name[], flame_page_##name##_end[];                          \
	struct flame_file flame_page__##name(void)                                                 \
	{                                                                                          \
		return (struct flame_file){ flame_page_##name, (size_t)(flame_page_##name##_end -  \
									flame_page_##name) };      \
	}

EMBED(html, "page.html")
EMBED(css, "page.css")
EMBED(js, "page.js")

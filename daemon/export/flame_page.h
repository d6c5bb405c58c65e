/* SPDX-License-Identifier: BSD-2-Clause */
/* The files of export/flame/, as they are. Private to export/flame_html.c. */
#ifndef EXPORT_FLAME_PAGE_H
#define EXPORT_FLAME_PAGE_H

#include <stddef.h>

struct flame_file {
	const char *data;
	size_t len;
};

struct flame_file flame_page__html(void);
struct flame_file flame_page__css(void);
struct flame_file flame_page__js(void);

#endif

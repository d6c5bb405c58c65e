/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Growing arrays of any element type: struct { T *data; size_t cnt, cap; }.
 * vec__push evaluates to a pointer to a new zeroed element, or NULL when memory is out.
 */
#ifndef BASE_VEC_H
#define BASE_VEC_H

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define VEC(T)                                                                                     \
	struct {                                                                                   \
		T *data;                                                                           \
		size_t cnt, cap;                                                                   \
	}

static inline void *vec__grow(void *data, size_t *cap, size_t cnt, size_t elem_bytes)
{
	size_t more = *cap ? *cap * 2 : 16;
	void *p;

	if (cnt < *cap)
		return data;
	if (more > SIZE_MAX / elem_bytes)
		return NULL;
	p = realloc(data, more * elem_bytes);
	if (p)
		*cap = more;
	return p;
}

#define vec__push(v)                                                                               \
	({                                                                                         \
		void *vec_p_ = vec__grow((v)->data, &(v)->cap, (v)->cnt, sizeof(*(v)->data));      \
		if (vec_p_) {                                                                      \
			(v)->data = vec_p_;                                                        \
			memset(&(v)->data[(v)->cnt++], 0, sizeof(*(v)->data));                     \
		}                                                                                  \
		vec_p_ ? &(v)->data[(v)->cnt - 1] : NULL;                                          \
	})

#define vec__free(v)                                                                               \
	do {                                                                                       \
		free((v)->data);                                                                   \
		memset((v), 0, sizeof(*(v)));                                                      \
	} while (0)

#endif

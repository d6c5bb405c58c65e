/* SPDX-License-Identifier: BSD-2-Clause */
#include "attach/growthsample.h"

#include "roletrace/growth.h"

#define CALM 0.45 /* of the quota: doubled that is not all of it still */
#define CALM_LOOKS 3u

void growthsample__init(struct growthsample *s, uint64_t interval)
{
	*s = (struct growthsample){};
	while (s->base < RT_GROWTH_MOST_SHIFT && interval >> (s->base + 1))
		s->base++;
	s->low = s->high = s->base;
}

void growthsample__note(struct growthsample *s, uint32_t shift)
{
	s->low = shift < s->low ? shift : s->low;
	s->high = shift > s->high ? shift : s->high;
}

uint32_t growthsample__look(struct growthsample *s, uint32_t shift, double of_quota)
{
	growthsample__note(s, shift);
	s->calm = of_quota < CALM ? s->calm + 1 : 0;
	if (s->calm < CALM_LOOKS || shift <= s->base)
		return shift;
	s->calm = 0;
	/* below a page all intervals are the same */
	return shift - 1 > RT_GROWTH_PAGE_BITS ? shift - 1 : s->base;
}

uint64_t growthsample__bytes(uint32_t shift)
{
	return shift <= RT_GROWTH_PAGE_BITS ? 1 : 1ull << shift;
}

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* parking_lot_core 0.9's ThreadData, as it lies around the futex of a parked thread. */
#ifndef ROLETRACE_PARKING_LOT_H
#define ROLETRACE_PARKING_LOT_H

#include "roletrace/abi.h"

struct rt_parked {
	rt_u64 key; /* the address of what it is parked for */
	rt_u64 next;
	rt_u64 unpark_token; /* of the last time it was unparked: 1, it was given the lock */
	rt_u64 park_token;
	rt_u32 futex;
	rt_u8 with_timeout;
	rt_u8 pad[3];
};
RT_ASSERT_SIZE(struct rt_parked, 40);

#define RT_PL_MUTEX_PARKED 3u /* a byte: locked, threads are parked */

#endif

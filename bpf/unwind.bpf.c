/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The object that owns the unwinder's maps: see unwind_maps.bpf.h.
 */
#include "kernel.h"

#include <bpf/bpf_helpers.h>

#include "unwind_maps.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

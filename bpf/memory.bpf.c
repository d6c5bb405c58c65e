/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Allocations: programs at the entries and ends of an allocator's functions.
 *
 * Only the outermost call of a thread counts: realloc may call malloc, and free. The call that has
 * begun is kept with its stack pointer; one that begins closely below it is inside it, one at or
 * above it shows that it is dead (a thread cancelled in the midst, a longjmp). Functions that never
 * call another of their family need no entry program (glibc's malloc and calloc): their end alone
 * tells all, the size of the block being in its chunk.
 *
 * A block's address belongs to nobody else from the allocator's return to its being called again
 * with it. So the table of blocks is written at the end of an allocation, before the caller sees
 * the address, and at the beginning of a free, before another thread can be given it. realloc takes
 * the old block out when it begins, and puts it back should it fail.
 */
#include "kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "block_stack.bpf.h"
#include "memory.bpf.h"
#include "sampled.bpf.h"
#include "spent.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* An allocator's own frames are no larger than this, all of them together. */
#define ALLOCATOR_STACK_BYTES (64ull << 10)

#define CHUNK_MMAPPED 2u
#define CHUNK_FLAGS 7u

static __always_inline bool is_ours(const struct task_struct *t)
{
	return gate && t->tgid == (int)target_tgid;
}

static __always_inline rt_u32 shard_of(rt_u32 row)
{
	return row * (shard_mask + 1) + (bpf_get_smp_processor_id() & shard_mask);
}

static __always_inline struct rt_mem_events *events_of(rt_u32 family)
{
	rt_u32 key = shard_of(family);

	return bpf_map_lookup_elem(&events, &key);
}

static __always_inline struct rt_mem_sums *sums_of(rt_u32 family, rt_u64 bytes)
{
	rt_u32 class = bytes ? 1 + rt_hist_log2(bytes) : 0, key;

	if (class >= RT_MEM_CLASSES)
		class = RT_MEM_CLASSES - 1;
	key = shard_of(family * RT_MEM_CLASSES + class);
	return bpf_map_lookup_elem(&sums, &key);
}

static __always_inline struct rt_mem_sums *owner_sums(rt_u32 owner)
{
	rt_u32 key = shard_of(owner);

	return bpf_map_lookup_elem(&owners, &key);
}

/* What glibc's block really takes: malloc_usable_size. */
static __always_inline rt_u64 chunk_bytes(rt_u64 block)
{
	rt_u64 word;

	if (bpf_probe_read_user(&word, sizeof(word), (void *)(block - sizeof(word)))) {
		lose(RT_MEM_LOST_UNREAD);
		return 0;
	}
	return (word & ~(rt_u64)CHUNK_FLAGS) - (word & CHUNK_MMAPPED ? 16 : 8);
}

static __always_inline void count_alloc(struct rt_mem_sums *s, rt_u64 bytes)
{
	if (!s)
		return;
	add(&s->alloc_bytes, bytes);
	add(&s->alloc_cnt, 1);
}

static __always_inline void count_free(struct rt_mem_sums *s, rt_u64 bytes)
{
	if (!s)
		return;
	add(&s->freed_bytes, bytes);
	add(&s->freed_cnt, 1);
}

static __always_inline bool by_address(rt_u64 cookie)
{
	return stacks_mode || !(RT_MEM_COOKIE_FLAGS(cookie) & RT_MEM_CHUNK);
}

static __always_inline bool put_block(rt_u64 cookie, rt_u64 block, const struct rt_mem_block *b)
{
	long err = bpf_map_update_elem(&blocks, &block, b, 0);
	struct rt_mem_events *e;

	if (!err)
		return true;
	if (err == -12) /* ENOMEM */
		lose(RT_MEM_LOST_NO_MEMORY);
	e = events_of(b->family);
	if (!e)
		return false;
	add(&e->unowned_cnt, 1);
	add(&e->unowned_bytes, b->bytes);
	return false;
}

/* Its threshold, when it is in the sample; else 0. */
static __always_inline rt_u32 take_sample(rt_u64 bytes)
{
	rt_u32 class = rt_sample_class(bytes);

	return stacks_mode ? draw(sample_thresholds[class & (RT_SAMPLE_CLASSES - 1)]) : 0;
}

/* A block was handed out. native: its stack can be unwound. */
static __always_inline void on_alloc(struct pt_regs *regs, struct task_struct *t, rt_u64 cookie,
				     rt_u64 block, rt_u64 bytes, bool native)
{
	struct rt_mem_block b = { .family = RT_MEM_COOKIE_FAMILY(cookie) };
	rt_u32 sampled;

	b.bytes = RT_MEM_COOKIE_FLAGS(cookie) & RT_MEM_CHUNK ? chunk_bytes(block) : bytes;
	count_alloc(sums_of(b.family, b.bytes), b.bytes);
	if (!by_address(cookie))
		return;
	b.owner = owner_at(t, regs->sp - 8);
	sampled = take_sample(b.bytes);
	if (sample_table)
		count_alloc(owner_sums(b.owner), b.bytes);
	if (sample_table && !sampled)
		return;
	b.born_ns = bpf_ktime_get_ns();
	if (native && sampled)
		b.stack = block_stack(regs, t, b.bytes, sampled);
	/* a block that has no entry has no owner: none would ever see it freed */
	if (put_block(cookie, block, &b) && !sample_table)
		count_alloc(owner_sums(b.owner), b.bytes);
}

/* Takes a block out of the table. */
static __always_inline bool take_block(rt_u64 block, struct rt_mem_block *out)
{
	struct rt_mem_block *b = bpf_map_lookup_elem(&blocks, &block);

	if (!b)
		return false;
	*out = *b;
	return !bpf_map_delete_elem(&blocks, &block);
}

static __always_inline void book_free(const struct rt_mem_block *b)
{
	count_free(sums_of(b->family, b->bytes), b->bytes);
	count_free(owner_sums(b->owner), b->bytes);
}

/* A block that the table does not have: from before the attach, or it was full. */
static __always_inline void on_unknown_free(rt_u64 cookie, rt_u64 block)
{
	struct rt_mem_events *e = events_of(RT_MEM_COOKIE_FAMILY(cookie));

	if (e)
		add(&e->unknown_frees, 1);
	if (e && RT_MEM_COOKIE_FLAGS(cookie) & RT_MEM_CHUNK)
		add(&e->unknown_bytes, chunk_bytes(block));
}

static __always_inline bool is_inside(const struct rt_mem_call *call, rt_u64 sp)
{
	return call && call->sp && sp <= call->sp && call->sp - sp < ALLOCATOR_STACK_BYTES;
}

/* Entries of functions whose end will be seen. */
static __always_inline void on_enter(struct pt_regs *ctx, struct task_struct *t)
{
	rt_u64 cookie = bpf_get_attach_cookie(ctx), sp = ctx->sp;
	rt_u32 op = RT_MEM_COOKIE_OP(cookie);
	struct rt_mem_block old;
	struct rt_mem_events *e;
	struct rt_mem_call *call;

	e = events_of(RT_MEM_COOKIE_FAMILY(cookie));
	if (e)
		add(&e->entries, 1);
	call = bpf_task_storage_get(&calls, t, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!call) {
		lose(RT_MEM_LOST_NO_STORAGE);
		return;
	}
	if (is_inside(call, sp))
		return;
	call->sp = sp;
	call->op = op;
	call->block = 0;
	call->bytes = ctx->di;
	call->had_block = 0;
	call->old_bytes = 0;
	if (op == RT_MEM_ALLOC)
		return;
	call->bytes = ctx->si;
	if (op == RT_MEM_CALLOC)
		call->bytes = ctx->di * ctx->si;
	if (op == RT_MEM_POSIX) {
		call->block = ctx->di;
		call->bytes = ctx->dx;
	}
	if ((op != RT_MEM_REALLOC && op != RT_MEM_XALLOC) || !ctx->di)
		return;
	call->block = ctx->di;
	if (!by_address(cookie)) {
		call->old_bytes = chunk_bytes(ctx->di);
		call->had_block = 1;
	} else if (take_block(ctx->di, &old)) {
		call->old_bytes = old.bytes;
		call->old_born_ns = old.born_ns;
		call->old_owner = old.owner;
		call->old_stack = old.stack;
		call->had_block = 1;
	} else if (RT_MEM_COOKIE_FLAGS(cookie) & RT_MEM_CHUNK) {
		call->old_bytes = chunk_bytes(ctx->di);
	}
}

SEC("uprobe.multi")
int mem_enter(struct pt_regs *ctx)
{
	struct task_struct *t = bpf_get_current_task_btf();
	struct spending cost;

	if (!is_ours(t))
		return 0;
	spending_begins(RT_SPENT_ENTER, &cost);
	on_enter(ctx, t);
	spending_ends(&cost);
	return 0;
}

/* The old block of a realloc, as it was before. */
static __always_inline void restore(rt_u64 cookie, const struct rt_mem_call *call)
{
	struct rt_mem_block b = { .bytes = call->old_bytes,
				  .born_ns = call->old_born_ns,
				  .owner = call->old_owner,
				  .family = RT_MEM_COOKIE_FAMILY(cookie),
				  .stack = call->old_stack };

	if (call->had_block && by_address(cookie))
		put_block(cookie, call->block, &b);
}

static __always_inline void free_old(rt_u64 cookie, const struct rt_mem_call *call)
{
	rt_u32 family = RT_MEM_COOKIE_FAMILY(cookie);

	if (!call->block)
		return;
	if (sample_table) {
		if (RT_MEM_COOKIE_FLAGS(cookie) & RT_MEM_CHUNK)
			count_free(sums_of(family, call->old_bytes), call->old_bytes);
		return;
	}
	if (!call->had_block) {
		struct rt_mem_events *e = events_of(family);

		if (e) {
			add(&e->unknown_frees, 1);
			add(&e->unknown_bytes, call->old_bytes);
		}
		return;
	}
	count_free(sums_of(family, call->old_bytes), call->old_bytes);
	if (by_address(cookie))
		count_free(owner_sums(call->old_owner), call->old_bytes);
}

static __always_inline void fail(rt_u64 cookie)
{
	struct rt_mem_events *e = events_of(RT_MEM_COOKIE_FAMILY(cookie));

	if (e)
		add(&e->failed, 1);
}

/* Whether there is a new block, of a realloc that has ended. */
static __always_inline bool on_realloc_end(rt_u64 cookie, const struct rt_mem_call *call,
					   rt_u64 block)
{
	if (!block && (call->bytes || !call->block)) {
		fail(cookie);
		restore(cookie, call);
		return false;
	}
	free_old(cookie, call);
	return block;
}

static __always_inline void on_return(struct pt_regs *ctx, struct task_struct *t, bool native)
{
	rt_u64 cookie = bpf_get_attach_cookie(ctx), sp = ctx->sp - 8, block = ctx->ax;
	rt_u32 op = RT_MEM_COOKIE_OP(cookie);
	bool alone = RT_MEM_COOKIE_FLAGS(cookie) & RT_MEM_ALONE;
	struct rt_mem_call *call, mine = {};
	struct rt_mem_events *e;

	e = events_of(RT_MEM_COOKIE_FAMILY(cookie));
	if (e) {
		add(&e->returns, 1);
		if (alone)
			add(&e->entries, 1);
	}
	call = bpf_task_storage_get(&calls, t, 0, 0);
	if (call && call->sp == sp && call->op == op && !alone) {
		mine = *call;
		call->sp = 0;
	} else if (is_inside(call, sp)) {
		return;
	} else if (!alone) {
		lose(RT_MEM_LOST_ORPHANS);
		return;
	}
	switch (op) {
	case RT_MEM_POSIX:
		if ((rt_u32)block || bpf_probe_read_user(&block, sizeof(block), (void *)mine.block))
			block = 0;
		break;
	case RT_MEM_XALLOC:
		if (block < mine.bytes) {
			restore(cookie, &mine);
			return;
		}
		block = mine.block;
		/* fall through */
	case RT_MEM_REALLOC:
		if (!on_realloc_end(cookie, &mine, block))
			return;
		break;
	}
	if (block)
		on_alloc(ctx, t, cookie, block, mine.bytes, native);
	else
		fail(cookie);
}

static __always_inline int returned(struct pt_regs *ctx, bool native)
{
	struct task_struct *t = bpf_get_current_task_btf();
	struct spending cost;

	if (!is_ours(t))
		return 0;
	spending_begins(RT_SPENT_RETURN, &cost);
	on_return(ctx, t, native);
	spending_ends(&cost);
	return 0;
}

/* Ends of functions. */
SEC("uretprobe.multi")
int mem_return(struct pt_regs *ctx)
{
	return returned(ctx, false);
}

SEC("uretprobe.multi")
int mem_return_native(struct pt_regs *ctx)
{
	return returned(ctx, true);
}

static __always_inline void on_free(rt_u64 cookie, rt_u64 block)
{
	rt_u32 family = RT_MEM_COOKIE_FAMILY(cookie);
	struct rt_mem_block b;
	rt_u64 bytes;

	if (sample_table) {
		take_block(block, &b);
		if (!(RT_MEM_COOKIE_FLAGS(cookie) & RT_MEM_CHUNK))
			return;
	} else if (by_address(cookie)) {
		if (take_block(block, &b))
			book_free(&b);
		else
			on_unknown_free(cookie, block);
		return;
	}
	bytes = chunk_bytes(block);
	count_free(sums_of(family, bytes), bytes);
}

/* Functions whose entry tells all. */
static __always_inline void on_entry(struct pt_regs *ctx, struct task_struct *t)
{
	rt_u64 cookie = bpf_get_attach_cookie(ctx);
	rt_u32 family = RT_MEM_COOKIE_FAMILY(cookie);
	struct rt_mem_events *e;
	struct rt_mem_call *call;

	e = events_of(family);
	if (e)
		add(&e->entries, 1);
	switch (RT_MEM_COOKIE_OP(cookie)) {
	case RT_MEM_FREE:
		call = bpf_task_storage_get(&calls, t, 0, 0);
		if (call && call->skip)
			call->skip = 0;
		else if (ctx->di && !is_inside(call, ctx->sp))
			on_free(cookie, ctx->di);
		break;
	case RT_MEM_SKIP:
		call = bpf_task_storage_get(&calls, t, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
		if (call)
			call->skip = 1;
		else
			lose(RT_MEM_LOST_NO_STORAGE);
		break;
	case RT_MEM_RUST_ALLOC:
		count_alloc(sums_of(family, ctx->di), ctx->di);
		break;
	case RT_MEM_RUST_REALLOC:
		count_alloc(sums_of(family, ctx->cx), ctx->cx);
		/* fall through */
	case RT_MEM_RUST_DEALLOC:
		count_free(sums_of(family, ctx->si), ctx->si);
		break;
	}
}

SEC("uprobe.multi")
int mem_entry(struct pt_regs *ctx)
{
	struct task_struct *t = bpf_get_current_task_btf();
	struct spending cost;

	if (!is_ours(t))
		return 0;
	spending_begins(RT_SPENT_ENTER, &cost);
	on_entry(ctx, t);
	spending_ends(&cost);
	return 0;
}

/* The new program's allocator is not the one that was counted. */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(mem_exec, struct task_struct *p)
{
	if (p->tgid == (int)target_tgid)
		gate = 0;
	return 0;
}

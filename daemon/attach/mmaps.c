/* SPDX-License-Identifier: BSD-2-Clause */
#include "attach/mmaps.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DATA_PAGES 4u

struct ring {
	int fd;
	struct perf_event_mmap_page *head;
	uint64_t seen;
};

struct mmaps {
	int pid;
	size_t page;
	struct ring *rings;
	int ring_cnt;
	int epoll;
};

static int open_ring(struct ring *r, int cpu, size_t page)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_DUMMY,
		.mmap = 1,
		.watermark = 1,
		.wakeup_watermark = 1,
	};

	r->fd = (int)syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	if (r->fd < 0)
		return -errno;
	r->head = mmap(NULL, (1 + DATA_PAGES) * page, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, 0);
	if (r->head != MAP_FAILED)
		return 0;
	r->head = NULL;
	close(r->fd);
	return -errno;
}

static int add_ring(struct mmaps *m)
{
	struct epoll_event e = { .events = EPOLLIN };

	return epoll_ctl(m->epoll, EPOLL_CTL_ADD, m->rings[m->ring_cnt++].fd, &e) ? -errno : 0;
}

struct mmaps *mmaps__new(int pid)
{
	int cpus = libbpf_num_possible_cpus(), err = 0;
	struct mmaps *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->pid = pid;
	m->epoll = epoll_create1(EPOLL_CLOEXEC);
	err = m->epoll < 0 ? -errno : 0;
	m->page = (size_t)sysconf(_SC_PAGESIZE);
	m->rings = calloc((size_t)(cpus > 0 ? cpus : 1), sizeof(*m->rings));
	for (int cpu = 0; m->rings && cpu < cpus && !err; cpu++) {
		err = open_ring(&m->rings[m->ring_cnt], cpu, m->page);
		if (err == -ENODEV || err == -ENXIO) /* offline */
			err = 0;
		else if (!err)
			err = add_ring(m);
	}
	if (err || !m->ring_cnt) {
		mmaps__free(m);
		errno = err ? -err : ENODEV;
		return NULL;
	}
	return m;
}

void mmaps__free(struct mmaps *m)
{
	if (!m)
		return;
	for (int i = 0; i < m->ring_cnt; i++) {
		munmap(m->rings[i].head, (1 + DATA_PAGES) * m->page);
		close(m->rings[i].fd);
	}
	if (m->epoll >= 0)
		close(m->epoll);
	free(m->rings);
	free(m);
}

int mmaps__fd(const struct mmaps *m)
{
	return m->epoll;
}

static void copy_out(const struct mmaps *m, const struct ring *r, uint64_t at, void *out,
		     size_t len)
{
	const uint8_t *data = (const uint8_t *)r->head + m->page;
	uint64_t mask = DATA_PAGES * m->page - 1;

	for (size_t i = 0; i < len; i++)
		((uint8_t *)out)[i] = data[(at + i) & mask];
}

static bool ring_changed(const struct mmaps *m, struct ring *r)
{
	uint64_t head = __atomic_load_n(&r->head->data_head, __ATOMIC_ACQUIRE), at = r->seen;
	bool changed = false;

	while (at < head && !changed) {
		struct perf_event_header h;
		uint32_t pid;

		copy_out(m, r, at, &h, sizeof(h));
		if (h.size < sizeof(h) + sizeof(pid))
			changed = true;
		copy_out(m, r, at + sizeof(h), &pid, sizeof(pid));
		changed |= h.type != PERF_RECORD_MMAP || (int)pid == m->pid;
		at += h.size;
	}
	r->seen = head;
	__atomic_store_n(&r->head->data_tail, head, __ATOMIC_RELEASE);
	return changed;
}

bool mmaps__changed(struct mmaps *m)
{
	bool changed = false;

	for (int i = 0; i < m->ring_cnt; i++)
		changed |= ring_changed(m, &m->rings[i]);
	return changed;
}

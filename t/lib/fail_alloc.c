/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For LD_PRELOAD into a daemon: its n-th allocation fails.
 *
 * It counts the calls of malloc, calloc, realloc and reallocarray that the
 * program's own code makes, on any thread.  Calls by libraries are not
 * counted: LevelDB, for example, does not check the result of malloc.
 *
 * The test maps the file named by FAIL_ALLOC, and sets `armed` last.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct control {
	_Atomic uint64_t armed;   /* 1: count allocations and let one fail */
	_Atomic uint64_t count;   /* allocations since it was armed */
	_Atomic uint64_t fail_at; /* 0 if none fails */
	_Atomic uint64_t failed;
	_Atomic uint64_t where; /* offset in the program of the last failed call, for addr2line */
	_Atomic uint64_t pid;   /* the process whose allocations count, or 0 for all */
};
static struct control *control;
static uintptr_t base, text, text_end;

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);

static int find_text(struct dl_phdr_info *i, size_t size, void *arg)
{
	base = i->dlpi_addr;
	for (int k = 0; k < i->dlpi_phnum; k++) {
		if (i->dlpi_phdr[k].p_type != PT_LOAD || !(i->dlpi_phdr[k].p_flags & PF_X))
			continue;
		text = base + i->dlpi_phdr[k].p_vaddr;
		text_end = text + i->dlpi_phdr[k].p_memsz;
	}
	return 1; /* the program is the first */
}

__attribute__((constructor)) static void begin(void)
{
	const char *path = getenv("FAIL_ALLOC");
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	void *p;

	if (fd < 0)
		return;
	p = mmap(NULL, sizeof(*control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (p == MAP_FAILED)
		return;
	dl_iterate_phdr(find_text, NULL);
	control = p;
}

static int fails(void *caller)
{
	uintptr_t at = (uintptr_t)caller;

	if (!control || !atomic_load_explicit(&control->armed, memory_order_relaxed) || at < text || at >= text_end)
		return 0;
	if (control->pid && control->pid != (uint64_t)getpid())
		return 0;
	if (atomic_fetch_add(&control->count, 1) + 1 != atomic_load(&control->fail_at))
		return 0;
	atomic_store(&control->where, at - base);
	atomic_fetch_add(&control->failed, 1);
	errno = ENOMEM;
	return 1;
}

void *malloc(size_t n)
{
	return fails(__builtin_return_address(0)) ? NULL : __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
	return fails(__builtin_return_address(0)) ? NULL : __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
	return fails(__builtin_return_address(0)) ? NULL : __libc_realloc(p, n);
}

void *reallocarray(void *p, size_t n, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(n, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	return fails(__builtin_return_address(0)) ? NULL : __libc_realloc(p, bytes);
}

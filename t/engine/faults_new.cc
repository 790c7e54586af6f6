/* SPDX-License-Identifier: Apache-2.0 */
/* operator new is one more allocation that can fail, in our C++ file and in LevelDB. */
#include <cstdlib>
#include <new>

extern "C" bool fault_fails(void);
extern "C" void *__real_malloc(size_t n);

static void *take(std::size_t n)
{
	void *p = fault_fails() ? nullptr : __real_malloc(n ? n : 1);

	if (!p)
		throw std::bad_alloc();
	return p;
}

void *operator new(std::size_t n)
{
	return take(n);
}

void *operator new[](std::size_t n)
{
	return take(n);
}

void operator delete(void *p) noexcept
{
	std::free(p);
}

void operator delete[](void *p) noexcept
{
	std::free(p);
}

void operator delete(void *p, std::size_t) noexcept
{
	std::free(p);
}

void operator delete[](void *p, std::size_t) noexcept
{
	std::free(p);
}

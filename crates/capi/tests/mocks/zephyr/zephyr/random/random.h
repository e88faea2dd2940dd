/* As much of Zephyr as contrib/zephyr calls, written for tests: names, types and numbers only. */
#pragma once
#include <stddef.h>

int sys_csrand_get(void *dst, size_t len);

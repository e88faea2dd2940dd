/* As much of Zephyr as contrib/zephyr calls, written for tests: names, types and numbers only. */
#pragma once

struct k_mutex {
    int held;
};
#define K_MUTEX_DEFINE(name) struct k_mutex name
#define K_FOREVER (-1)

int k_mutex_lock(struct k_mutex *mutex, int timeout);
int k_mutex_unlock(struct k_mutex *mutex);

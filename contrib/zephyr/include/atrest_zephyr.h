/*
 * What Zephyr has for the functions of atrest.h: flash areas as media, and the random source.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef ATREST_ZEPHYR_H
#define ATREST_ZEPHYR_H

#include "atrest.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Makes a medium of a flash area, such as FIXED_PARTITION_ID(label), with erase blocks of so many bytes. The area stays open.
 * ATREST_ARGUMENT: there is none, or it is not made of such blocks.
 */
int atrest_zephyr_medium(struct atrest_medium *medium, int area_id, uint32_t erase_size);

/* sys_csrand_get(). */
struct atrest_random atrest_zephyr_random(void);

/*
 * Yours to define, with CONFIG_ATREST_ITS: the key of the storage and its identifier. The key is this device's alone: from a hardware
 * unique key, a secure element, or atrest_device_key(). Returns 0, or fails.
 */
int atrest_zephyr_its_key(uint8_t key[32], uint8_t uuid[16]);

#ifdef __cplusplus
}
#endif

#endif

/*
 * What ESP-IDF has for the functions of atrest.h: partitions as media, the random source, and the HMAC peripheral with a key in eFuses.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef ATREST_ESP_H
#define ATREST_ESP_H

#include "atrest.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Makes a medium of the data partition with this label, programmed in units of 16 bytes. ATREST_ARGUMENT: there is none, or it is read
 * and written through ESP-IDF's flash encryption, under which erased flash does not read as erased.
 */
int atrest_esp_medium(struct atrest_medium *medium, const char *label);

/* The hardware random source. Start Wi-Fi, Bluetooth or bootloader_random_enable() first: without a source of noise ESP-IDF's numbers
 * are not random. */
struct atrest_random atrest_esp_random(void);

/* HMAC-SHA-256 under the key of an eFuse block, 0 to 5 (HMAC_KEY0 and on), whose purpose is HMAC_UP. */
struct atrest_device atrest_esp_hmac(int key_id);

#ifdef __cplusplus
}
#endif

#endif

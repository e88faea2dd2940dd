/*
 * Zephyr's Internal Trusted Storage on sealed flash (CONFIG_SECURE_STORAGE_ITS_IMPLEMENTATION_CUSTOM): what is stored can be neither
 * read, changed, nor put back by who has the flash chip. The volume is opened at the first call.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#include "atrest_zephyr.h"

#include <string.h>
#include <zephyr/kernel.h>
#include <zephyr/secure_storage/its.h>
#include <zephyr/storage/flash_map.h>

/* Later versions of Zephyr call it secure_storage_caller_id_t. */
#ifndef ATREST_ZEPHYR_CALLER_ID
#define ATREST_ZEPHYR_CALLER_ID secure_storage_its_caller_id_t
#endif

static struct atrest_sealed volume;
static struct atrest_its storage;
static uint8_t table[CONFIG_ATREST_ITS_BLOCKS * ATREST_BLOCK_STATE];
/* With serial, tag and salt, rounded up to what is programmed at once. */
static uint8_t unit[CONFIG_ATREST_ITS_UNIT * 2 + 128], map_unit[CONFIG_ATREST_ITS_UNIT * 2 + 128];
static struct atrest_its_entry entries[CONFIG_ATREST_ITS_ENTRIES];
static struct atrest_medium flash, pages;
static int is_open;

/* One call at a time. */
static K_MUTEX_DEFINE(lock);

/* Opens the storage. Makes a volume only where the store is empty, and never because one does not open: that may be an attack. */
static int open_storage(void) {
    uint8_t bytes[32], uuid[16];
    if (is_open) return ATREST_OK;
    int status = atrest_zephyr_medium(&flash, FIXED_PARTITION_ID(atrest_its_partition), CONFIG_ATREST_ERASE_SIZE);
    if (!status) status = atrest_zephyr_medium(&pages, FIXED_PARTITION_ID(atrest_store_partition), CONFIG_ATREST_STORE_ERASE_SIZE);
    if (!status) status = atrest_zephyr_its_key(bytes, uuid) ? ATREST_DEVICE : ATREST_OK;
    if (status) return status;
    const struct atrest_store store = {.pages = &pages};
    const struct atrest_key key = {ATREST_ASCON128, bytes, sizeof bytes, uuid};
    const struct atrest_sealed_options options = {.payload = CONFIG_ATREST_ITS_UNIT};
    const struct atrest_sealed_memory memory = {table, sizeof table, unit, sizeof unit};
    const struct atrest_random random = atrest_zephyr_random();
    const struct atrest_its_options its = {
        entries, CONFIG_ATREST_ITS_ENTRIES, map_unit, sizeof map_unit, CONFIG_SECURE_STORAGE_ITS_MAX_DATA_SIZE, 1};
    status = atrest_sealed_open(&volume, &flash, &store, &key, &options, &memory, &random);
    if (status == ATREST_STORE_EMPTY) {
        status = atrest_sealed_format(&volume, &flash, &store, &key, &options, &memory, &random);
    }
    if (!status) {
        status = atrest_its_open(&storage, &volume, &key, &its);
        /* The power failed before there was one: on sealed flash nobody else can bring that about. */
        if (status == ATREST_NO_MAP) status = atrest_its_format(&storage, &volume, &key, &its);
        if (status) (void)atrest_sealed_close(&volume);
    }
    memset(bytes, 0, sizeof bytes);
    __asm__ volatile("" : : "r"(bytes) : "memory"); /* or the compiler leaves the line before this out */
    is_open = !status;
    return status;
}

/* Takes the lock, and opens the storage. */
static psa_status_t begin(void) {
    k_mutex_lock(&lock, K_FOREVER);
    return open_storage() ? PSA_ERROR_STORAGE_FAILURE : PSA_SUCCESS;
}

static psa_status_t end(psa_status_t status) {
    k_mutex_unlock(&lock);
    return status;
}

psa_status_t secure_storage_its_set(ATREST_ZEPHYR_CALLER_ID caller_id, psa_storage_uid_t uid, size_t data_length,
                                    const void *p_data, psa_storage_create_flags_t create_flags) {
    psa_status_t status = begin();
    if (!status) status = atrest_its_set(&storage, (int32_t)caller_id, uid, data_length, p_data, create_flags);
    return end(status);
}

psa_status_t secure_storage_its_get(ATREST_ZEPHYR_CALLER_ID caller_id, psa_storage_uid_t uid, size_t data_offset,
                                    size_t data_size, void *p_data, size_t *p_data_length) {
    psa_status_t status = begin();
    if (!status) status = atrest_its_get(&storage, (int32_t)caller_id, uid, data_offset, data_size, p_data, p_data_length);
    return end(status);
}

psa_status_t secure_storage_its_get_info(ATREST_ZEPHYR_CALLER_ID caller_id, psa_storage_uid_t uid,
                                         struct psa_storage_info_t *p_info) {
    struct atrest_its_info info;
    psa_status_t status = begin();
    if (!status) status = atrest_its_get_info(&storage, (int32_t)caller_id, uid, p_info ? &info : NULL);
    if (!status) *p_info = (struct psa_storage_info_t){.capacity = info.capacity, .size = info.size, .flags = info.flags};
    return end(status);
}

psa_status_t secure_storage_its_remove(ATREST_ZEPHYR_CALLER_ID caller_id, psa_storage_uid_t uid) {
    psa_status_t status = begin();
    if (!status) status = atrest_its_remove(&storage, (int32_t)caller_id, uid);
    return end(status);
}

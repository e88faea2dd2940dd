/*
 * Internal Trusted Storage under its names in the PSA Certified Secure Storage API 1.0. Compile this into a program that has no other
 * implementation of them: the library itself defines none.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#include "psa/internal_trusted_storage.h"
#include "atrest.h"

/* Callers are told apart by those who have several. */
enum { CALLER = 0 };

static struct atrest_its *storage;

void atrest_psa_its_use(struct atrest_its *its) { storage = its; }

psa_status_t psa_its_set(psa_storage_uid_t uid, size_t data_length, const void *p_data, psa_storage_create_flags_t create_flags) {
    return (psa_status_t)atrest_its_set(storage, CALLER, uid, data_length, p_data, create_flags);
}

psa_status_t psa_its_get(psa_storage_uid_t uid, size_t data_offset, size_t data_size, void *p_data, size_t *p_data_length) {
    return (psa_status_t)atrest_its_get(storage, CALLER, uid, data_offset, data_size, p_data, p_data_length);
}

psa_status_t psa_its_get_info(psa_storage_uid_t uid, struct psa_storage_info_t *p_info) {
    struct atrest_its_info info;
    psa_status_t status = (psa_status_t)atrest_its_get_info(storage, CALLER, uid, p_info ? &info : NULL);
    if (status == PSA_SUCCESS) {
        p_info->capacity = info.capacity;
        p_info->size = info.size;
        p_info->flags = info.flags;
    }
    return status;
}

psa_status_t psa_its_remove(psa_storage_uid_t uid) { return (psa_status_t)atrest_its_remove(storage, CALLER, uid); }

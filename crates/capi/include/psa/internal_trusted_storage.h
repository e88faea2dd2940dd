/*
 * Internal Trusted Storage of the PSA Certified Secure Storage API 1.0 (Arm IHI 0087), section 5.3, on sealed flash: psa_its.c.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef PSA_INTERNAL_TRUSTED_STORAGE_H
#define PSA_INTERNAL_TRUSTED_STORAGE_H

#include "psa/storage_common.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PSA_ITS_API_VERSION_MAJOR 1
#define PSA_ITS_API_VERSION_MINOR 0

/* Stores data under an identifier that is not 0, in the place of what is there. */
psa_status_t psa_its_set(psa_storage_uid_t uid, size_t data_length, const void *p_data, psa_storage_create_flags_t create_flags);
/* Copies data from an offset on, at most data_size bytes. */
psa_status_t psa_its_get(psa_storage_uid_t uid, size_t data_offset, size_t data_size, void *p_data, size_t *p_data_length);
psa_status_t psa_its_get_info(psa_storage_uid_t uid, struct psa_storage_info_t *p_info);
psa_status_t psa_its_remove(psa_storage_uid_t uid);

/* What these work on: an open storage, or NULL. Not part of the API. */
struct atrest_its;
void atrest_psa_its_use(struct atrest_its *its);

#ifdef __cplusplus
}
#endif

#endif

/*
 * Types and numbers of the PSA Certified Secure Storage API 1.0 (Arm IHI 0087), sections 5.1 and 5.2.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef PSA_STORAGE_COMMON_H
#define PSA_STORAGE_COMMON_H

#include <stddef.h>
#include <stdint.h>

/* Other PSA headers define the same. */
#ifndef PSA_SUCCESS
typedef int32_t psa_status_t;
#define PSA_SUCCESS ((psa_status_t)0)
#define PSA_ERROR_GENERIC_ERROR ((psa_status_t)-132)
#define PSA_ERROR_NOT_PERMITTED ((psa_status_t)-133)
#define PSA_ERROR_NOT_SUPPORTED ((psa_status_t)-134)
#define PSA_ERROR_INVALID_ARGUMENT ((psa_status_t)-135)
#define PSA_ERROR_DOES_NOT_EXIST ((psa_status_t)-140)
#define PSA_ERROR_INSUFFICIENT_STORAGE ((psa_status_t)-142)
#define PSA_ERROR_STORAGE_FAILURE ((psa_status_t)-146)
#endif

typedef uint32_t psa_storage_create_flags_t;
typedef uint64_t psa_storage_uid_t;

#define PSA_STORAGE_FLAG_NONE ((psa_storage_create_flags_t)0)
#define PSA_STORAGE_FLAG_WRITE_ONCE ((psa_storage_create_flags_t)1)
#define PSA_STORAGE_FLAG_NO_CONFIDENTIALITY ((psa_storage_create_flags_t)2)
#define PSA_STORAGE_FLAG_NO_REPLAY_PROTECTION ((psa_storage_create_flags_t)4)

struct psa_storage_info_t {
    size_t capacity;
    size_t size;
    psa_storage_create_flags_t flags;
};

#endif

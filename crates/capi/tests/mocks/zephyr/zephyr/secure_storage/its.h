/* As much of Zephyr as contrib/zephyr implements, written for tests: names, types and numbers only. */
#pragma once
#include "psa/storage_common.h"

typedef enum { MOCK_CALLER_ITS, MOCK_CALLER_PS, MOCK_CALLER_CRYPTO } secure_storage_its_caller_id_t;

psa_status_t secure_storage_its_set(secure_storage_its_caller_id_t caller_id, psa_storage_uid_t uid, size_t data_length,
                                    const void *p_data, psa_storage_create_flags_t create_flags);
psa_status_t secure_storage_its_get(secure_storage_its_caller_id_t caller_id, psa_storage_uid_t uid, size_t data_offset,
                                    size_t data_size, void *p_data, size_t *p_data_length);
psa_status_t secure_storage_its_get_info(secure_storage_its_caller_id_t caller_id, psa_storage_uid_t uid,
                                         struct psa_storage_info_t *p_info);
psa_status_t secure_storage_its_remove(secure_storage_its_caller_id_t caller_id, psa_storage_uid_t uid);

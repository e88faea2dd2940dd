/* As much of ESP-IDF as contrib/esp-idf calls, written for tests: names, types and numbers only. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "esp_err.h"

typedef enum { HMAC_KEY0 = 0, HMAC_KEY1, HMAC_KEY2, HMAC_KEY3, HMAC_KEY4, HMAC_KEY5, HMAC_KEY_MAX } hmac_key_id_t;

esp_err_t esp_hmac_calculate(hmac_key_id_t key_id, const void *message, size_t message_len, uint8_t *hmac);

/* As much of ESP-IDF as contrib/esp-idf calls, written for tests: names, types and numbers only. */
#pragma once
typedef int esp_err_t;
#define ESP_OK 0
#define ESP_FAIL -1
#define ESP_ERR_INVALID_ARG 0x102
#define ESP_ERR_INVALID_SIZE 0x104

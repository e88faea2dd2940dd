/* As much of ESP-IDF as contrib/esp-idf calls, written for tests: names, types and numbers only. */
#pragma once
#include <stddef.h>

void esp_fill_random(void *buf, size_t len);

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "atrest_esp.h"

#include <stdint.h>

#include "esp_hmac.h"
#include "esp_partition.h"
#include "esp_random.h"

/* Longer than any unit that ESP-IDF's drivers ask for, and short enough for records. */
enum { PROG_SIZE = 16 };

static int done(esp_err_t error) { return error == ESP_OK ? 0 : (int)error; }

static int partition_read(void *context, uint64_t address, void *buffer, size_t size) {
    return done(esp_partition_read(context, (size_t)address, buffer, size));
}

static int partition_prog(void *context, uint64_t address, const void *data, size_t size) {
    return done(esp_partition_write(context, (size_t)address, data, size));
}

static int partition_erase(void *context, uint64_t address, uint64_t size) {
    return done(esp_partition_erase_range(context, (size_t)address, (size_t)size));
}

int atrest_esp_medium(struct atrest_medium *medium, const char *label) {
    if (!medium || !label) return ATREST_ARGUMENT;
    const esp_partition_t *partition = esp_partition_find_first(ESP_PARTITION_TYPE_DATA, ESP_PARTITION_SUBTYPE_ANY, label);
    if (!partition || partition->encrypted || !partition->erase_size) return ATREST_ARGUMENT;
    *medium = (struct atrest_medium){
        .context = (void *)(uintptr_t)partition,
        .read = partition_read,
        .prog = partition_prog,
        .erase = partition_erase,
        .read_size = 1,
        .prog_size = PROG_SIZE,
        .erase_size = partition->erase_size,
        .erased_byte = 0xff,
        .block_count = partition->size / partition->erase_size,
    };
    return ATREST_OK;
}

static int random_fill(void *context, void *buffer, size_t size) {
    (void)context;
    esp_fill_random(buffer, size);
    return 0;
}

struct atrest_random atrest_esp_random(void) { return (struct atrest_random){.fill = random_fill}; }

static int fuses_hmac(void *context, const uint8_t message[56], uint8_t mac[32]) {
    return done(esp_hmac_calculate((hmac_key_id_t)(intptr_t)context, message, 56, mac));
}

struct atrest_device atrest_esp_hmac(int key_id) {
    /* The peripheral's driver refuses what is no block. */
    return (struct atrest_device){.context = (void *)(intptr_t)key_id, .hmac = fuses_hmac};
}

/* contrib/esp-idf over a mock of ESP-IDF whose partitions are memory, under Internal Trusted Storage. */
#include <stdio.h>
#include <string.h>

#include "atrest_esp.h"
#include "esp_hmac.h"
#include "esp_partition.h"
#include "esp_random.h"
#include "psa/internal_trusted_storage.h"

enum { ERASE = 4096, BLOCKS = 8, PAGES = 2, NAMES = 8 };

static uint8_t chip[BLOCKS * ERASE], own[PAGES * ERASE];
static esp_partition_t partitions[] = {
    {.type = ESP_PARTITION_TYPE_DATA, .size = sizeof chip, .erase_size = ERASE, .label = "sealed"},
    {.type = ESP_PARTITION_TYPE_DATA, .size = sizeof own, .erase_size = ERASE, .label = "record"},
    {.type = ESP_PARTITION_TYPE_DATA, .size = sizeof own, .erase_size = ERASE, .label = "secret", .encrypted = true},
    {.type = ESP_PARTITION_TYPE_APP, .size = sizeof own, .erase_size = ERASE, .label = "factory"},
};
static int failed;

const esp_partition_t *esp_partition_find_first(esp_partition_type_t type, esp_partition_subtype_t subtype, const char *label) {
    for (size_t i = 0; i < sizeof partitions / sizeof *partitions; i++) {
        if (partitions[i].type == type && subtype == ESP_PARTITION_SUBTYPE_ANY && !strcmp(partitions[i].label, label)) {
            return &partitions[i];
        }
    }
    return NULL;
}

static uint8_t *bytes_of(const esp_partition_t *partition, size_t offset, size_t size) {
    if (offset > partition->size || size > partition->size - offset) return NULL;
    return (partition == &partitions[0] ? chip : own) + offset;
}

esp_err_t esp_partition_read(const esp_partition_t *partition, size_t src_offset, void *dst, size_t size) {
    uint8_t *from = bytes_of(partition, src_offset, size);
    if (!from) return ESP_ERR_INVALID_SIZE;
    memcpy(dst, from, size);
    return ESP_OK;
}

esp_err_t esp_partition_write(const esp_partition_t *partition, size_t dst_offset, const void *src, size_t size) {
    uint8_t *to = bytes_of(partition, dst_offset, size);
    if (!to) return ESP_ERR_INVALID_SIZE;
    for (size_t i = 0; i < size; i++) to[i] &= ((const uint8_t *)src)[i]; /* as NOR flash does */
    return ESP_OK;
}

esp_err_t esp_partition_erase_range(const esp_partition_t *partition, size_t offset, size_t size) {
    uint8_t *at = bytes_of(partition, offset, size);
    if (!at || offset % ERASE || size % ERASE) return ESP_ERR_INVALID_ARG;
    memset(at, 0xff, size);
    return ESP_OK;
}

void esp_fill_random(void *buf, size_t len) {
    static unsigned seed = 7;
    for (size_t i = 0; i < len; i++) {
        seed = seed * 1103515245 + 12345;
        ((uint8_t *)buf)[i] = (uint8_t)(seed >> 16);
    }
}

esp_err_t esp_hmac_calculate(hmac_key_id_t key_id, const void *message, size_t message_len, uint8_t *hmac) {
    if (key_id >= HMAC_KEY_MAX || !message_len) return ESP_ERR_INVALID_ARG;
    for (size_t i = 0; i < 32; i++) hmac[i] = (uint8_t)(((const uint8_t *)message)[i % message_len] + i + (size_t)key_id);
    return ESP_OK;
}

static void expect(int line, long got, long wanted) {
    if (got != wanted) {
        printf("line %d: %ld and not %ld\n", line, got, wanted);
        failed = 1;
    }
}
#define EXPECT(got, wanted) expect(__LINE__, (long)(got), (long)(wanted))

static struct atrest_sealed volume;
static struct atrest_its storage;
static uint8_t table[BLOCKS * ATREST_BLOCK_STATE], unit[256], map_unit[256];
static struct atrest_its_entry entries[NAMES];

/* A start; what it returns is that of the first step that fails. */
static int start(int key_id) {
    static struct atrest_medium flash, pages;
    const uint8_t uuid[16] = {9};
    uint8_t bytes[32];
    const struct atrest_device fuses = atrest_esp_hmac(key_id);
    const struct atrest_random random = atrest_esp_random();
    memset(&volume, 0, sizeof volume);
    memset(&storage, 0, sizeof storage);
    int status = atrest_device_key(&fuses, uuid, 1, uuid, bytes, sizeof bytes);
    if (!status) status = atrest_esp_medium(&flash, "sealed");
    if (!status) status = atrest_esp_medium(&pages, "record");
    if (status) return status;
    const struct atrest_store store = {.pages = &pages};
    const struct atrest_key key = {ATREST_ASCON128, bytes, sizeof bytes, uuid};
    const struct atrest_sealed_options options = {.payload = 64};
    const struct atrest_sealed_memory memory = {table, sizeof table, unit, sizeof unit};
    const struct atrest_its_options sizes = {entries, NAMES, map_unit, sizeof map_unit, 100, 1};
    status = atrest_sealed_open(&volume, &flash, &store, &key, &options, &memory, &random);
    if (status == ATREST_STORE_EMPTY) status = atrest_sealed_format(&volume, &flash, &store, &key, &options, &memory, &random);
    if (status) return status;
    status = atrest_its_open(&storage, &volume, &key, &sizes);
    if (status == ATREST_NO_MAP) status = atrest_its_format(&storage, &volume, &key, &sizes);
    atrest_psa_its_use(&storage);
    return status;
}

int main(void) {
    static uint8_t before[sizeof chip];
    struct atrest_medium medium;
    uint8_t got[8];
    size_t len;
    memset(chip, 0xff, sizeof chip);
    memset(own, 0xff, sizeof own);
    EXPECT(atrest_esp_medium(NULL, "sealed"), ATREST_ARGUMENT);
    EXPECT(atrest_esp_medium(&medium, NULL), ATREST_ARGUMENT);
    EXPECT(atrest_esp_medium(&medium, "nothing"), ATREST_ARGUMENT);
    EXPECT(atrest_esp_medium(&medium, "secret"), ATREST_ARGUMENT);
    EXPECT(atrest_esp_medium(&medium, "factory"), ATREST_ARGUMENT);
    EXPECT(atrest_esp_medium(&medium, "sealed"), ATREST_OK);
    EXPECT(medium.block_count == BLOCKS && medium.erase_size == ERASE, 1);
    EXPECT(start(6), ATREST_DEVICE);

    EXPECT(start(2), ATREST_OK);
    EXPECT(psa_its_set(1, 5, "first", PSA_STORAGE_FLAG_NONE), PSA_SUCCESS);
    EXPECT(atrest_sealed_close(&volume), ATREST_OK);
    memcpy(before, chip, sizeof chip);
    EXPECT(start(2), ATREST_OK);
    EXPECT(psa_its_get(1, 0, sizeof got, got, &len), PSA_SUCCESS);
    EXPECT(len == 5 && !memcmp(got, "first", 5), 1);
    EXPECT(psa_its_set(1, 6, "second", PSA_STORAGE_FLAG_NONE), PSA_SUCCESS);
    EXPECT(start(2), ATREST_OK); /* without a close, as after a power loss */
    EXPECT(psa_its_get(1, 0, sizeof got, got, &len), PSA_SUCCESS);
    EXPECT(len == 6 && !memcmp(got, "second", 6), 1);
    EXPECT(start(3), ATREST_OTHER_VOLUME);
    memcpy(chip, before, sizeof chip);
    EXPECT(start(2), ATREST_NOT_ANCHORED);
    return failed;
}

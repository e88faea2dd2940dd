/* contrib/zephyr over a mock of Zephyr whose flash areas are memory: the ITS backend, across starts, attacks and a failing key. */
#include <stdio.h>
#include <string.h>

#include "atrest_zephyr.h"
#include <zephyr/kernel.h>
#include <zephyr/random/random.h>
#include <zephyr/secure_storage/its.h>
#include <zephyr/storage/flash_map.h>

enum { ERASE = CONFIG_ATREST_ERASE_SIZE, BLOCKS = 8, PAGES = 2 };

static uint8_t chip[BLOCKS * ERASE], own[PAGES * ERASE];
static struct flash_area areas[2];
static uint32_t align = 4;
static int key_fails, depth, most_depth, failed;

static uint8_t *bytes_of(const struct flash_area *fa, off_t off, size_t len) {
    if (off < 0 || (size_t)off + len > fa->fa_size) return NULL;
    return (fa->fa_id ? own : chip) + off;
}

int flash_area_open(uint8_t id, const struct flash_area **fa) {
    if (id >= 2) return -2;
    areas[id].fa_id = id;
    areas[id].fa_size = id ? sizeof own : sizeof chip;
    *fa = &areas[id];
    return 0;
}

int flash_area_read(const struct flash_area *fa, off_t off, void *dst, size_t len) {
    uint8_t *from = bytes_of(fa, off, len);
    if (!from) return -22;
    memcpy(dst, from, len);
    return 0;
}

int flash_area_write(const struct flash_area *fa, off_t off, const void *src, size_t len) {
    uint8_t *to = bytes_of(fa, off, len);
    if (!to || off % align || len % align) return -22;
    for (size_t i = 0; i < len; i++) {
        if (to[i] != 0xff) return -5;
    }
    memcpy(to, src, len);
    return 0;
}

int flash_area_erase(const struct flash_area *fa, off_t off, size_t len) {
    uint8_t *at = bytes_of(fa, off, len);
    if (!at || off % ERASE || len % ERASE) return -22;
    memset(at, 0xff, len);
    return 0;
}

uint32_t flash_area_align(const struct flash_area *fa) {
    (void)fa;
    return align;
}

uint8_t flash_area_erased_val(const struct flash_area *fa) {
    (void)fa;
    return 0xff;
}

int sys_csrand_get(void *dst, size_t len) {
    static unsigned seed = 7;
    for (size_t i = 0; i < len; i++) {
        seed = seed * 1103515245 + 12345;
        ((uint8_t *)dst)[i] = (uint8_t)(seed >> 16);
    }
    return 0;
}

int k_mutex_lock(struct k_mutex *mutex, int timeout) {
    if (timeout != K_FOREVER) failed = 1;
    depth = ++mutex->held;
    if (depth > most_depth) most_depth = depth;
    return 0;
}

int k_mutex_unlock(struct k_mutex *mutex) {
    depth = --mutex->held;
    return 0;
}

int atrest_zephyr_its_key(uint8_t key[32], uint8_t uuid[16]) {
    if (key_fails) return -1;
    memset(key, 0x42, 32);
    memset(uuid, 0x17, 16);
    return 0;
}

static void expect(int line, long got, long wanted) {
    if (got != wanted) {
        printf("line %d: %ld and not %ld\n", line, got, wanted);
        failed = 1;
    }
}
#define EXPECT(got, wanted) expect(__LINE__, (long)(got), (long)(wanted))

/* One start of a device, by what it is to find: the file of its flash lies beside. */
int main(int argc, char **argv) {
    if (argc != 3) return 2;
    uint8_t data[80], got[100];
    size_t len = 0;
    struct psa_storage_info_t info;
    for (size_t i = 0; i < sizeof data; i++) data[i] = (uint8_t)(i * 3);
    memset(chip, 0xff, sizeof chip);
    memset(own, 0xff, sizeof own);
    FILE *file = fopen(argv[2], "rb");
    if (file && (fread(chip, 1, sizeof chip, file) != sizeof chip || fread(own, 1, sizeof own, file) != sizeof own)) return 2;
    if (file) fclose(file);

    if (!strcmp(argv[1], "first")) {
        struct atrest_medium medium;
        EXPECT(atrest_zephyr_medium(NULL, 0, ERASE), ATREST_ARGUMENT);
        EXPECT(atrest_zephyr_medium(&medium, 2, ERASE), ATREST_ARGUMENT);
        EXPECT(atrest_zephyr_medium(&medium, 0, 0), ATREST_ARGUMENT);
        EXPECT(atrest_zephyr_medium(&medium, 0, ERASE + 1), ATREST_ARGUMENT);
        align = 12;
        EXPECT(atrest_zephyr_medium(&medium, 0, ERASE), ATREST_ARGUMENT);
        align = 32;
        EXPECT(atrest_zephyr_medium(&medium, 0, ERASE), ATREST_OK);
        EXPECT(medium.prog_size, 32);
        align = 4;
        EXPECT(atrest_zephyr_medium(&medium, 0, ERASE), ATREST_OK);
        EXPECT(medium.prog_size == 16 && medium.block_count == BLOCKS, 1);
        key_fails = 1;
        EXPECT(secure_storage_its_set(MOCK_CALLER_ITS, 7, 5, data, 0), PSA_ERROR_STORAGE_FAILURE);
        key_fails = 0;
        EXPECT(secure_storage_its_get(MOCK_CALLER_ITS, 7, 0, 5, got, &len), PSA_ERROR_DOES_NOT_EXIST);
        EXPECT(secure_storage_its_set(MOCK_CALLER_ITS, 7, sizeof data, data, 0), PSA_SUCCESS);
        EXPECT(secure_storage_its_set(MOCK_CALLER_CRYPTO, 7, 3, data, PSA_STORAGE_FLAG_WRITE_ONCE), PSA_SUCCESS);
        EXPECT(secure_storage_its_set(MOCK_CALLER_PS, 0, 3, data, 0), PSA_ERROR_INVALID_ARGUMENT);
        EXPECT(secure_storage_its_get_info(MOCK_CALLER_ITS, 7, NULL), PSA_ERROR_INVALID_ARGUMENT);
        EXPECT(secure_storage_its_set(MOCK_CALLER_PS, 8, CONFIG_SECURE_STORAGE_ITS_MAX_DATA_SIZE + 1, data, 0),
               PSA_ERROR_INSUFFICIENT_STORAGE);
    } else if (!strcmp(argv[1], "again")) {
        EXPECT(secure_storage_its_get(MOCK_CALLER_ITS, 7, 1, sizeof got, got, &len), PSA_SUCCESS);
        EXPECT(len == sizeof data - 1 && !memcmp(got, data + 1, len), 1);
        EXPECT(secure_storage_its_get_info(MOCK_CALLER_CRYPTO, 7, &info), PSA_SUCCESS);
        EXPECT(info.size == 3 && info.capacity == 3 && info.flags == PSA_STORAGE_FLAG_WRITE_ONCE, 1);
        EXPECT(secure_storage_its_remove(MOCK_CALLER_CRYPTO, 7), PSA_ERROR_NOT_PERMITTED);
        EXPECT(secure_storage_its_remove(MOCK_CALLER_ITS, 7), PSA_SUCCESS);
        EXPECT(secure_storage_its_remove(MOCK_CALLER_ITS, 7), PSA_ERROR_DOES_NOT_EXIST);
    } else {
        /* Whatever was done to it: nothing is shown, and nothing made anew. */
        static uint8_t before[sizeof chip];
        memcpy(before, chip, sizeof chip);
        EXPECT(secure_storage_its_get(MOCK_CALLER_ITS, 7, 0, sizeof got, got, &len), PSA_ERROR_STORAGE_FAILURE);
        EXPECT(secure_storage_its_set(MOCK_CALLER_ITS, 7, 5, data, 0), PSA_ERROR_STORAGE_FAILURE);
        EXPECT(memcmp(before, chip, sizeof chip), 0);
    }
    EXPECT(depth == 0 && most_depth == 1, 1);
    file = fopen(argv[2], "wb");
    if (!file || fwrite(chip, 1, sizeof chip, file) != sizeof chip || fwrite(own, 1, sizeof own, file) != sizeof own) return 2;
    return fclose(file) || failed;
}

/*
 * Internal Trusted Storage in C, on sealed flash in memory: the cases of Arm's PSA Storage API test suite (psa-arch-tests, S001 to S010,
 * as facts, with the status codes of API 1.0), then what stands in the specification beside them, attacks and power cuts.
 */
#include "atrest.h"
#include "psa/internal_trusted_storage.h"

#include <stdio.h>
#include <string.h>

enum { PROG = 16, ERASE = 2048, BLOCKS = 6, NAMES = 24, LONGEST = 256 };

static uint8_t flash_bytes[BLOCKS * ERASE], record[ATREST_RECORD_LEN];
static int has_record, is_dead;
static long left = -1;

static struct atrest_sealed volume;
static struct atrest_its storage;
static uint8_t table[BLOCKS * ATREST_BLOCK_STATE], unit[256], map_unit[256];
static struct atrest_its_entry entries[NAMES];
static int failed;

static void expect(int line, long got, long wanted) {
    if (got != wanted) {
        printf("line %d: %ld and not %ld\n", line, got, wanted);
        failed = 1;
    }
}
#define EXPECT(got, wanted) expect(__LINE__, (long)(got), (long)(wanted))

static int power_fails(void) {
    if (left == 0) is_dead = 1;
    if (left > 0) left--;
    return is_dead;
}

static int medium_read(void *context, uint64_t address, void *to, size_t size) {
    if (is_dead) return -5;
    memcpy(to, (uint8_t *)context + address, size);
    return 0;
}

static int medium_prog(void *context, uint64_t address, const void *data, size_t size) {
    uint8_t *units = (uint8_t *)context + address;
    if (is_dead) return -5;
    for (size_t i = 0; i < size; i++) {
        if (units[i] != 0xff) return 7;
    }
    int cut = power_fails();
    memcpy(units, data, cut ? size / 2 : size);
    return cut ? -5 : 0;
}

static int medium_erase(void *context, uint64_t address, uint64_t size) {
    if (is_dead) return -5;
    int cut = power_fails();
    memset((uint8_t *)context + address, 0xff, (size_t)(cut ? size / 2 : size));
    return cut ? -5 : 0;
}

static int store_load(void *context, uint8_t to[ATREST_RECORD_LEN]) {
    (void)context;
    if (!has_record) return ATREST_STORE_EMPTY;
    memcpy(to, record, sizeof record);
    return 0;
}

static int store_store(void *context, const uint8_t from[ATREST_RECORD_LEN]) {
    (void)context;
    if (is_dead || power_fails()) return -5;
    memcpy(record, from, sizeof record);
    has_record = 1;
    return 0;
}

static int random_fill(void *context, void *to, size_t size) {
    unsigned *seed = context;
    for (size_t i = 0; i < size; i++) {
        *seed = *seed * 1103515245 + 12345;
        ((uint8_t *)to)[i] = (uint8_t)(*seed >> 16);
    }
    return 0;
}

static unsigned seed = 1;
static uint8_t key_bytes[32] = {1, 2, 3}, uuid[16] = {9};
static const struct atrest_medium medium = {
    .context = flash_bytes,
    .read = medium_read,
    .prog = medium_prog,
    .erase = medium_erase,
    .read_size = 1,
    .prog_size = PROG,
    .erase_size = ERASE,
    .erased_byte = 0xff,
    .block_count = BLOCKS,
};
static const struct atrest_store store = {.load = store_load, .store = store_store};
static const struct atrest_key key = {ATREST_ASCON128, key_bytes, sizeof key_bytes, uuid};
static const struct atrest_sealed_options options = {.payload = 64};
static const struct atrest_sealed_memory memory = {table, sizeof table, unit, sizeof unit};
static const struct atrest_random chance = {&seed, random_fill};
static const struct atrest_its_options sizes = {entries, NAMES, map_unit, sizeof map_unit, LONGEST, 1};

/* Starts the device: the volume is made where the store is empty, and the map where the volume has none. */
static int start(void) {
    memset(&volume, 0, sizeof volume);
    memset(&storage, 0, sizeof storage);
    int status = atrest_sealed_open(&volume, &medium, &store, &key, &options, &memory, &chance);
    if (status == ATREST_STORE_EMPTY) {
        status = atrest_sealed_format(&volume, &medium, &store, &key, &options, &memory, &chance);
    }
    if (status != ATREST_OK) return status;
    status = atrest_its_open(&storage, &volume, &key, &sizes);
    if (status == ATREST_NO_MAP) status = atrest_its_format(&storage, &volume, &key, &sizes);
    atrest_psa_its_use(&storage);
    return status;
}

static int stop(void) {
    atrest_psa_its_use(NULL);
    atrest_its_close(&storage);
    return atrest_sealed_close(&volume);
}

static void start_anew(void) {
    memset(flash_bytes, 0xff, sizeof flash_bytes);
    has_record = 0;
    EXPECT(start(), ATREST_OK);
}

static uint8_t written[LONGEST + 1], got[LONGEST + 8];
static size_t len;

/* Whether what is stored is the beginning of `written`. */
static void expect_stored(int line, psa_storage_uid_t uid, size_t size, psa_storage_create_flags_t flags) {
    struct psa_storage_info_t info = {77, 77, 77};
    memset(got, 0xee, sizeof got);
    expect(line, psa_its_get(uid, 0, sizeof got, got, &len), PSA_SUCCESS);
    expect(line, (long)len, (long)size);
    expect(line, memcmp(got, written, size), 0);
    for (size_t i = size; i < sizeof got; i++) expect(line, got[i], 0xee);
    expect(line, psa_its_get_info(uid, &info), PSA_SUCCESS);
    expect(line, (long)info.size, (long)size);
    expect(line, info.capacity >= info.size, 1);
    expect(line, (long)info.flags, (long)flags);
}
#define STORED(uid, size, flags) expect_stored(__LINE__, (uid), (size), (flags))

static void expect_nothing(int line, psa_storage_uid_t uid) {
    struct psa_storage_info_t info = {77, 77, 77};
    memset(got, 0xee, sizeof got);
    len = 77;
    expect(line, psa_its_get(uid, 0, sizeof got, got, &len), PSA_ERROR_DOES_NOT_EXIST);
    for (size_t i = 0; i < sizeof got; i++) expect(line, got[i], 0xee);
    expect(line, psa_its_get_info(uid, &info), PSA_ERROR_DOES_NOT_EXIST);
    expect(line, info.size == 77 && info.flags == 77, 1);
    expect(line, psa_its_remove(uid), PSA_ERROR_DOES_NOT_EXIST);
}
#define NOTHING(uid) expect_nothing(__LINE__, (uid))

/* S001: what was never stored, was removed, or has another identifier, does not exist. */
static void s001(void) {
    start_anew();
    NOTHING(5);
    EXPECT(psa_its_set(5, 20, written, 0), PSA_SUCCESS);
    NOTHING(6);
    STORED(5, 20, 0);
    EXPECT(psa_its_remove(5), PSA_SUCCESS);
    NOTHING(5);
    EXPECT(psa_its_set(5, 20, written, 0), PSA_SUCCESS);
    EXPECT(psa_its_set(6, 10, written, 0), PSA_SUCCESS);
    EXPECT(psa_its_remove(5), PSA_SUCCESS);
    STORED(6, 10, 0);
    NOTHING(5);
}

/* S002: data become final when they are stored with WRITE_ONCE, at first or later. */
static void s002(void) {
    start_anew();
    for (psa_storage_uid_t uid = 14; uid < 16; uid++) {
        if (uid == 14) {
            EXPECT(psa_its_set(uid, 8, written, 0), PSA_SUCCESS);
            STORED(uid, 8, 0);
        }
        EXPECT(psa_its_set(uid, 16, written, PSA_STORAGE_FLAG_WRITE_ONCE), PSA_SUCCESS);
        STORED(uid, 16, PSA_STORAGE_FLAG_WRITE_ONCE);
        EXPECT(psa_its_remove(uid), PSA_ERROR_NOT_PERMITTED);
        EXPECT(psa_its_set(uid, 17, written, PSA_STORAGE_FLAG_WRITE_ONCE), PSA_ERROR_NOT_PERMITTED);
        EXPECT(psa_its_set(uid, 15, written, 0), PSA_ERROR_NOT_PERMITTED);
        EXPECT(psa_its_remove(uid), PSA_ERROR_NOT_PERMITTED);
        STORED(uid, 16, PSA_STORAGE_FLAG_WRITE_ONCE);
    }
    EXPECT(stop(), ATREST_OK);
    EXPECT(start(), ATREST_OK);
    EXPECT(psa_its_set(14, 16, written, 0), PSA_ERROR_NOT_PERMITTED);
    STORED(15, 16, PSA_STORAGE_FLAG_WRITE_ONCE);
}

/* S003: as many data have room each time, and there is room again once they are removed. */
static void s003(void) {
    long first = 0;
    start_anew();
    for (int round = 0; round < 5; round++) {
        psa_storage_uid_t uid = 1;
        psa_status_t status;
        while ((status = psa_its_set(uid, LONGEST, written, 0)) == PSA_SUCCESS) uid++;
        EXPECT(status, PSA_ERROR_INSUFFICIENT_STORAGE);
        NOTHING(uid);
        if (round == 0) first = (long)uid;
        EXPECT(uid > 3 && (long)uid == first, 1);
        STORED(uid - 1, LONGEST, 0);
        while (--uid > 0) EXPECT(psa_its_remove(uid), PSA_SUCCESS);
    }
    /* More identifiers than there are entries. */
    for (psa_storage_uid_t uid = 1; uid <= NAMES; uid++) EXPECT(psa_its_set(uid, 1, written, 0), PSA_SUCCESS);
    EXPECT(psa_its_set(NAMES + 1, 1, written, 0), PSA_ERROR_INSUFFICIENT_STORAGE);
    EXPECT(psa_its_set(NAMES, 2, written, 0), PSA_SUCCESS);
    EXPECT(psa_its_set(1, LONGEST + 1, written, 0), PSA_ERROR_INSUFFICIENT_STORAGE);
    STORED(1, 1, 0);
}

/* S004: of data that were replaced by shorter ones nothing more is seen. */
static void s004(void) {
    start_anew();
    EXPECT(psa_its_set(6, 20, written, 0), PSA_SUCCESS);
    STORED(6, 20, 0);
    EXPECT(psa_its_set(6, 10, written, 0), PSA_SUCCESS);
    STORED(6, 10, 0);
    memset(got, 0, sizeof got);
    EXPECT(psa_its_get(6, 0, 10, got, &len), PSA_SUCCESS);
    EXPECT(len, 10);
    for (int i = 10; i < 20; i++) EXPECT(got[i], 0);
    EXPECT(psa_its_remove(6), PSA_SUCCESS);
}

/* S005 to S007: what is stored with each flag, the data may be of no bytes; flags that are none, and flags that change. */
static void s005(void) {
    const psa_storage_create_flags_t flags[] = {
        PSA_STORAGE_FLAG_NONE, PSA_STORAGE_FLAG_NO_CONFIDENTIALITY, PSA_STORAGE_FLAG_NO_REPLAY_PROTECTION, 6};
    start_anew();
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        for (size_t size = 0; size <= 30; size += 15) {
            EXPECT(psa_its_set(11, size, written, flags[i]), PSA_SUCCESS);
            STORED(11, size, flags[i]);
        }
        if (i % 2) EXPECT(psa_its_remove(11), PSA_SUCCESS);
    }
    for (int bit = 3; bit < 32; bit++) {
        EXPECT(psa_its_set(12, 15, written, (psa_storage_create_flags_t)1 << bit), PSA_ERROR_NOT_SUPPORTED);
        EXPECT(psa_its_set(12, 15, written, (psa_storage_create_flags_t)1 << bit | 1), PSA_ERROR_NOT_SUPPORTED);
    }
    NOTHING(12);
}

/* S008: offsets. */
static void s008(void) {
    start_anew();
    EXPECT(psa_its_set(10, 20, written, 0), PSA_SUCCESS);
    for (size_t offset = 0; offset <= 20; offset++) {
        for (size_t size = 0; size <= 22; size++) {
            size_t expected = 20 - offset < size ? 20 - offset : size;
            memset(got, 0xee, sizeof got);
            len = 77;
            EXPECT(psa_its_get(10, offset, size, got, &len), PSA_SUCCESS);
            EXPECT(len, expected);
            EXPECT(memcmp(got, written + offset, expected), 0);
            EXPECT(got[expected], 0xee);
        }
    }
    memset(got, 0xee, sizeof got);
    EXPECT(psa_its_get(10, 21, 0, got, &len), PSA_ERROR_INVALID_ARGUMENT);
    EXPECT(psa_its_get(10, 21, 1, got, &len), PSA_ERROR_INVALID_ARGUMENT);
    EXPECT(psa_its_get(10, SIZE_MAX, 1, got, &len), PSA_ERROR_INVALID_ARGUMENT);
    EXPECT(got[0], 0xee);
}

/* S009 and S010: pointers that are missing where nothing is at them, and where something is; the identifier 0. */
static void s009(void) {
    struct psa_storage_info_t info;
    start_anew();
    EXPECT(psa_its_set(5, 0, NULL, 0), PSA_SUCCESS);
    STORED(5, 0, 0);
    EXPECT(psa_its_set(5, 0, written, 0), PSA_SUCCESS);
    EXPECT(psa_its_get(5, 0, 0, NULL, &len), PSA_SUCCESS);
    EXPECT(len, 0);
    EXPECT(psa_its_set(5, 3, NULL, 0), PSA_ERROR_INVALID_ARGUMENT);
    STORED(5, 0, 0);
    EXPECT(psa_its_set(5, 3, written, 0), PSA_SUCCESS);
    EXPECT(psa_its_set(5, SIZE_MAX, written, 0), PSA_ERROR_INVALID_ARGUMENT);
    EXPECT(psa_its_get(5, 0, 3, NULL, &len), PSA_ERROR_INVALID_ARGUMENT);
    EXPECT(psa_its_get(5, 0, 3, got, NULL), PSA_ERROR_INVALID_ARGUMENT);
    EXPECT(psa_its_get_info(5, NULL), PSA_ERROR_INVALID_ARGUMENT);
    EXPECT(psa_its_set(0, 1, written, 0), PSA_ERROR_INVALID_ARGUMENT);
    EXPECT(psa_its_get(0, 0, 1, got, &len), PSA_ERROR_INVALID_ARGUMENT);
    EXPECT(psa_its_get_info(0, &info), PSA_ERROR_INVALID_ARGUMENT);
    EXPECT(psa_its_remove(0), PSA_ERROR_INVALID_ARGUMENT);
    EXPECT(psa_its_remove(5), PSA_SUCCESS);
}

/* Identifiers have 64 bits, and callers data of their own. */
static void identifiers(void) {
    const psa_storage_uid_t uids[] = {1, 2, 0xffffffff, 0x100000000, 0x100000001, UINT64_MAX};
    const size_t count = sizeof uids / sizeof *uids;
    start_anew();
    for (size_t i = 0; i < count; i++) EXPECT(psa_its_set(uids[i], i + 1, written, 0), PSA_SUCCESS);
    for (size_t i = 0; i < count; i++) STORED(uids[i], i + 1, 0);
    EXPECT(atrest_its_set(&storage, -7, 1, 9, written + 1, 1), PSA_SUCCESS);
    EXPECT(psa_its_set(1, 4, written, 0), PSA_SUCCESS);
    STORED(1, 4, 0);
    EXPECT(atrest_its_get(&storage, -7, 1, 0, sizeof got, got, &len), PSA_SUCCESS);
    EXPECT(len == 9 && !memcmp(got, written + 1, 9), 1);
    EXPECT(atrest_its_remove(&storage, 7, 1), PSA_ERROR_DOES_NOT_EXIST);
}

/* What the caller gets wrong, and what he closes too early. */
static void openings(void) {
    start_anew();
    EXPECT(psa_its_set(1, 4, written, 0), PSA_SUCCESS);
    EXPECT(atrest_its_open(&storage, &volume, &key, &sizes), ATREST_ARGUMENT); /* it is open */
    atrest_its_close(&storage);
    atrest_its_close(&storage);
    atrest_its_close(NULL);
    EXPECT(psa_its_set(1, 4, written, 0), PSA_ERROR_GENERIC_ERROR);
    EXPECT(psa_its_get(1, 0, 4, got, &len), PSA_ERROR_GENERIC_ERROR);
    EXPECT(psa_its_remove(1), PSA_ERROR_GENERIC_ERROR);
    EXPECT(atrest_its_open(NULL, &volume, &key, &sizes), ATREST_ARGUMENT);
    EXPECT(atrest_its_open(&storage, NULL, &key, &sizes), ATREST_ARGUMENT);
    EXPECT(atrest_its_open(&storage, &volume, NULL, &sizes), ATREST_ARGUMENT);
    EXPECT(atrest_its_open(&storage, &volume, &key, NULL), ATREST_ARGUMENT);
    struct atrest_its_options odd = sizes;
    odd.entries = NULL;
    EXPECT(atrest_its_open(&storage, &volume, &key, &odd), ATREST_ARGUMENT);
    odd.entries = (struct atrest_its_entry *)(void *)((uint8_t *)entries + 1);
    odd.entry_count--;
    EXPECT(atrest_its_open(&storage, &volume, &key, &odd), ATREST_ARGUMENT);
    odd = sizes;
    odd.entry_count = SIZE_MAX / 4;
    EXPECT(atrest_its_open(&storage, &volume, &key, &odd), ATREST_ARGUMENT);
    odd.entry_count = 0;
    EXPECT(atrest_its_open(&storage, &volume, &key, &odd), ATREST_MEMORY);
    odd = sizes;
    odd.buffer = NULL;
    EXPECT(atrest_its_open(&storage, &volume, &key, &odd), ATREST_ARGUMENT);
    odd = sizes;
    odd.buffer_len = 32;
    EXPECT(atrest_its_open(&storage, &volume, &key, &odd), ATREST_MEMORY);
    odd = sizes;
    odd.longest = ERASE;
    EXPECT(atrest_its_open(&storage, &volume, &key, &odd), ATREST_OPTION);
    odd = sizes;
    odd.spares = BLOCKS;
    EXPECT(atrest_its_open(&storage, &volume, &key, &odd), ATREST_OPTION);
    uint8_t zeros[32] = {0}, other[32] = {4};
    struct atrest_key wrong = key;
    wrong.bytes = zeros;
    EXPECT(atrest_its_open(&storage, &volume, &wrong, &sizes), ATREST_KEY_LENGTH);
    wrong.bytes = other;
    EXPECT(atrest_its_open(&storage, &volume, &wrong, &sizes), ATREST_NO_MAP);
    EXPECT(atrest_its_open(&storage, &volume, &key, &sizes), ATREST_OK);
    STORED(1, 4, 0);
    EXPECT(atrest_sealed_close(&volume), ATREST_OK);
    EXPECT(psa_its_set(1, 4, written, 0), PSA_ERROR_STORAGE_FAILURE);
    EXPECT(psa_its_get(1, 0, 4, got, &len), PSA_ERROR_STORAGE_FAILURE);
    atrest_its_close(&storage);
    EXPECT(atrest_its_open(&storage, &volume, &key, &sizes), ATREST_CLOSED);
    atrest_psa_its_use(NULL);
    EXPECT(psa_its_set(1, 4, written, 0), PSA_ERROR_GENERIC_ERROR);
}

/* Nothing is shown that was changed on the medium, and no older state is. */
static void attacks(void) {
    static uint8_t before[sizeof flash_bytes], record_before[sizeof record];
    start_anew();
    EXPECT(psa_its_set(1, 200, written, 0), PSA_SUCCESS);
    EXPECT(stop(), ATREST_OK);
    memcpy(before, flash_bytes, sizeof before);
    memcpy(record_before, record, sizeof record);
    unsigned refused = 0, failures = 0;
    for (size_t at = 0; at < sizeof before; at += 61) {
        if (before[at] == 0xff) continue;
        memcpy(flash_bytes, before, sizeof before);
        memcpy(record, record_before, sizeof record);
        flash_bytes[at] ^= 0x10;
        int status = start();
        if (status != ATREST_OK) {
            refused++;
            continue;
        }
        memset(got, 0xee, sizeof got);
        psa_status_t read = psa_its_get(1, 0, sizeof got, got, &len);
        if (read == PSA_SUCCESS) {
            EXPECT(len == 200 && !memcmp(got, written, 200), 1); /* it was not needed */
        } else {
            EXPECT(read, PSA_ERROR_STORAGE_FAILURE);
            for (size_t i = 0; i < 200; i++) EXPECT(got[i] == 0 || got[i] == 0xee, 1);
            failures++;
        }
        stop();
    }
    EXPECT(refused + failures > 3, 1);
    memcpy(flash_bytes, before, sizeof before);
    memcpy(record, record_before, sizeof record);
    EXPECT(start(), ATREST_OK);
    EXPECT(psa_its_set(1, 3, written, 0), PSA_SUCCESS);
    EXPECT(stop(), ATREST_OK);
    memcpy(flash_bytes, before, sizeof before);
    EXPECT(start(), ATREST_NOT_ANCHORED);
}

/* Each operation on the medium and the store is cut once: data are those of before or of after a change, and what returned holds. */
static void power_cuts(void) {
    static uint8_t before[sizeof flash_bytes], record_before[sizeof record];
    start_anew();
    EXPECT(psa_its_set(1, 100, written, 0), PSA_SUCCESS);
    EXPECT(psa_its_set(2, 50, written, PSA_STORAGE_FLAG_WRITE_ONCE), PSA_SUCCESS);
    EXPECT(stop(), ATREST_OK);
    memcpy(before, flash_bytes, sizeof before);
    memcpy(record_before, record, sizeof record);
    long cut = 0;
    for (int whole = 0; !whole && cut < 1000; cut++) {
        memcpy(flash_bytes, before, sizeof before);
        memcpy(record, record_before, sizeof record);
        EXPECT(start(), ATREST_OK);
        left = cut;
        size_t done = 0, tried = 0;
        psa_status_t status = PSA_SUCCESS;
        for (size_t size = 101; size <= 120 && status == PSA_SUCCESS; size++) {
            tried = size;
            status = psa_its_set(1, size, written, 0);
            if (status == PSA_SUCCESS) done = size;
        }
        whole = left > 0;
        EXPECT(status == PSA_SUCCESS || (is_dead && status == PSA_ERROR_STORAGE_FAILURE), 1);
        left = -1;
        is_dead = 0;
        EXPECT(start(), ATREST_OK);
        struct psa_storage_info_t info = {0, 0, 0};
        EXPECT(psa_its_get_info(1, &info), PSA_SUCCESS);
        EXPECT(info.size == (done ? done : 100) || info.size == tried, 1);
        STORED(1, info.size, 0);
        STORED(2, 50, PSA_STORAGE_FLAG_WRITE_ONCE);
        EXPECT(stop(), ATREST_OK);
    }
    EXPECT(cut > 60 && cut < 1000, 1);
}

int main(void) {
    for (size_t i = 0; i < sizeof written; i++) written[i] = (uint8_t)(i * 7 + 1);
    s001();
    s002();
    s003();
    s004();
    s005();
    s008();
    s009();
    identifiers();
    openings();
    attacks();
    power_cuts();
    return failed;
}

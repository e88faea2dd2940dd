/*
 * Sealed flash in C, on memory with the rules of NOR flash: what is refused, what an attacker and a power cut bring about, and a volume
 * that the test beside this file opens.
 */
#include "atrest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROG = 16, ERASE = 1024, BLOCKS = 12, UNIT = 100 };

/* The medium and the store, and how many operations are left before the power fails. */
static struct world {
    uint8_t flash[BLOCKS * ERASE];
    uint8_t record[ATREST_RECORD_LEN];
    int has_record;
} world;
static long left = -1;
static int is_dead;

static struct atrest_sealed volume;
static uint8_t table[BLOCKS * ATREST_BLOCK_STATE], unit[256], header_buffer[PROG];
static int failed;

static void expect(int line, long got, long wanted) {
    if (got != wanted) {
        printf("line %d: %ld and not %ld (%s)\n", line, got, wanted, atrest_message((int)got));
        failed = 1;
    }
}
#define EXPECT(got, wanted) expect(__LINE__, (got), (wanted))

/* Whether the power fails in this operation. */
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

static int store_load(void *context, uint8_t record[ATREST_RECORD_LEN]) {
    struct world *from = context;
    if (!from->has_record) return ATREST_STORE_EMPTY;
    memcpy(record, from->record, ATREST_RECORD_LEN);
    return 0;
}

static int store_store(void *context, const uint8_t record[ATREST_RECORD_LEN]) {
    struct world *to = context;
    if (is_dead || power_fails()) return -5; /* the old record stays */
    memcpy(to->record, record, ATREST_RECORD_LEN);
    to->has_record = 1;
    return 0;
}

static int store_fails(void *context, const uint8_t record[ATREST_RECORD_LEN]) {
    (void)context;
    (void)record;
    return 3;
}

static int damaged_load(void *context, uint8_t record[ATREST_RECORD_LEN]) {
    (void)context;
    memset(record, 0xee, ATREST_RECORD_LEN);
    return ATREST_STORE_DAMAGED;
}

static int random_fill(void *context, void *to, size_t size) {
    unsigned *seed = context;
    for (size_t i = 0; i < size; i++) {
        *seed = *seed * 1103515245 + 12345;
        ((uint8_t *)to)[i] = (uint8_t)(*seed >> 16);
    }
    return 0;
}

static int random_fails(void *context, void *to, size_t size) {
    (void)context;
    (void)to;
    (void)size;
    return -1;
}

/* HMAC-SHA-256 it is not; what comes of it is compared with what Rust makes of the same. */
static int chip_mac(void *context, const uint8_t message[56], uint8_t mac[32]) {
    for (int i = 0; i < 32; i++) mac[i] = (uint8_t)(message[i] ^ message[55 - i] ^ *(const uint8_t *)context);
    return 0;
}

static int chip_cmac(void *context, const uint8_t message[57], uint8_t mac[16]) {
    for (int i = 0; i < 16; i++) mac[i] = (uint8_t)(message[i] ^ message[56 - i] ^ *(const uint8_t *)context);
    return 0;
}

static int chip_fails(void *context, const uint8_t message[56], uint8_t mac[32]) {
    (void)context;
    (void)message;
    memset(mac, 7, 32);
    return 1;
}

static unsigned seed = 1;
static uint8_t volume_key[32] = {1, 2, 3}, uuid[16] = {9};
static const struct atrest_medium medium = {
    .context = world.flash,
    .read = medium_read,
    .prog = medium_prog,
    .erase = medium_erase,
    .read_size = 1,
    .prog_size = PROG,
    .erase_size = ERASE,
    .erased_byte = 0xff,
    .block_count = BLOCKS,
};
static const struct atrest_store store = {.context = &world, .load = store_load, .store = store_store};
static const struct atrest_key key = {ATREST_ASCON128, volume_key, sizeof volume_key, uuid};
static const struct atrest_sealed_options options = {.payload = UNIT};
static const struct atrest_sealed_memory memory = {table, sizeof table, unit, sizeof unit};
static const struct atrest_random chance = {&seed, random_fill};

static int open_volume(void) { return atrest_sealed_open(&volume, &medium, &store, &key, &options, &memory, &chance); }

static void erase_world(void) {
    memset(&world, 0, sizeof world);
    memset(world.flash, 0xff, sizeof world.flash);
}

/* A volume with a text in the first units of blocks 0 and 1, closed. Returns the bytes of a unit. */
static uint32_t make_volume(void) {
    struct atrest_geometry geometry;
    uint8_t text[2 * UNIT + 64];
    erase_world();
    EXPECT(atrest_sealed_format(&volume, &medium, &store, &key, &options, &memory, &chance), ATREST_OK);
    EXPECT(atrest_sealed_geometry(&volume, &geometry), ATREST_OK);
    for (unsigned block = 0; block < 2; block++) {
        memset(text, 'a' + (int)block, sizeof text);
        EXPECT(atrest_sealed_erase(&volume, block * (uint64_t)geometry.erase_size, geometry.erase_size), ATREST_OK);
        EXPECT(atrest_sealed_prog(&volume, block * (uint64_t)geometry.erase_size, text, geometry.prog_size), ATREST_OK);
    }
    EXPECT(atrest_sealed_close(&volume), ATREST_OK);
    return geometry.prog_size;
}

/* What the caller gets wrong. */
static void test_arguments(void) {
    uint8_t text[2 * UNIT + 64];
    struct atrest_geometry geometry;
    struct atrest_sealed_sizes sizes;

    EXPECT(atrest_sealed_sizes(&medium, &options, &sizes), ATREST_OK);
    EXPECT((long)sizes.table_len, sizeof table);
    EXPECT(sizes.buffer_len > UNIT && sizes.buffer_len < sizeof unit, 1);
    EXPECT(atrest_sealed_sizes(NULL, &options, &sizes), ATREST_ARGUMENT);
    EXPECT(atrest_sealed_sizes(&medium, &options, NULL), ATREST_ARGUMENT);
    struct atrest_sealed_options impossible = {.payload = ERASE};
    EXPECT(atrest_sealed_sizes(&medium, &impossible, &sizes), ATREST_OPTION);

    uint32_t len = make_volume();
    EXPECT((long)len, sizes.geometry.prog_size);
    EXPECT(atrest_sealed_read(&volume, 0, text, len), ATREST_CLOSED);
    EXPECT(atrest_sealed_close(&volume), ATREST_CLOSED);
    EXPECT(atrest_sealed_close(NULL), ATREST_ARGUMENT);
    EXPECT(atrest_sealed_health(&volume), ATREST_CLOSED);

#define OPEN(medium, store, key, options, memory, chance) \
    atrest_sealed_open(&volume, (medium), (store), (key), (options), (memory), (chance))
    EXPECT(atrest_sealed_open(NULL, &medium, &store, &key, &options, &memory, &chance), ATREST_ARGUMENT);
    EXPECT(OPEN(NULL, &store, &key, &options, &memory, &chance), ATREST_ARGUMENT);
    EXPECT(OPEN(&medium, NULL, &key, &options, &memory, &chance), ATREST_ARGUMENT);
    EXPECT(OPEN(&medium, &store, NULL, &options, &memory, &chance), ATREST_ARGUMENT);
    EXPECT(OPEN(&medium, &store, &key, &options, NULL, &chance), ATREST_ARGUMENT);
    EXPECT(OPEN(&medium, &store, &key, &options, &memory, NULL), ATREST_ARGUMENT);
    EXPECT(OPEN(&medium, &store, &key, NULL, &memory, &chance), ATREST_MEMORY); /* units of 252 bytes */

    struct atrest_medium half = medium;
    half.prog = NULL;
    EXPECT(OPEN(&half, &store, &key, &options, &memory, &chance), ATREST_ARGUMENT);
    struct atrest_store other = {.context = &world, .load = store_load};
    EXPECT(OPEN(&medium, &other, &key, &options, &memory, &chance), ATREST_ARGUMENT);
    other = store;
    other.pages = &medium;
    EXPECT(OPEN(&medium, &other, &key, &options, &memory, &chance), ATREST_ARGUMENT);

    struct atrest_key wrong = key;
    wrong.bytes = NULL;
    EXPECT(OPEN(&medium, &store, &wrong, &options, &memory, &chance), ATREST_ARGUMENT);
    wrong = key;
    wrong.uuid = NULL;
    EXPECT(OPEN(&medium, &store, &wrong, &options, &memory, &chance), ATREST_ARGUMENT);
    uint8_t zeros[32] = {0}, long_key[65] = {1};
    wrong.uuid = zeros;
    EXPECT(OPEN(&medium, &store, &wrong, &options, &memory, &chance), ATREST_KEY_LENGTH);
    wrong = key;
    wrong.bytes = zeros;
    EXPECT(OPEN(&medium, &store, &wrong, &options, &memory, &chance), ATREST_KEY_LENGTH);
    wrong.bytes = long_key;
    wrong.len = sizeof long_key;
    EXPECT(OPEN(&medium, &store, &wrong, &options, &memory, &chance), ATREST_KEY_LENGTH);
    wrong = key;
    wrong.len = 15;
    EXPECT(OPEN(&medium, &store, &wrong, &options, &memory, &chance), ATREST_KEY_LENGTH);
    wrong = key;
    wrong.cipher = ATREST_AES_XTS;
    EXPECT(OPEN(&medium, &store, &wrong, &options, &memory, &chance), ATREST_NOT_HERE);
    wrong.cipher = 4711;
    EXPECT(OPEN(&medium, &store, &wrong, &options, &memory, &chance), ATREST_NOT_HERE);
    wrong.cipher = -1;
    EXPECT(OPEN(&medium, &store, &wrong, &options, &memory, &chance), ATREST_NOT_HERE);

    struct atrest_sealed_memory little = memory;
    little.table_len--;
    EXPECT(OPEN(&medium, &store, &key, &options, &little, &chance), ATREST_MEMORY);
    little = memory;
    little.buffer_len = sizes.buffer_len - 1;
    EXPECT(OPEN(&medium, &store, &key, &options, &little, &chance), ATREST_MEMORY);
    little.buffer = NULL;
    EXPECT(OPEN(&medium, &store, &key, &options, &little, &chance), ATREST_ARGUMENT);
    little = memory;
    little.table = NULL;
    EXPECT(OPEN(&medium, &store, &key, &options, &little, &chance), ATREST_ARGUMENT);
    little.table_len = 0;
    EXPECT(OPEN(&medium, &store, &key, &options, &little, &chance), ATREST_MEMORY);

    struct atrest_sealed_options odd[] = {
        {.payload = UNIT, .medium = 3}, {.payload = UNIT, .tickets = 2}, {.payload = UNIT, .verify_at_opening = 2},
        {.payload = UNIT, .no_read_back = 9}, {.payload = UNIT, .reserve = 2}, {.payload = UNIT, .reserve = 23},
    };
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        EXPECT(OPEN(&medium, &store, &key, &odd[i], &memory, &chance), ATREST_OPTION);
    }
    struct atrest_random silent = {NULL, NULL};
    EXPECT(OPEN(&medium, &store, &key, &options, &memory, &silent), ATREST_RANDOM);
    silent.fill = random_fails;
    EXPECT(OPEN(&medium, &store, &key, &options, &memory, &silent), ATREST_RANDOM);

    EXPECT(open_volume(), ATREST_OK);
    EXPECT(open_volume(), ATREST_ARGUMENT);
    EXPECT(atrest_sealed_format(&volume, &medium, &store, &key, &options, &memory, &chance), ATREST_ARGUMENT);
    EXPECT(atrest_sealed_geometry(&volume, NULL), ATREST_ARGUMENT);
    EXPECT(atrest_sealed_geometry(&volume, &geometry), ATREST_OK);
    EXPECT(geometry.prog_size == sizes.geometry.prog_size && geometry.read_size == sizes.geometry.read_size, 1);
    EXPECT(geometry.erase_size == sizes.geometry.erase_size && geometry.block_count == sizes.geometry.block_count, 1);
    uint64_t whole = (uint64_t)geometry.erase_size * geometry.block_count;
    EXPECT(atrest_sealed_read(&volume, 0, NULL, len), ATREST_ARGUMENT);
    EXPECT(atrest_sealed_read(&volume, 0, NULL, 0), ATREST_OK);
    EXPECT(atrest_sealed_read(&volume, 0, text, SIZE_MAX / 2 + 1), ATREST_ARGUMENT);
    EXPECT(atrest_sealed_read(&volume, 0, text, len - 1), ATREST_ARGUMENT);
    EXPECT(atrest_sealed_read(&volume, 1, text, len), ATREST_ARGUMENT);
    EXPECT(atrest_sealed_read(&volume, whole, text, len), ATREST_ARGUMENT);
    EXPECT(atrest_sealed_read(&volume, UINT64_MAX - len + 1, text, len), ATREST_ARGUMENT);
    EXPECT(atrest_sealed_prog(&volume, 0, NULL, len), ATREST_ARGUMENT);
    EXPECT(atrest_sealed_prog(&volume, 0, text, len + 1), ATREST_ARGUMENT);
    EXPECT(atrest_sealed_prog(&volume, len / 2, text, len), ATREST_ARGUMENT);
    EXPECT(atrest_sealed_erase(&volume, 0, geometry.erase_size - 1), ATREST_ARGUMENT);
    EXPECT(atrest_sealed_erase(&volume, len, geometry.erase_size), ATREST_ARGUMENT);
    EXPECT(atrest_sealed_erase(&volume, whole, geometry.erase_size), ATREST_ARGUMENT);
    EXPECT(atrest_sealed_is_blank(&volume, 1, len), ATREST_ARGUMENT);
    EXPECT(atrest_sealed_read(&volume, 0, text, len), ATREST_OK);
    EXPECT(text[0] == 'a' && text[len - 1] == 'a', 1);

    /* littlefs sees what can be had elsewhere as corrupt, and nothing else. */
    struct { void *context; } config = {&volume};
    const struct lfs_config *lfs = (const struct lfs_config *)(const void *)&config;
    EXPECT(atrest_sealed_lfs_prog(lfs, 0, 0, text, len), -84); /* begun before the volume was opened */
    EXPECT(atrest_sealed_lfs_prog(lfs, 3, 0, text, len), -84); /* not erased */
    EXPECT(atrest_sealed_lfs_erase(lfs, 3), 0);
    EXPECT(atrest_sealed_is_blank(&volume, 3 * (uint64_t)geometry.erase_size, geometry.erase_size), 1);
    EXPECT(atrest_sealed_lfs_prog(lfs, 3, 0, text, len), 0);
    EXPECT(atrest_sealed_lfs_prog(lfs, 3, 0, text, len), -84);
    EXPECT(atrest_sealed_is_blank(&volume, 3 * (uint64_t)geometry.erase_size, len), 0);
    EXPECT(atrest_sealed_lfs_read(lfs, 3, 0, text, len), 0);
    EXPECT(atrest_sealed_lfs_read(lfs, 3, 0, text, len - 1), -22);
    EXPECT(atrest_sealed_lfs_read(lfs, BLOCKS, 0, text, len), -22);
    EXPECT(atrest_sealed_lfs_erase(lfs, BLOCKS), -22);
    EXPECT(atrest_sealed_lfs_sync(lfs), 0);
    EXPECT(atrest_sealed_lfs_sync(NULL), -22);
    EXPECT(atrest_sealed_anchor(&volume), ATREST_OK);
    EXPECT(atrest_sealed_health(&volume), ATREST_OK);
    /* A handle of the other kind is none. */
    EXPECT(atrest_flash_sync((struct atrest_flash *)(void *)&volume), ATREST_CLOSED);
    EXPECT(atrest_lfs_sync(lfs), -22);
    EXPECT(atrest_sealed_close(&volume), ATREST_OK);
    config.context = NULL;
    EXPECT(atrest_sealed_lfs_sync(lfs), -22);
}

/* What an attacker does to the medium, and what becomes of the store. */
static void test_attacks(void) {
    uint8_t text[2 * UNIT + 64], wrong_bytes[32] = {3};
    uint32_t len = make_volume();
    static struct world before, after;
    before = world;

    struct atrest_key wrong = key;
    wrong.bytes = wrong_bytes;
    EXPECT(OPEN(&medium, &store, &wrong, &options, &memory, &chance), ATREST_OTHER_VOLUME);
    struct atrest_sealed_options other = {.payload = UNIT + 40};
    EXPECT(OPEN(&medium, &store, &key, &other, &memory, &chance), ATREST_OTHER_VOLUME);
    EXPECT(atrest_sealed_format(&volume, &medium, &store, &key, &options, &memory, &chance), ATREST_STORE_IN_USE);
    EXPECT(memcmp(&world, &before, sizeof world), 0);

    /* Every byte of the first unit, with its serial and tag. */
    for (size_t at = 0; at < len; at++) {
        world = before;
        world.flash[at] ^= (uint8_t)(1 << at % 8);
        int status = open_volume();
        if (status == ATREST_OK) {
            memset(text, 'x', sizeof text);
            EXPECT(atrest_sealed_read(&volume, 0, text, len), ATREST_TAMPERED);
            for (size_t i = 0; i < len; i++) EXPECT(text[i] == 'a', 0);
            EXPECT(atrest_sealed_health(&volume), ATREST_TAMPERED);
            struct { void *context; } config = {&volume};
            EXPECT(atrest_sealed_lfs_read((const void *)&config, 0, 0, text, len), -5);
            EXPECT(atrest_sealed_close(&volume), ATREST_OK);
        } else {
            EXPECT(status, ATREST_NOT_ANCHORED);
        }
    }

    /* More is written, and the medium or the store is put back. */
    world = before;
    EXPECT(open_volume(), ATREST_OK);
    struct atrest_geometry geometry;
    EXPECT(atrest_sealed_geometry(&volume, &geometry), ATREST_OK);
    memset(text, 'c', sizeof text);
    EXPECT(atrest_sealed_erase(&volume, 0, geometry.erase_size), ATREST_OK);
    EXPECT(atrest_sealed_prog(&volume, 0, text, len), ATREST_OK);
    EXPECT(atrest_sealed_close(&volume), ATREST_OK);
    after = world;
    memcpy(world.flash, before.flash, sizeof world.flash);
    EXPECT(open_volume(), ATREST_NOT_ANCHORED);
    world = after;
    memcpy(world.record, before.record, sizeof world.record);
    int status = open_volume();
    EXPECT(status == ATREST_NOT_ANCHORED || status == ATREST_STORE_OLDER, 1);
    world = after;
    memcpy(world.flash + ERASE, before.flash, ERASE); /* a block in another's place */
    status = open_volume();
    if (status == ATREST_OK) {
        EXPECT(atrest_sealed_read(&volume, geometry.erase_size, text, len), ATREST_TAMPERED);
        EXPECT(atrest_sealed_close(&volume), ATREST_OK);
    } else {
        EXPECT(status, ATREST_NOT_ANCHORED);
    }

    /* A unit that is changed while the volume is open stops it. */
    world = after;
    EXPECT(open_volume(), ATREST_OK);
    EXPECT(atrest_sealed_erase(&volume, 5 * (uint64_t)geometry.erase_size, geometry.erase_size), ATREST_OK);
    memset(text, 'd', sizeof text);
    EXPECT(atrest_sealed_prog(&volume, 5 * (uint64_t)geometry.erase_size, text, len), ATREST_OK);
    world.flash[5 * ERASE + 3] ^= 1;
    EXPECT(atrest_sealed_read(&volume, 5 * (uint64_t)geometry.erase_size, text, len), ATREST_TAMPERED);
    EXPECT(atrest_sealed_health(&volume), ATREST_STOPPED);
    EXPECT(atrest_sealed_erase(&volume, 0, geometry.erase_size), ATREST_STOPPED);
    EXPECT(atrest_sealed_close(&volume), ATREST_STOPPED);
    EXPECT(atrest_sealed_health(&volume), ATREST_CLOSED);

    /* The store. */
    world = after;
    world.has_record = 0;
    EXPECT(open_volume(), ATREST_STORE_EMPTY);
    EXPECT(atrest_sealed_format(&volume, &medium, &store, &key, &options, &memory, &chance), ATREST_KEY_IN_USE);
    world = after;
    world.record[ATREST_RECORD_LEN - 1] ^= 1; /* of its tag */
    EXPECT(open_volume(), ATREST_NOT_ANCHORED);
    world = after;
    struct atrest_store bad = store;
    bad.load = damaged_load;
    EXPECT(OPEN(&medium, &bad, &key, &options, &memory, &chance), ATREST_STORE_DAMAGED);
    bad = store;
    bad.store = store_fails;
    EXPECT(OPEN(&medium, &bad, &key, &options, &memory, &chance), ATREST_OK); /* nothing was to be written */
    EXPECT(atrest_sealed_erase(&volume, 0, geometry.erase_size), ATREST_STORE);
    EXPECT(atrest_sealed_close(&volume), ATREST_OK); /* as it was */
    EXPECT(memcmp(&world, &after, sizeof world), 0);
}

/* Every program, erase and write of the store of a small workload is cut, and what had returned is there afterwards. */
static void test_power_cuts(void) {
    struct atrest_geometry geometry;
    uint8_t text[2 * UNIT + 64];
    uint32_t len = make_volume();
    static struct world before;
    before = world;
    long cut = 0;
    for (int whole = 0; !whole && cut < 1000; cut++) {
        world = before;
        EXPECT(open_volume(), ATREST_OK);
        EXPECT(atrest_sealed_geometry(&volume, &geometry), ATREST_OK);
        left = cut;
        unsigned durable = 0;
        int status = 0;
        /* Two blocks in turn: the second round erases what the first has written. */
        for (unsigned round = 0; round < 3 && !status; round++) {
            uint64_t block = (2 + round % 2) * (uint64_t)geometry.erase_size;
            status = atrest_sealed_erase(&volume, block, geometry.erase_size);
            for (unsigned i = 0; i < 3 && !status; i++) {
                memset(text, (int)(1 + 3 * round + i), sizeof text);
                status = atrest_sealed_prog(&volume, block + i * len, text, len);
                if (!status) status = atrest_sealed_sync(&volume);
                if (!status) durable = 1 + 3 * round + i;
            }
        }
        whole = left > 0;
        EXPECT(status ? is_dead : 1, 1);
        /* The chip starts anew, with nothing in memory. */
        memset(&volume, 0, sizeof volume);
        left = -1;
        is_dead = 0;
        EXPECT(open_volume(), ATREST_OK);
        EXPECT(atrest_sealed_read(&volume, 0, text, len), ATREST_OK);
        EXPECT(text[0], 'a');
        for (unsigned round = 0; round < 3; round++) {
            if (round == 0 && durable > 5) continue; /* may be erased by now */
            uint64_t block = (2 + round % 2) * (uint64_t)geometry.erase_size;
            for (unsigned i = 0; i < 3 && 1 + 3 * round + i <= durable; i++) {
                EXPECT(atrest_sealed_read(&volume, block + i * len, text, len), ATREST_OK);
                EXPECT(text[0], 1 + 3 * round + i);
                EXPECT(text[len - 1], 1 + 3 * round + i);
            }
        }
        EXPECT(atrest_sealed_close(&volume), ATREST_OK);
    }
    EXPECT(cut > 20 && cut < 1000, 1);
}

/* Two pages of the controller's own flash, of which the library makes a store. */
static void test_pages(void) {
    static uint8_t page_bytes[2 * ERASE];
    struct atrest_medium pages = medium;
    pages.context = page_bytes;
    pages.block_count = 2;
    const struct atrest_store in_pages = {.pages = &pages};
    struct atrest_geometry geometry;
    uint8_t text[2 * UNIT + 64];
    memset(page_bytes, 0xff, sizeof page_bytes);
    erase_world();
    EXPECT(OPEN(&medium, &in_pages, &key, &options, &memory, &chance), ATREST_STORE_EMPTY);
    EXPECT(atrest_sealed_format(&volume, &medium, &in_pages, &key, &options, &memory, &chance), ATREST_OK);
    EXPECT(atrest_sealed_geometry(&volume, &geometry), ATREST_OK);
    for (unsigned round = 0; round < 40; round++) {
        memset(text, (int)round, sizeof text);
        EXPECT(atrest_sealed_erase(&volume, 0, geometry.erase_size), ATREST_OK);
        EXPECT(atrest_sealed_prog(&volume, 0, text, geometry.prog_size), ATREST_OK);
        EXPECT(atrest_sealed_anchor(&volume), ATREST_OK);
    }
    EXPECT(atrest_sealed_close(&volume), ATREST_OK);
    EXPECT(OPEN(&medium, &in_pages, &key, &options, &memory, &chance), ATREST_OK);
    EXPECT(atrest_sealed_read(&volume, 0, text, geometry.prog_size), ATREST_OK);
    EXPECT(text[0], 39);
    EXPECT(atrest_sealed_close(&volume), ATREST_OK);
    memset(page_bytes, 0x5a, sizeof page_bytes);
    EXPECT(OPEN(&medium, &in_pages, &key, &options, &memory, &chance), ATREST_STORE_DAMAGED);
    pages.block_count = 1;
    EXPECT(OPEN(&medium, &in_pages, &key, &options, &memory, &chance), ATREST_STORE_SIZE);
    pages.prog_size = 512;
    pages.block_count = 2;
    EXPECT(OPEN(&medium, &in_pages, &key, &options, &memory, &chance), ATREST_STORE_SIZE);
    pages.read = NULL;
    EXPECT(OPEN(&medium, &in_pages, &key, &options, &memory, &chance), ATREST_ARGUMENT);
}

/* Keys from the chip, printed for the test beside this file. */
static void test_device(void) {
    uint8_t secret = 0x5a, derived[64], untouched[64];
    struct atrest_device device = {.context = &secret, .hmac = chip_mac};
    static const uint8_t label[] = {'l', 'a', 'b', 'e', 'l'};
    memset(untouched, 0xcc, sizeof untouched);
    memset(derived, 0xcc, sizeof derived);
    EXPECT(atrest_device_key(NULL, label, 5, uuid, derived, 32), ATREST_ARGUMENT);
    EXPECT(atrest_device_key(&device, NULL, 5, uuid, derived, 32), ATREST_ARGUMENT);
    EXPECT(atrest_device_key(&device, label, 5, NULL, derived, 32), ATREST_ARGUMENT);
    EXPECT(atrest_device_key(&device, label, 5, uuid, NULL, 32), ATREST_ARGUMENT);
    EXPECT(atrest_device_key(&device, label, 5, uuid, derived, 0), ATREST_ARGUMENT);
    EXPECT(atrest_device_key(&device, label, 5, uuid, derived, 65), ATREST_ARGUMENT);
    EXPECT(atrest_device_key(&device, label, 5, (const uint8_t *)"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", derived, 32), ATREST_ARGUMENT);
    device.hmac = chip_fails;
    EXPECT(atrest_device_key(&device, label, 5, uuid, derived, 32), ATREST_DEVICE);
    device.hmac = NULL;
    EXPECT(atrest_device_key(&device, label, 5, uuid, derived, 32), ATREST_ARGUMENT);
    EXPECT(memcmp(derived, untouched, sizeof derived), 0);
    for (int cmac = 0; cmac < 2; cmac++) {
        device.hmac = cmac ? NULL : chip_mac;
        device.cmac = cmac ? chip_cmac : NULL;
        EXPECT(atrest_device_key(&device, label, 5, uuid, derived, 32), ATREST_OK);
        for (int i = 0; i < 32; i++) printf("%02x", derived[i]);
        printf("\n");
        EXPECT(derived[32], 0xcc);
    }
}

/* A volume behind a header, left in a file: medium and record. */
static void test_header(const char *path) {
    struct atrest_unlock unlock = {
        .passphrase = (const uint8_t *)"tiger", .passphrase_len = 5, .buffer = header_buffer, .buffer_len = sizeof header_buffer};
    struct atrest_format format = {.cipher = ATREST_ASCON128, .iterations = 10};
    struct atrest_geometry geometry;
    uint8_t text[2 * UNIT + 64] = "sealed in C, to be read in Rust";
    erase_world();

#define MAKE(unlock, format) \
    atrest_sealed_format_header(&volume, &medium, &store, (unlock), (format), &options, &memory, &chance)
#define UNLOCK(unlock) atrest_sealed_unlock(&volume, &medium, &store, (unlock), &options, &memory, &chance)
    EXPECT(UNLOCK(&unlock), ATREST_NO_HEADER);
    EXPECT(MAKE(NULL, &format), ATREST_ARGUMENT);
    EXPECT(MAKE(&unlock, NULL), ATREST_ARGUMENT);
    struct atrest_format odd = format;
    odd.garlic = 8;
    EXPECT(MAKE(&unlock, &odd), ATREST_OPTION);
    odd.garlic = 0;
    odd.iterations = 0;
    EXPECT(MAKE(&unlock, &odd), ATREST_OPTION);
    odd = format;
    odd.key_len = 32;
    EXPECT(MAKE(&unlock, &odd), ATREST_KEY_LENGTH);
    odd = format;
    odd.cipher = ATREST_AES_XTS;
    EXPECT(MAKE(&unlock, &odd), ATREST_NOT_HERE);
    struct atrest_sealed_memory little = memory;
    little.table_len = 4 * ATREST_BLOCK_STATE;
    EXPECT(atrest_sealed_format_header(&volume, &medium, &store, &unlock, &format, &options, &little, &chance), ATREST_MEMORY);
    little = memory;
    little.buffer_len = UNIT;
    EXPECT(atrest_sealed_format_header(&volume, &medium, &store, &unlock, &format, &options, &little, &chance), ATREST_MEMORY);
    for (size_t i = 0; i < sizeof world.flash; i++) EXPECT(world.flash[i], 0xff);
    EXPECT(world.has_record, 0);

    EXPECT(MAKE(&unlock, &format), ATREST_OK);
    EXPECT(atrest_sealed_geometry(&volume, &geometry), ATREST_OK);
    EXPECT((long)geometry.block_count < BLOCKS, 1);
    EXPECT(atrest_sealed_erase(&volume, 0, geometry.erase_size), ATREST_OK);
    EXPECT(atrest_sealed_prog(&volume, 0, text, geometry.prog_size), ATREST_OK);
    EXPECT(atrest_sealed_close(&volume), ATREST_OK);
    EXPECT(MAKE(&unlock, &format), ATREST_STORE_IN_USE);
    world.has_record = 0;
    EXPECT(MAKE(&unlock, &format), ATREST_NOT_BLANK);
    world.has_record = 1;

    unlock.passphrase = (const uint8_t *)"tigre";
    EXPECT(UNLOCK(&unlock), ATREST_PASSPHRASE);
    unlock.passphrase = (const uint8_t *)"tiger";
    unlock.buffer_len = PROG - 1;
    EXPECT(UNLOCK(&unlock), ATREST_MEMORY);
    unlock.buffer_len = PROG;
    struct atrest_flash *encrypted = calloc(1, sizeof *encrypted);
    EXPECT(atrest_flash_open(encrypted, &medium, &unlock), ATREST_NOT_SEALED);
    free(encrypted);
    EXPECT(UNLOCK(&unlock), ATREST_OK);
    EXPECT(atrest_sealed_read(&volume, 0, text, geometry.prog_size), ATREST_OK);
    EXPECT(memcmp(text, "sealed in C", 11), 0);
    EXPECT(atrest_sealed_close(&volume), ATREST_OK);

    /* The header is changed with its store, and an older one does not come back. */
    static struct world before;
    before = world;
    const uint8_t *new_one = (const uint8_t *)"lion";
    EXPECT(atrest_flash_change_passphrase(&medium, &unlock, new_one, 4, &chance), ATREST_STORE_NEEDED);
    EXPECT(atrest_sealed_change_passphrase(&medium, NULL, &unlock, new_one, 4, &chance), ATREST_ARGUMENT);
    EXPECT(memcmp(&world, &before, sizeof world), 0);
    EXPECT(atrest_sealed_change_passphrase(&medium, &store, &unlock, new_one, 4, &chance), ATREST_OK);
    EXPECT(UNLOCK(&unlock), ATREST_PASSPHRASE);
    static struct world changed;
    changed = world;
    memcpy(world.flash, before.flash, sizeof world.flash);
    EXPECT(UNLOCK(&unlock), ATREST_HEADER_OLDER);
    world = changed;
    unlock.passphrase = new_one;
    unlock.passphrase_len = 4;
    EXPECT(UNLOCK(&unlock), ATREST_OK);
    EXPECT(atrest_sealed_close(&volume), ATREST_OK);

    FILE *file = fopen(path, "wb");
    if (!file || fwrite(&world, 1, sizeof world.flash + sizeof world.record, file) == 0 || fclose(file)) exit(2);
    changed = world;
    EXPECT(atrest_sealed_destroy_keys(&medium, &store, header_buffer, sizeof header_buffer), ATREST_OK);
    EXPECT(UNLOCK(&unlock), ATREST_NO_KEYS);
    memcpy(world.flash, changed.flash, sizeof world.flash);
    EXPECT(UNLOCK(&unlock), ATREST_HEADER_OLDER);
}

/* Encrypted flash: formatting, with a keyslot that needs the chip, and a key of the caller's. */
static void test_encrypted(void) {
    static struct atrest_flash flash;
    static uint8_t buffer[512];
    uint8_t secret = 0x5a, text[512] = "to be hidden", other_key[32] = {8, 8};
    const struct atrest_device device = {.context = &secret, .hmac = chip_mac};
    struct atrest_unlock unlock = {.passphrase = (const uint8_t *)"tiger", .passphrase_len = 5, .buffer = buffer, .buffer_len = 512};
    struct atrest_format format = {.cipher = ATREST_AES_XTS, .key_len = 64, .iterations = 10};
    erase_world();
    EXPECT(atrest_flash_format(NULL, &unlock, &format, &chance), ATREST_ARGUMENT);
    EXPECT(atrest_flash_format(&medium, NULL, &format, &chance), ATREST_ARGUMENT);
    EXPECT(atrest_flash_format(&medium, &unlock, NULL, &chance), ATREST_ARGUMENT);
    EXPECT(atrest_flash_format(&medium, &unlock, &format, NULL), ATREST_ARGUMENT);
    struct atrest_format odd = format;
    odd.cipher = ATREST_ASCON128;
    EXPECT(atrest_flash_format(&medium, &unlock, &odd, &chance), ATREST_NOT_HERE);
    odd = format;
    odd.key_len = 40;
    EXPECT(atrest_flash_format(&medium, &unlock, &odd, &chance), ATREST_KEY_LENGTH);
    odd = format;
    odd.data_unit = 500;
    EXPECT(atrest_flash_format(&medium, &unlock, &odd, &chance), ATREST_OPTION);
    struct atrest_random silent = {NULL, random_fails};
    EXPECT(atrest_flash_format(&medium, &unlock, &format, &silent), ATREST_RANDOM);
    for (size_t i = 0; i < sizeof world.flash; i++) EXPECT(world.flash[i], 0xff);

    unlock.device = &device;
    EXPECT(atrest_flash_format(&medium, &unlock, &format, &chance), ATREST_OK);
    EXPECT(atrest_flash_format(&medium, &unlock, &format, &chance), ATREST_NOT_BLANK);
    EXPECT(atrest_sealed_unlock(&volume, &medium, &store, &unlock, &options, &memory, &chance), ATREST_NOT_SEALED);
    unlock.device = NULL;
    EXPECT(atrest_flash_open(&flash, &medium, &unlock), ATREST_DEVICE);
    unlock.device = &device;
    /* It needs the chip after a change, too. */
    EXPECT(atrest_flash_change_passphrase(&medium, &unlock, (const uint8_t *)"lion", 4, &chance), ATREST_OK);
    unlock.passphrase = (const uint8_t *)"lion";
    unlock.passphrase_len = 4;
    secret ^= 1;
    EXPECT(atrest_flash_open(&flash, &medium, &unlock), ATREST_PASSPHRASE);
    secret ^= 1;
    EXPECT(atrest_flash_open(&flash, &medium, &unlock), ATREST_OK);
    EXPECT(atrest_flash_prog(&flash, 0, text, sizeof text), ATREST_OK);
    atrest_flash_close(&flash);
    format.replace = 1;
    EXPECT(atrest_flash_format(&medium, &unlock, &format, &chance), ATREST_OK);
    EXPECT(atrest_flash_open(&flash, &medium, &unlock), ATREST_OK);
    EXPECT(atrest_flash_read(&flash, 0, text, sizeof text), ATREST_OK);
    EXPECT(memcmp(text, "to be hidden", 12) != 0, 1);
    atrest_flash_close(&flash);

    struct atrest_key own = {ATREST_AES_XTS, volume_key, 32, NULL};
    erase_world();
    EXPECT(atrest_flash_open_key(&flash, &medium, NULL, 512, buffer, 512), ATREST_ARGUMENT);
    EXPECT(atrest_flash_open_key(&flash, NULL, &own, 512, buffer, 512), ATREST_ARGUMENT);
    EXPECT(atrest_flash_open_key(&flash, &medium, &own, 512, NULL, 512), ATREST_ARGUMENT);
    EXPECT(atrest_flash_open_key(&flash, &medium, &own, 512, buffer, PROG - 1), ATREST_MEMORY);
    EXPECT(atrest_flash_open_key(&flash, &medium, &own, 500, buffer, 512), ATREST_OPTION);
    own.len = 31;
    EXPECT(atrest_flash_open_key(&flash, &medium, &own, 512, buffer, 512), ATREST_KEY_LENGTH);
    own.len = 32;
    own.cipher = ATREST_ASCON128;
    EXPECT(atrest_flash_open_key(&flash, &medium, &own, 512, buffer, 512), ATREST_NOT_HERE);
    own.cipher = ATREST_AES_XTS;
    EXPECT(atrest_flash_open_key(&flash, &medium, &own, 512, buffer, 512), ATREST_OK);
    memset(text, 0x41, sizeof text);
    EXPECT(atrest_flash_prog(&flash, 0, text, sizeof text), ATREST_OK);
    for (int i = 0; i < 32; i++) printf("%02x", world.flash[i]);
    printf("\n");
    atrest_flash_close(&flash);
    static const uint8_t zeros[32];
    own.cipher = ATREST_ADIANTUM12;
    own.bytes = zeros;
    EXPECT(atrest_flash_open_key(&flash, &medium, &own, 512, buffer, 512), ATREST_KEY_LENGTH);
    own.cipher = ATREST_AES_XTS;
    own.bytes = other_key;
    EXPECT(atrest_flash_open_key(&flash, &medium, &own, 512, buffer, 512), ATREST_OK);
    EXPECT(atrest_flash_read(&flash, 0, text, sizeof text), ATREST_OK);
    EXPECT(text[0] == 0x41 && text[1] == 0x41, 0);
    atrest_flash_close(&flash);
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    test_arguments();
    test_attacks();
    test_power_cuts();
    test_pages();
    test_device();
    test_encrypted();
    test_header(argv[1]);
    return failed;
}

/* A program in C that opens a card, which the test beside this file has made, changes it and its passphrase, and erases it. */
#include "atrest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROG 16
#define ERASE 4096
#define BLOCKS 32

static uint8_t flash_bytes[BLOCKS * ERASE];
static struct atrest_flash volume;
static uint8_t buffer[512], other_buffer[512], memory[1 << 16];
static unsigned long syncs, steps;

static int medium_read(void *context, uint64_t address, void *to, size_t size) {
    memcpy(to, (uint8_t *)context + address, size);
    return 0;
}

static int medium_prog(void *context, uint64_t address, const void *data, size_t size) {
    for (size_t i = 0; i < size; i++) {
        if (((uint8_t *)context)[address + i] != 0xff) return 7; /* NOR flash is programmed once */
    }
    memcpy((uint8_t *)context + address, data, size);
    return 0;
}

static int medium_erase(void *context, uint64_t address, uint64_t size) {
    memset((uint8_t *)context + address, 0xff, size);
    return 0;
}

static int medium_sync(void *context) {
    (void)context;
    syncs++;
    return 0;
}

static void step(void *context, uint64_t left) {
    (void)context;
    (void)left;
    steps++;
}

static int random_fill(void *context, void *to, size_t size) {
    for (size_t i = 0; i < size; i++) ((uint8_t *)to)[i] = (uint8_t)((*(unsigned *)context)++ * 167 + 13);
    return 0;
}

static int random_fails(void *context, void *to, size_t size) {
    (void)context;
    (void)to;
    (void)size;
    return -1;
}

/* As littlefs has it: the first member is the context. */
struct lfs_config {
    void *context;
};

static int failed;

static void expect(int line, long got, long wanted) {
    if (got != wanted) {
        printf("line %d: %ld and not %ld (%s)\n", line, got, wanted, atrest_message((int)got));
        failed = 1;
    }
}
#define EXPECT(got, wanted) expect(__LINE__, (got), (wanted))

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    FILE *file = fopen(argv[1], "r+b");
    if (!file || fread(flash_bytes, 1, sizeof flash_bytes, file) != sizeof flash_bytes) return 2;

    struct atrest_medium medium = {flash_bytes, medium_read, medium_prog, medium_erase, medium_sync, 1, PROG, ERASE, 0xff, BLOCKS};
    struct atrest_unlock unlock = {(const uint8_t *)"tiger", 5, buffer, sizeof buffer, memory, sizeof memory, step, NULL, NULL};
    struct atrest_geometry geometry;
    uint8_t text[512], written[512] = "written in C, to be read in Rust";

    /* What can't be opened, is not. */
    EXPECT(atrest_flash_read(&volume, 0, text, 16), ATREST_CLOSED);
    EXPECT(atrest_flash_open(NULL, &medium, &unlock), ATREST_ARGUMENT);
    struct atrest_medium half = medium;
    half.erase = NULL;
    EXPECT(atrest_flash_open(&volume, &half, &unlock), ATREST_ARGUMENT);
    half = medium;
    half.block_count = BLOCKS / 2;
    EXPECT(atrest_flash_open(&volume, &half, &unlock), ATREST_GEOMETRY);
    half = medium;
    half.erase_size = 2 * ERASE;
    half.block_count = BLOCKS / 2;
    EXPECT(atrest_flash_open(&volume, &half, &unlock), ATREST_GEOMETRY);
    unlock.passphrase = (const uint8_t *)"tigre";
    EXPECT(atrest_flash_open(&volume, &medium, &unlock), ATREST_PASSPHRASE);
    unlock.passphrase_len = 0;
    EXPECT(atrest_flash_open(&volume, &medium, &unlock), ATREST_PASSPHRASE_LENGTH);
    unlock.passphrase = (const uint8_t *)"tiger";
    unlock.passphrase_len = 5;
    unlock.buffer_len = 8;
    EXPECT(atrest_flash_open(&volume, &medium, &unlock), ATREST_MEMORY);
    unlock.buffer_len = sizeof buffer;
    unlock.kdf_memory = NULL;
    unlock.kdf_memory_len = 0;
    EXPECT(atrest_flash_open(&volume, &medium, &unlock), ATREST_MEMORY);
    unlock.kdf_memory = memory;
    unlock.kdf_memory_len = sizeof memory;
    EXPECT(atrest_flash_is_blank(&volume, 0, 16), ATREST_CLOSED);

    /* What the test has left is there, and what is put there stays. */
    EXPECT(atrest_flash_open(&volume, &medium, &unlock), ATREST_OK);
    EXPECT(atrest_flash_open(&volume, &medium, &unlock), ATREST_ARGUMENT);
    EXPECT(steps > 0, 1);
    EXPECT(atrest_flash_geometry(&volume, &geometry), ATREST_OK);
    EXPECT(geometry.prog_size == PROG || geometry.prog_size == 512, 1);
    EXPECT(geometry.block_count, BLOCKS - 2);
    EXPECT(atrest_flash_read(&volume, ERASE, text, 512), ATREST_OK);
    EXPECT(memcmp(text, "written in Rust, to be read in C", 32), 0);
    EXPECT(atrest_flash_prog(&volume, 3, text, 16), ATREST_ARGUMENT);
    EXPECT(atrest_flash_read(&volume, (uint64_t)geometry.block_count * ERASE, text, 512), ATREST_ARGUMENT);
    EXPECT(atrest_flash_read(&volume, 0, NULL, 512), ATREST_ARGUMENT);

    struct lfs_config config = {&volume};
    EXPECT(atrest_lfs_read(&config, 1, 0, text, 512), 0);
    EXPECT(memcmp(text, "written in Rust, to be read in C", 32), 0);
    EXPECT(atrest_lfs_erase(&config, 1), 0);
    EXPECT(atrest_flash_is_blank(&volume, ERASE, ERASE), 1);
    EXPECT(atrest_lfs_prog(&config, 1, 512, written, 512), 0);
    EXPECT(atrest_flash_is_blank(&volume, ERASE, ERASE), 0);
    EXPECT(atrest_lfs_prog(&config, 1, 512, written, 512), -84);
    EXPECT(atrest_lfs_prog(&config, BLOCKS, 0, written, 512), -22);
    EXPECT(syncs > 0, 1);
    EXPECT(atrest_lfs_sync(&config), 0);

    /* Another passphrase, with the volume still open. */
    unsigned seed = 1;
    struct atrest_random random = {&seed, random_fails};
    struct atrest_unlock change = unlock;
    change.buffer = other_buffer;
    EXPECT(atrest_flash_change_passphrase(&medium, &change, (const uint8_t *)"lion", 4, &random), ATREST_RANDOM);
    random.fill = random_fill;
    EXPECT(atrest_flash_change_passphrase(&medium, &change, (const uint8_t *)"lion", 0, &random), ATREST_PASSPHRASE_LENGTH);
    EXPECT(atrest_flash_change_passphrase(&medium, &change, (const uint8_t *)"lion", 4, &random), ATREST_OK);
    EXPECT(atrest_lfs_read(&config, 1, 512, text, 512), 0);
    EXPECT(memcmp(text, "written in C, to be read in Rust", 32), 0);
    atrest_flash_close(&volume);
    atrest_flash_close(&volume);
    EXPECT(atrest_lfs_read(&config, 1, 512, text, 512), -22);
    EXPECT(atrest_flash_open(&volume, &medium, &unlock), ATREST_PASSPHRASE);
    unlock.passphrase = (const uint8_t *)"lion";
    unlock.passphrase_len = 4;
    EXPECT(atrest_flash_open(&volume, &medium, &unlock), ATREST_OK);
    atrest_flash_close(&volume);

    rewind(file);
    if (fwrite(flash_bytes, 1, sizeof flash_bytes, file) != sizeof flash_bytes || fclose(file)) return 2;

    /* Not for the test to see. */
    EXPECT(atrest_flash_destroy_keys(&medium, buffer, sizeof buffer), ATREST_OK);
    EXPECT(atrest_flash_open(&volume, &medium, &unlock), ATREST_NO_KEYS);
    memset(flash_bytes, 0xff, sizeof flash_bytes);
    EXPECT(atrest_flash_open(&volume, &medium, &unlock), ATREST_NO_HEADER);
    return failed;
}

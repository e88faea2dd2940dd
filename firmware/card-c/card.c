/*
 * A card in C: littlefs on encrypted flash, as firmware/card is in Rust. Opens a card that `atrest format --type flash` or
 * `atrest image` has made, reads and writes files, changes the passphrase, or destroys the keys, whatever the task says.
 * There is no heap: everything that is lent to atrest and to littlefs is a static here.
 */
#include "atrest.h"
#include "board.h"
#include "lfs.h"

enum { READ = 16, PROG = 16, ERASE = 4096, BLOCKS = 64 };

static struct atrest_flash volume;
/* 8 KiB, for Catena with a garlic of 8. A board with RAM to spare takes a garlic of 12, 128 KiB. */
static uint8_t kdf_memory[8 << 10];
static uint8_t volume_buffer[256], header_buffer[PROG];
static uint32_t watchdog;

/* Ends the program if something went wrong, and says what. */
static void check(const char *what, int status) {
    if (status < 0) {
        board_text(what);
        board_text(": ");
        board_text(atrest_message(status));
        board_text("\n");
        board_exit(1);
    }
}

/* littlefs has numbers of its own. */
static int checked(const char *what, int result) {
    if (result < 0) {
        board_figure(what, 0, (uint32_t)-result);
        board_exit(1);
    }
    return result;
}

/* The flash. A real board has a driver here; this one has memory with the rules of NOR. */

static int flash_read(void *context, uint64_t address, void *buffer, size_t size) {
    memcpy(buffer, (uint8_t *)context + address, size);
    return 0;
}

static int flash_prog(void *context, uint64_t address, const void *data, size_t size) {
    uint8_t *units = (uint8_t *)context + address;
    for (size_t i = 0; i < size; i++) {
        if (units[i] != 0xff) return -1;
    }
    memcpy(units, data, size);
    return 0;
}

static int flash_erase(void *context, uint64_t address, uint64_t size) {
    memset((uint8_t *)context + address, 0xff, size);
    return 0;
}

static const struct atrest_medium medium = {
    .context = (void *)BOARD_MEDIUM,
    .read = flash_read,
    .prog = flash_prog,
    .erase = flash_erase,
    .read_size = READ,
    .prog_size = PROG,
    .erase_size = ERASE,
    .erased_byte = 0xff,
    .block_count = BLOCKS,
};

static void feed_watchdog(void *context, uint64_t left) {
    (void)context;
    (void)left;
    watchdog++;
}

static struct atrest_unlock passphrase(const struct text *text, uint8_t *buffer, size_t buffer_len) {
    return (struct atrest_unlock){
        .passphrase = text->bytes,
        .passphrase_len = text->len,
        .buffer = buffer,
        .buffer_len = buffer_len,
        .kdf_memory = kdf_memory,
        .kdf_memory_len = sizeof kdf_memory,
        .between = feed_watchdog,
    };
}

/* A board's random source: here bytes of the host's. Fails when they are used up. */
static int entropy_fill(void *context, void *buffer, size_t size) {
    uint32_t *used = context;
    if (size > sizeof BOARD_TASK->entropy - *used) return -1;
    memcpy(buffer, BOARD_TASK->entropy + *used, size);
    *used += size;
    return 0;
}

static void use_files(void) {
    struct atrest_unlock unlock = passphrase(&BOARD_TASK->passphrase, volume_buffer, sizeof volume_buffer);
    check("open", atrest_flash_open(&volume, &medium, &unlock));
    struct atrest_geometry geometry;
    check("geometry", atrest_flash_geometry(&volume, &geometry));

    static uint32_t read_cache[64], prog_cache[64], file_cache[64], lookahead[2]; /* words: littlefs wants them aligned */
    struct lfs_config config = {
        .context = &volume,
        .read = atrest_lfs_read,
        .prog = atrest_lfs_prog,
        .erase = atrest_lfs_erase,
        .sync = atrest_lfs_sync,
        .read_size = geometry.read_size,
        .prog_size = geometry.prog_size,
        .block_size = geometry.erase_size,
        .block_count = (lfs_size_t)geometry.block_count, /* those behind the header */
        .block_cycles = 500,
        .cache_size = sizeof read_cache,
        .lookahead_size = sizeof lookahead,
        .disk_version = 0x00020000, /* what the desk's program makes, and older firmware reads */
        .read_buffer = read_cache,
        .prog_buffer = prog_cache,
        .lookahead_buffer = lookahead,
    };
    struct lfs_file_config file_config = {.buffer = file_cache};
    static lfs_t lfs;
    static lfs_file_t file;
    checked("mount", lfs_mount(&lfs, &config));

    uint8_t part[100];
    uint32_t len = 0, sum = 0x811c9dc5;
    checked("open file", lfs_file_opencfg(&lfs, &file, "/from the desk.bin", LFS_O_RDONLY, &file_config));
    for (int count; (count = checked("read", lfs_file_read(&lfs, &file, part, sizeof part))) > 0; len += count) {
        for (int i = 0; i < count; i++) sum = (sum ^ part[i]) * 0x01000193;
    }
    checked("close", lfs_file_close(&lfs, &file));
    board_figure("read", len, sum);

    static const char text[] = "written in C";
    checked("rename", lfs_rename(&lfs, "/from the desk.bin", "/read.bin"));
    checked("create", lfs_file_opencfg(&lfs, &file, "/from the chip.txt", LFS_O_WRONLY | LFS_O_CREAT, &file_config));
    checked("write", lfs_file_write(&lfs, &file, text, sizeof text - 1));
    checked("close", lfs_file_close(&lfs, &file));
    checked("unmount", lfs_unmount(&lfs));
    atrest_flash_close(&volume);
}

static void change_passphrase(void) {
    static uint32_t used;
    const struct atrest_random random = {.context = &used, .fill = entropy_fill};
    const struct text *new = &BOARD_TASK->new_passphrase;
    struct atrest_unlock unlock = passphrase(&BOARD_TASK->passphrase, header_buffer, sizeof header_buffer);
    check("change", atrest_flash_change_passphrase(&medium, &unlock, new->bytes, new->len, &random));
}

/* Whoever holds the card may do so: no passphrase is asked for. */
static void destroy_keys(void) {
    struct atrest_unlock unlock = passphrase(&BOARD_TASK->passphrase, volume_buffer, sizeof volume_buffer);
    check("destroy", atrest_flash_destroy_keys(&medium, header_buffer, sizeof header_buffer));
    if (atrest_flash_open(&volume, &medium, &unlock) != ATREST_NO_KEYS) board_exit(1);
}

int main(void) {
    switch (BOARD_TASK->verb) {
    case 'u': use_files(); break;
    case 'c': change_passphrase(); break;
    case 'e': destroy_keys(); break;
    default: board_exit(1);
    }
    board_figure("watchdog", 0, watchdog);
    board_save("card.out", (const void *)BOARD_MEDIUM, BLOCKS * ERASE);
    board_exit(0);
}

/*
 * Sealed files in C: littlefs on sealed flash, whose key comes from the chip's secret and whose trusted store is two pages of the
 * controller's own flash. It starts a few times, as after power losses, and then an attacker has the flash chip in his hands.
 * There is no heap: everything that is lent to atrest and to littlefs is a static here.
 */
#include "atrest.h"
#include "board.h"
#include "lfs.h"

enum { PROG = 16, ERASE = 4096, BLOCKS = 32, PAGES = 2, PAYLOAD = 424 };

static struct atrest_sealed volume;
static uint8_t table[BLOCKS * ATREST_BLOCK_STATE], unit[512];

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
static void checked(const char *what, int result) {
    if (result < 0) {
        board_figure(what, 0, (uint32_t)-result);
        board_exit(1);
    }
}

/* Flash. A real board has two drivers here, for the chip and for the controller's own; this one has memory with the rules of NOR. */

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

static struct atrest_medium flash_of(uint8_t *bytes, uint64_t block_count) {
    return (struct atrest_medium){
        .context = bytes,
        .read = flash_read,
        .prog = flash_prog,
        .erase = flash_erase,
        .read_size = 1,
        .prog_size = PROG,
        .erase_size = ERASE,
        .erased_byte = 0xff,
        .block_count = block_count,
    };
}

#define CHIP ((uint8_t *)BOARD_MEDIUM)
#define OWN (CHIP + BLOCKS * ERASE)

/* The chip's HMAC peripheral has its key in fuses. Here stands what one board would compute, and a real one calls its driver. */
static int fuses_hmac(void *context, const uint8_t message[56], uint8_t mac[32]) {
    (void)context;
    for (int i = 0; i < 32; i++) mac[i] = (uint8_t)(message[i] ^ message[i + 24] ^ BOARD_TASK->entropy[i]);
    return 0;
}

/* A board's random source: here bytes of the host's. */
static int entropy_fill(void *context, void *buffer, size_t size) {
    uint32_t *used = context;
    if (size > sizeof BOARD_TASK->entropy - *used) return -1;
    memcpy(buffer, BOARD_TASK->entropy + *used, size);
    *used += size;
    return 0;
}

/* Opens the volume. Makes one only where the store is empty, and never because one does not open. */
static int open_volume(int *is_new) {
    static const uint8_t uuid[16] = "recorder, no. 1", label[] = "recorder, ascon";
    static uint32_t used = 32;
    static struct atrest_medium chip, own;
    const struct atrest_device fuses = {.hmac = fuses_hmac};
    const struct atrest_random random = {&used, entropy_fill};
    const struct atrest_store store = {.pages = &own};
    const struct atrest_sealed_options options = {.payload = PAYLOAD};
    const struct atrest_sealed_memory memory = {table, sizeof table, unit, sizeof unit};
    uint8_t bytes[32];
    chip = flash_of(CHIP, BLOCKS);
    own = flash_of(OWN, PAGES);
    check("key", atrest_device_key(&fuses, label, sizeof label, uuid, bytes, sizeof bytes));
    const struct atrest_key key = {ATREST_ASCON128, bytes, sizeof bytes, uuid};
    int status = atrest_sealed_open(&volume, &chip, &store, &key, &options, &memory, &random);
    *is_new = status == ATREST_STORE_EMPTY;
    if (*is_new) status = atrest_sealed_format(&volume, &chip, &store, &key, &options, &memory, &random);
    memset(bytes, 0, sizeof bytes);
    return status;
}

/* A start: counts in a file. */
static void start(int power_fails) {
    static uint32_t read_cache[PAYLOAD / 4], prog_cache[PAYLOAD / 4], file_cache[PAYLOAD / 4], lookahead[2];
    static lfs_t lfs;
    static lfs_file_t file;
    int is_new;
    check("open", open_volume(&is_new));
    struct atrest_geometry geometry;
    check("geometry", atrest_sealed_geometry(&volume, &geometry));
    struct lfs_config config = {
        .context = &volume,
        .read = atrest_sealed_lfs_read,
        .prog = atrest_sealed_lfs_prog,
        .erase = atrest_sealed_lfs_erase,
        .sync = atrest_sealed_lfs_sync,
        .read_size = geometry.read_size,
        .prog_size = geometry.prog_size,
        .block_size = geometry.erase_size,
        .block_count = (lfs_size_t)geometry.block_count,
        .block_cycles = 500,
        .cache_size = sizeof read_cache,
        .lookahead_size = sizeof lookahead,
        .read_buffer = read_cache,
        .prog_buffer = prog_cache,
        .lookahead_buffer = lookahead,
    };
    struct lfs_file_config file_config = {.buffer = file_cache};
    if (is_new) checked("format", lfs_format(&lfs, &config));
    checked("mount", lfs_mount(&lfs, &config));
    uint32_t count = 0;
    checked("file", lfs_file_opencfg(&lfs, &file, "starts", LFS_O_RDWR | LFS_O_CREAT, &file_config));
    checked("read", lfs_file_read(&lfs, &file, &count, sizeof count));
    count++;
    checked("rewind", lfs_file_rewind(&lfs, &file));
    checked("write", lfs_file_write(&lfs, &file, &count, sizeof count));
    checked("close", lfs_file_close(&lfs, &file));
    /* From here on nobody can take the count back. */
    check("anchor", atrest_sealed_anchor(&volume));
    board_figure("start", is_new, count);
    if (power_fails) {
        memset(&volume, 0, sizeof volume);
        return;
    }
    checked("unmount", lfs_unmount(&lfs));
    check("close", atrest_sealed_close(&volume));
}

/* What an attacker does is refused, and in words. */
static void refused(const char *what) {
    int is_new;
    int status = open_volume(&is_new);
    board_text(what);
    board_text(": ");
    board_text(atrest_message(status));
    board_text("\n");
    if (status == ATREST_OK) board_exit(1);
}

int main(void) {
    static uint8_t earlier[BLOCKS * ERASE];
    memset(CHIP, 0xff, (BLOCKS + PAGES) * ERASE);
    start(0);
    start(1);
    memcpy(earlier, CHIP, sizeof earlier);
    start(0);
    start(0);
    for (int i = 0; i < BLOCKS * ERASE; i++) {
        uint8_t now = CHIP[i];
        CHIP[i] = earlier[i];
        earlier[i] = now;
    }
    refused("an earlier state");
    memcpy(CHIP, earlier, sizeof earlier);
    memset(CHIP, 0xff, BLOCKS * ERASE);
    refused("an erased chip");
    memcpy(CHIP, earlier, sizeof earlier);
    start(0);
    board_exit(0);
}

/*
 * Encrypted flash for C: between a flash driver and littlefs or whatever else reads, programs and erases.
 *
 * The card is formatted by the atrest program (`atrest format card.img --type flash`), here it is opened. Nothing allocates.
 * All memory is the caller's, and one volume is used by one thread at a time.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef ATREST_H
#define ATREST_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What functions return. atrest_message() has it in words. */
enum atrest_status {
    ATREST_OK = 0,
    ATREST_MEDIUM = -1,
    ATREST_ARGUMENT = -2,
    ATREST_NO_HEADER = -3,
    ATREST_DAMAGED = -4,
    ATREST_VERSION = -5,
    ATREST_GEOMETRY = -6,
    ATREST_PASSPHRASE = -7,
    ATREST_PASSPHRASE_LENGTH = -8,
    ATREST_NO_KEYS = -9,
    ATREST_NOT_HERE = -10,
    ATREST_MEMORY = -11,
    ATREST_DEVICE = -12,
    ATREST_RANDOM = -13,
    ATREST_CORRUPT = -14,
    ATREST_NOT_WRITTEN = -15,
    ATREST_OLD_COPY_REMAINS = -16,
    ATREST_CLOSED = -17,
    ATREST_NOT_REWRITTEN = -18,
};

/* A text in ASCII that is always there. */
const char *atrest_message(int status);

/*
 * A flash driver. Addresses and sizes are bytes, and multiples of what the sizes say. A function transfers everything and
 * returns 0, or returns -84 (LFS_ERR_CORRUPT) for a block that is worn out or can't be read, or anything else.
 */
struct atrest_medium {
    void *context; /* given to each function */
    int (*read)(void *context, uint64_t address, void *buffer, size_t size);
    int (*prog)(void *context, uint64_t address, const void *data, size_t size);
    int (*erase)(void *context, uint64_t address, uint64_t size);
    int (*sync)(void *context); /* NULL where programs and erases are durable when they return */
    uint32_t read_size;
    uint32_t prog_size;
    uint32_t erase_size;
    int erased_byte; /* what blank flash reads as: 0xff; -1 where that can't be told from data */
    uint64_t block_count;
};

/* A passphrase, and the memory that opening a volume takes. Zero it before filling it in. */
struct atrest_unlock {
    const uint8_t *passphrase; /* 1 to 4096 bytes */
    size_t passphrase_len;
    uint8_t *buffer; /* a prog unit at least, with Adiantum a data unit (512); lent until the volume is closed */
    size_t buffer_len;
    uint8_t *kdf_memory; /* Catena's work area (128 KiB for a garlic of 12), wiped after use; NULL for PBKDF2 */
    size_t kdf_memory_len;
    void (*between)(void *context, uint64_t left); /* called every few milliseconds, for a watchdog; may be NULL */
    void *between_context;
};

/* A volume. Zeroed before it is opened for the first time (a static is), and not moved while it is open. */
#if UINTPTR_MAX > 0xffffffff
#define ATREST_FLASH_WORDS 1024
#else
#define ATREST_FLASH_WORDS 384
#endif
struct atrest_flash {
    uint64_t opaque[ATREST_FLASH_WORDS];
};

struct atrest_geometry {
    uint32_t read_size;
    uint32_t prog_size;
    uint32_t erase_size;
    uint64_t block_count;
};

/* Opens a volume: reads the header, derives a key from the passphrase. Nothing is written. */
int atrest_flash_open(struct atrest_flash *flash, const struct atrest_medium *medium, const struct atrest_unlock *unlock);
/* Closes it, and wipes its keys. */
void atrest_flash_close(struct atrest_flash *flash);

/* What littlefs is to be configured with. The blocks are those behind the header. */
int atrest_flash_geometry(struct atrest_flash *flash, struct atrest_geometry *geometry);

int atrest_flash_read(struct atrest_flash *flash, uint64_t address, void *buffer, size_t size);
int atrest_flash_prog(struct atrest_flash *flash, uint64_t address, const void *data, size_t size);
int atrest_flash_erase(struct atrest_flash *flash, uint64_t address, uint64_t size);
int atrest_flash_sync(struct atrest_flash *flash);
/* 1 if all prog units are blank, 0 if not, or a status. */
int atrest_flash_is_blank(struct atrest_flash *flash, uint64_t address, uint64_t size);

/* A random source: fills the buffer and returns 0, or fails. */
struct atrest_random {
    void *context;
    int (*fill)(void *context, void *buffer, size_t size);
};

/*
 * Changes the passphrase of the keyslot that `unlock` opens, at the cost that it has. Whenever power fails, the old one opens it
 * or the new one. The volume may be open, with a buffer of its own.
 */
int atrest_flash_change_passphrase(const struct atrest_medium *medium, const struct atrest_unlock *unlock,
                                   const uint8_t *passphrase, size_t passphrase_len, const struct atrest_random *random);
/* Destroys every key: nobody reads what is on the medium any more. The buffer has room for a prog unit. */
int atrest_flash_destroy_keys(const struct atrest_medium *medium, uint8_t *buffer, size_t buffer_len);

/* The functions of struct lfs_config (littlefs), whose `context` points to an open struct atrest_flash. */
struct lfs_config;
int atrest_lfs_read(const struct lfs_config *config, uint32_t block, uint32_t offset, void *buffer, uint32_t size);
int atrest_lfs_prog(const struct lfs_config *config, uint32_t block, uint32_t offset, const void *data, uint32_t size);
int atrest_lfs_erase(const struct lfs_config *config, uint32_t block);
int atrest_lfs_sync(const struct lfs_config *config);

#ifdef __cplusplus
}
#endif

#endif

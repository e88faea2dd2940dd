/*
 * Encrypted and sealed flash for C and C++: between a flash driver and littlefs or whatever else reads, programs and erases.
 *
 * Encrypted flash (atrest_flash_...) hides what it holds. Sealed flash (atrest_sealed_...) also refuses what was changed, moved or
 * put back; it takes a trusted store of 80 bytes that nobody else can write. Volumes have a header, which a passphrase opens and which
 * the atrest program knows (`atrest format card.img --type flash`), or none, and a key of yours.
 *
 * Nothing allocates. All memory is the caller's, and one volume is used by one thread at a time. Structs that are filled in are zeroed
 * first: members that later versions add then have their defaults.
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
    ATREST_NOT_BLANK = -19,
    ATREST_KEY_LENGTH = -20,
    ATREST_OPTION = -21,
    ATREST_STORE = -22,
    ATREST_STORE_EMPTY = -23,
    ATREST_STORE_DAMAGED = -24,
    ATREST_STORE_IN_USE = -25,
    ATREST_STORE_SIZE = -26,
    ATREST_OTHER_VOLUME = -27,
    ATREST_NOT_ANCHORED = -28,
    ATREST_STORE_OLDER = -29,
    ATREST_HEADER_OLDER = -30,
    ATREST_HEADER_OTHER = -31,
    ATREST_HANDED_OVER = -32,
    ATREST_TAMPERED = -33,
    ATREST_STOPPED = -34,
    ATREST_WORN_OUT = -35,
    ATREST_KEY_IN_USE = -36,
    ATREST_NOT_SEALED = -37,
    ATREST_STORE_NEEDED = -38,
    ATREST_NO_MAP = -39
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

/* Ciphers, by their numbers in headers. Each is there if the library was built with it. */
enum atrest_cipher {
    ATREST_AES_XTS = 1, /* encrypted flash: keys of 32, 48 or 64 bytes */
    ATREST_ADIANTUM12 = 2, /* 32 */
    ATREST_ASCON128 = 129, /* sealed flash: 16 to 64 */
    ATREST_CHACHA20_POLY1305 = 130, /* 32 to 64 */
    ATREST_AES_CCM = 131, /* 16 or 32 */
    ATREST_AES_GCM = 132 /* 16 or 32 */
};

/* A secret that never leaves the chip. One of the two functions is there; it returns 0, or fails. */
struct atrest_device {
    void *context;
    int (*hmac)(void *context, const uint8_t message[56], uint8_t mac[32]); /* HMAC-SHA-256 */
    int (*cmac)(void *context, const uint8_t message[57], uint8_t mac[16]); /* AES-CMAC, where there is no HMAC */
};

/*
 * Derives a key of up to 64 bytes from it. Another label, identifier or length gives another key. The identifier is not all zeros, and a
 * new one for each volume. After an error the key is not touched.
 */
int atrest_device_key(const struct atrest_device *device, const uint8_t *label, size_t label_len, const uint8_t uuid[16],
                      uint8_t *key, size_t key_len);

/* A key of yours. It is not kept: wipe it when the call has returned. */
struct atrest_key {
    int cipher; /* of enum atrest_cipher */
    const uint8_t *bytes;
    size_t len;
    const uint8_t *uuid; /* 16 bytes, not all zeros; with the key never used for two sealed volumes. NULL for encrypted flash */
};

/* A random source: fills the buffer and returns 0, or fails. */
struct atrest_random {
    void *context;
    int (*fill)(void *context, void *buffer, size_t size);
};

/* A passphrase, and the memory that opening a volume takes. */
struct atrest_unlock {
    const uint8_t *passphrase; /* 1 to 4096 bytes */
    size_t passphrase_len;
    uint8_t *buffer; /* a prog unit at least, with Adiantum a data unit (512); lent until the volume is closed */
    size_t buffer_len;
    uint8_t *kdf_memory; /* Catena's work area (128 KiB for a garlic of 12), wiped after use; NULL for PBKDF2 */
    size_t kdf_memory_len;
    void (*between)(void *context, uint64_t left); /* called every few milliseconds, for a watchdog; may be NULL */
    void *between_context;
    const struct atrest_device *device; /* for keyslots that need the chip's secret, also when they are made; NULL otherwise */
};

/* What a new volume is to be. */
struct atrest_format {
    int cipher; /* of enum atrest_cipher */
    uint32_t key_len; /* bytes in the volume key; 0: the shortest */
    uint32_t data_unit; /* encrypted flash: 512, 1024, 2048 or 4096 bytes under one tweak; 0: 512 */
    uint32_t iterations; /* of PBKDF2; or 0, and */
    uint8_t garlic; /* of Catena, 12 takes 128 KiB; or 0 */
    uint8_t replace; /* 1: what is there is given up, a volume too. Otherwise formatting refuses what is not blank */
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

/* Makes a volume with a header, which the passphrase opens. After it open the volume, and make a file system. */
int atrest_flash_format(const struct atrest_medium *medium, const struct atrest_unlock *unlock, const struct atrest_format *format,
                        const struct atrest_random *random);
/* Opens a volume: reads the header, derives a key from the passphrase. Nothing is written. */
int atrest_flash_open(struct atrest_flash *flash, const struct atrest_medium *medium, const struct atrest_unlock *unlock);
/* Opens a volume without a header: the whole medium, under a key of yours. Any key opens it; with the wrong one all reads as garbage. */
int atrest_flash_open_key(struct atrest_flash *flash, const struct atrest_medium *medium, const struct atrest_key *key,
                          uint32_t data_unit, uint8_t *buffer, size_t buffer_len);
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

/*
 * Where the record of a sealed volume is kept: memory that an attacker can't write, nor put an older state of back. Either `pages`, two
 * erase blocks or more of the controller's own flash, for which the rest is done here; or two functions.
 *
 * `load` copies the record that was stored last and returns 0, or ATREST_STORE_EMPTY if there has never been one, or
 * ATREST_STORE_DAMAGED if something is there that is no whole record. `store` replaces the record and returns 0 when the new one is
 * durable; a power loss leaves the old one or the new one. Whatever else they return is a failure.
 */
#define ATREST_RECORD_LEN 80
struct atrest_store {
    const struct atrest_medium *pages; /* prog units of at most 256 bytes; or NULL */
    void *context;
    int (*load)(void *context, uint8_t record[ATREST_RECORD_LEN]);
    int (*store)(void *context, const uint8_t record[ATREST_RECORD_LEN]);
};

/* Zeros are the defaults, and NULL in their place, too. A header knows payload and tickets itself. docs/SEALED-FLASH.md has the rest. */
struct atrest_sealed_options {
    uint32_t payload; /* bytes of a unit, about; 0: 252. As at formatting */
    uint32_t anchor_every; /* the store is written on every so many syncs; 0: on each */
    uint8_t reserve; /* 2 to this power serials before the store is written; 0: 12 */
    uint8_t tickets; /* 1: erases are announced in the store, 0: in blocks. As at formatting */
    uint8_t medium; /* of enum atrest_sealed_medium */
    uint8_t verify_at_opening; /* 1: all units are verified at opening, 0: when they are read */
    uint8_t no_read_back; /* 1: what is programmed is not read back */
};

enum atrest_sealed_medium {
    ATREST_ORDERED = 0, /* programs and erases are durable in the order in which they return */
    ATREST_CACHED = 1, /* a cache may lose any of them before the next sync */
    ATREST_CARD = 2 /* the same, and erasing need not change anything */
};

/* Memory that a sealed volume works in, lent until it is closed. atrest_sealed_sizes() says how much. */
#define ATREST_BLOCK_STATE 14
struct atrest_sealed_memory {
    void *table; /* ATREST_BLOCK_STATE bytes for each erase block */
    size_t table_len;
    uint8_t *buffer; /* a unit */
    size_t buffer_len;
};

struct atrest_sealed_sizes {
    size_t table_len;
    size_t buffer_len;
    struct atrest_geometry geometry; /* of the volume: what littlefs is to be configured with */
};

/* A sealed volume. Zeroed before it is opened for the first time (a static is), and not moved while it is open. */
#if UINTPTR_MAX > 0xffffffff
#define ATREST_SEALED_WORDS 512
#else
#define ATREST_SEALED_WORDS 384
#endif
struct atrest_sealed {
    uint64_t opaque[ATREST_SEALED_WORDS];
};

/* What a volume on this medium takes and has. Behind a header it has fewer blocks. */
int atrest_sealed_sizes(const struct atrest_medium *medium, const struct atrest_sealed_options *options,
                        struct atrest_sealed_sizes *sizes);

/*
 * Makes an empty volume, and opens it. If the store holds a record this is ATREST_STORE_IN_USE. Make a volume where the store is
 * empty, and never because one does not open: that may be an attack, and formatting would do the attacker's work.
 */
int atrest_sealed_format(struct atrest_sealed *sealed, const struct atrest_medium *medium, const struct atrest_store *store,
                         const struct atrest_key *key, const struct atrest_sealed_options *options,
                         const struct atrest_sealed_memory *memory, const struct atrest_random *random);
/* Opens a volume. Nothing is changed where it is refused. */
int atrest_sealed_open(struct atrest_sealed *sealed, const struct atrest_medium *medium, const struct atrest_store *store,
                       const struct atrest_key *key, const struct atrest_sealed_options *options,
                       const struct atrest_sealed_memory *memory, const struct atrest_random *random);
/* The same with a header, which a passphrase opens. `unlock` is lent during the call. If the power fails while a volume is made, the
 * header may be there and the store empty: then make it again, with `replace`. */
int atrest_sealed_format_header(struct atrest_sealed *sealed, const struct atrest_medium *medium, const struct atrest_store *store,
                                const struct atrest_unlock *unlock, const struct atrest_format *format,
                                const struct atrest_sealed_options *options, const struct atrest_sealed_memory *memory,
                                const struct atrest_random *random);
int atrest_sealed_unlock(struct atrest_sealed *sealed, const struct atrest_medium *medium, const struct atrest_store *store,
                         const struct atrest_unlock *unlock, const struct atrest_sealed_options *options,
                         const struct atrest_sealed_memory *memory, const struct atrest_random *random);
/* Closes it in good order before power is switched off, and wipes its keys, whatever comes of it. Without it, or if it fails, the
 * next opening finds the volume as after a power loss. */
int atrest_sealed_close(struct atrest_sealed *sealed);

int atrest_sealed_geometry(struct atrest_sealed *sealed, struct atrest_geometry *geometry);
/* Whole units. After ATREST_TAMPERED the buffer holds no data of the unit that failed. */
int atrest_sealed_read(struct atrest_sealed *sealed, uint64_t address, void *buffer, size_t size);
/* Whole units, the next one of a block first. */
int atrest_sealed_prog(struct atrest_sealed *sealed, uint64_t address, const void *data, size_t size);
int atrest_sealed_erase(struct atrest_sealed *sealed, uint64_t address, uint64_t size);
int atrest_sealed_sync(struct atrest_sealed *sealed);
/* From now on nobody can undo what was written before. */
int atrest_sealed_anchor(struct atrest_sealed *sealed);
/* 1 if all units can be programmed, 0 if not, or a status. */
int atrest_sealed_is_blank(struct atrest_sealed *sealed, uint64_t address, uint64_t size);
/* ATREST_OK; ATREST_TAMPERED if units failed, which stops nothing; ATREST_STOPPED if nothing is written any more. */
int atrest_sealed_health(struct atrest_sealed *sealed);

/* As for encrypted flash, while the volume is closed. The store hears of the new header. */
int atrest_sealed_change_passphrase(const struct atrest_medium *medium, const struct atrest_store *store,
                                    const struct atrest_unlock *unlock, const uint8_t *passphrase, size_t passphrase_len,
                                    const struct atrest_random *random);
/* Where the store is missing, atrest_flash_destroy_keys() does it without. */
int atrest_sealed_destroy_keys(const struct atrest_medium *medium, const struct atrest_store *store, uint8_t *buffer,
                               size_t buffer_len);

/* The functions of struct lfs_config, whose `context` points to an open struct atrest_sealed. Its caches are as long as a unit, or
 * a multiple of one. */
int atrest_sealed_lfs_read(const struct lfs_config *config, uint32_t block, uint32_t offset, void *buffer, uint32_t size);
int atrest_sealed_lfs_prog(const struct lfs_config *config, uint32_t block, uint32_t offset, const void *data, uint32_t size);
int atrest_sealed_lfs_erase(const struct lfs_config *config, uint32_t block);
int atrest_sealed_lfs_sync(const struct lfs_config *config);

/*
 * Internal Trusted Storage on a sealed volume: data under numbers, with the semantics and status codes of the PSA Certified Secure
 * Storage API 1.0. psa/psa_its.c has its functions under their own names, for one caller; `caller` keeps several apart.
 */
#if UINTPTR_MAX > 0xffffffff
#define ATREST_ITS_WORDS 160
#else
#define ATREST_ITS_WORDS 128
#endif
struct atrest_its {
    uint64_t opaque[ATREST_ITS_WORDS]; /* zeroed before it is opened for the first time, and not moved while it is open */
};

struct atrest_its_entry {
    uint32_t opaque[5];
};

/* Memory is lent until the storage is closed. */
struct atrest_its_options {
    struct atrest_its_entry *entries; /* one for each identifier that can be in use */
    size_t entry_count;
    uint8_t *buffer; /* a unit of the volume, 32 bytes at least */
    size_t buffer_len;
    uint16_t longest; /* bytes in the longest data; fits into an erase block */
    uint8_t spares; /* erase blocks that are kept free; 0: 1 */
};

struct atrest_its_info {
    size_t capacity;
    size_t size;
    uint32_t flags;
};

/*
 * Opens the storage on a volume that is open, of 2 to 64 erase blocks, or makes it anew. ATREST_NO_MAP: there is none yet. The key may
 * be that of the volume, and its cipher is not looked at. Close the storage before the volume.
 */
int atrest_its_open(struct atrest_its *its, struct atrest_sealed *sealed, const struct atrest_key *key,
                    const struct atrest_its_options *options);
int atrest_its_format(struct atrest_its *its, struct atrest_sealed *sealed, const struct atrest_key *key,
                      const struct atrest_its_options *options);
void atrest_its_close(struct atrest_its *its);
/* These return the API's status codes: 0, or PSA_ERROR_GENERIC_ERROR (-132) where the storage is not open, and others. */
int atrest_its_set(struct atrest_its *its, int32_t caller, uint64_t uid, size_t data_len, const void *data, uint32_t flags);
int atrest_its_get(struct atrest_its *its, int32_t caller, uint64_t uid, size_t offset, size_t size, void *data, size_t *data_len);
int atrest_its_get_info(struct atrest_its *its, int32_t caller, uint64_t uid, struct atrest_its_info *info);
int atrest_its_remove(struct atrest_its *its, int32_t caller, uint64_t uid);

#ifdef __cplusplus
}
#endif

#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "atrest_zephyr.h"

#include <zephyr/random/random.h>
#include <zephyr/storage/flash_map.h>

/* A unit holds 16 bytes at least, so that records do not take one program for each byte. */
enum { LEAST_PROG = 16 };

static int area_read(void *context, uint64_t address, void *buffer, size_t size) {
    return flash_area_read(context, (off_t)address, buffer, size);
}

static int area_prog(void *context, uint64_t address, const void *data, size_t size) {
    return flash_area_write(context, (off_t)address, data, size);
}

static int area_erase(void *context, uint64_t address, uint64_t size) {
    return flash_area_erase(context, (off_t)address, (size_t)size);
}

int atrest_zephyr_medium(struct atrest_medium *medium, int area_id, uint32_t erase_size) {
    const struct flash_area *area;
    if (!medium || !erase_size || flash_area_open((uint8_t)area_id, &area)) return ATREST_ARGUMENT;
    uint32_t align = flash_area_align(area);
    if (!align || area->fa_size % erase_size || (align < LEAST_PROG && LEAST_PROG % align)) return ATREST_ARGUMENT;
    *medium = (struct atrest_medium){
        .context = (void *)(uintptr_t)area,
        .read = area_read,
        .prog = area_prog,
        .erase = area_erase,
        .read_size = 1,
        .prog_size = align < LEAST_PROG ? LEAST_PROG : align,
        .erase_size = erase_size,
        .erased_byte = flash_area_erased_val(area),
        .block_count = area->fa_size / erase_size,
    };
    return ATREST_OK;
}

static int random_fill(void *context, void *buffer, size_t size) {
    (void)context;
    return sys_csrand_get(buffer, size);
}

struct atrest_random atrest_zephyr_random(void) { return (struct atrest_random){.fill = random_fill}; }

/* What the program takes for granted: where the emulator has put the card's image and the task, and a way to the host. */
#ifndef CARD_BOARD_H
#define CARD_BOARD_H

#include <stddef.h>
#include <stdint.h>

/* RAM behind that of the program, filled by `-device loader`. */
#if defined(__arm__)
#define BOARD_MEDIUM 0x21000000u
#else
#define BOARD_MEDIUM 0x82000000u
#endif

struct text {
    uint8_t len; /* at most 31 */
    uint8_t bytes[31];
};

/* What a button or a terminal would tell the program. */
struct task {
    uint8_t verb;
    struct text passphrase;
    struct text new_passphrase;
    uint8_t entropy[256 - 1 - 2 * 32];
};
#define BOARD_TASK ((const struct task *)(BOARD_MEDIUM + (1u << 20)))

/* Prints a text. */
void board_text(const char *text);
/* Prints "what,unit,figure" and a line feed. */
void board_figure(const char *what, uint32_t unit, uint32_t figure);
/* Writes bytes to a file of the host. */
void board_save(const char *name, const void *bytes, size_t size);
/* Ends the emulator: 0 for success. */
_Noreturn void board_exit(int status);

#endif

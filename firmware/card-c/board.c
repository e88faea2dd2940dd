/* Start-up of two boards of QEMU's, mps2-an386 (Cortex-M4) and virt (RV32IMC), and semihosting, their way to the host. */
#include "board.h"

extern uint32_t stack_top[], data_start[], data_end[], data_stored[], bss_start[], bss_end[];
int main(void);

/* Brings RAM into the state that C expects. */
__attribute__((used)) static _Noreturn void start(void) {
    for (uint32_t *to = data_start, *from = data_stored; to < data_end;) *to++ = *from++;
    for (uint32_t *to = bss_start; to < bss_end;) *to++ = 0;
    main();
    board_exit(1);
}

/* "Semihosting for AArch32 and AArch64" and "RISC-V Semihosting", which takes the numbers of the former. */
enum { SYS_OPEN = 1, SYS_CLOSE = 2, SYS_WRITE0 = 4, SYS_WRITE = 5, SYS_EXIT = 0x18 };

#if defined(__arm__)
static void fault(void) { board_exit(1); }

__attribute__((section(".vectors"), used)) static void (*const vectors[16])(void) = {
    (void (*)(void))stack_top, start, fault, fault, fault, fault, fault, [11] = fault, [14] = fault, fault,
};

static uintptr_t host(uintptr_t operation, uintptr_t argument) {
    register uintptr_t r0 __asm__("r0") = operation;
    register uintptr_t r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}
#else
__attribute__((section(".vectors"), naked, used)) void entry(void) {
    __asm__ volatile("la sp, stack_top\n j %0" : : "i"(start));
}

static uintptr_t host(uintptr_t operation, uintptr_t argument) {
    register uintptr_t a0 __asm__("a0") = operation;
    register uintptr_t a1 __asm__("a1") = argument;
    /* The three instructions that a debugger knows it by: uncompressed, and in one page. */
    __asm__ volatile(".balign 16\n .option push\n .option norvc\n slli zero, zero, 0x1f\n ebreak\n srai zero, zero, 7\n .option pop"
                     : "+r"(a0)
                     : "r"(a1)
                     : "memory");
    return a0;
}
#endif

void board_text(const char *text) { host(SYS_WRITE0, (uintptr_t)text); }

static void number(uint32_t value) {
    char digits[11];
    char *at = &digits[10];
    *at = 0;
    do {
        *--at = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    board_text(at);
}

void board_figure(const char *what, uint32_t unit, uint32_t figure) {
    board_text(what);
    board_text(",");
    number(unit);
    board_text(",");
    number(figure);
    board_text("\n");
}

void board_save(const char *name, const void *bytes, size_t size) {
    size_t len = 0;
    while (name[len]) len++;
    uintptr_t open[3] = {(uintptr_t)name, 5 /* "wb" */, len};
    uintptr_t file = host(SYS_OPEN, (uintptr_t)open);
    uintptr_t write[3] = {file, (uintptr_t)bytes, size};
    /* What comes back is how much was not written. */
    if (file == (uintptr_t)-1 || host(SYS_WRITE, (uintptr_t)write) != 0) board_exit(1);
    host(SYS_CLOSE, (uintptr_t)&file);
}

_Noreturn void board_exit(int status) {
    /* ADP_Stopped_ApplicationExit, ADP_Stopped_RunTimeErrorUnknown */
    for (;;) host(SYS_EXIT, status == 0 ? 0x20026 : 0x20023);
}

/* The functions of a C library that littlefs calls. compiler-builtins has those on memory, src/libc.rs the others. */
#ifndef CARD_STRING_H
#define CARD_STRING_H
#include <stddef.h>
void *memcpy(void *to, const void *from, size_t len);
void *memset(void *to, int byte, size_t len);
int memcmp(const void *a, const void *b, size_t len);
size_t strlen(const char *text);
size_t strspn(const char *text, const char *accepted);
size_t strcspn(const char *text, const char *refused);
char *strcpy(char *to, const char *from);
char *strchr(const char *text, int byte);
#endif

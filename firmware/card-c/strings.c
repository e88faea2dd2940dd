/* The functions on C strings that littlefs calls; those on memory are in libatrest_capi.a. With a C library, leave this out. */
#include <string.h>

static int contains(const char *set, char byte) {
    while (*set) {
        if (*set++ == byte) return 1;
    }
    return 0;
}

size_t strspn(const char *text, const char *accepted) {
    size_t len = 0;
    while (text[len] && contains(accepted, text[len])) len++;
    return len;
}

size_t strcspn(const char *text, const char *refused) {
    size_t len = 0;
    while (text[len] && !contains(refused, text[len])) len++;
    return len;
}

char *strcpy(char *to, const char *from) {
    char *at = to;
    while ((*at++ = *from++)) {
    }
    return to;
}

char *strchr(const char *text, int byte) {
    for (;; text++) {
        if (*text == (char)byte) return (char *)text;
        if (!*text) return NULL;
    }
}

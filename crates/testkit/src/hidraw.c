/* Shows the socket of a software security key as the device /dev/hidraw-atrest: preloaded into programs that know only devices. The socket's
   path is in ATREST_TEST_HIDRAW. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/hidraw.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static int device = -1;

static int connected(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strncpy(address.sun_path, getenv("ATREST_TEST_HIDRAW"), sizeof address.sun_path - 1);
    device = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (device >= 0 && connect(device, (struct sockaddr *)&address, sizeof address) != 0) {
        close(device);
        device = -1;
        errno = ENOENT;
    }
    return device;
}

#define OPEN(name)                                                            \
    int name(const char *path, int flags, ...) {                              \
        va_list rest;                                                         \
        va_start(rest, flags);                                                \
        mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
        va_end(rest);                                                         \
        if (strcmp(path, "/dev/hidraw-atrest") == 0)                          \
            return connected();                                               \
        int (*theirs)(const char *, int, ...) = dlsym(RTLD_NEXT, #name);      \
        return theirs(path, flags, mode);                                     \
    }
#ifndef O_CREAT
#define O_CREAT 0100
#endif
#ifndef __O_TMPFILE
#define __O_TMPFILE 020000000
#endif
OPEN(open)
OPEN(open64)

int close(int file) {
    int (*theirs)(int) = dlsym(RTLD_NEXT, "close");
    if (file == device)
        device = -1;
    return theirs(file);
}

int fstat(int file, struct stat *is) {
    int (*theirs)(int, struct stat *) = dlsym(RTLD_NEXT, "fstat");
    int done = theirs(file, is);
    if (file >= 0 && file == device && done == 0)
        is->st_mode = S_IFCHR | 0600;
    return done;
}

int flock(int file, int operation) {
    int (*theirs)(int, int) = dlsym(RTLD_NEXT, "flock");
    return file >= 0 && file == device ? 0 : theirs(file, operation);
}

/* CTAP 2.1, section 11.2.8.1 */
static const unsigned char description[] = {0x06, 0xd0, 0xf1, 0x09, 0x01, 0xa1, 0x01, 0x09, 0x20, 0x15, 0x00, 0x26, 0xff, 0x00, 0x75, 0x08, 0x95,
                                            0x40, 0x81, 0x02, 0x09, 0x21, 0x15, 0x00, 0x26, 0xff, 0x00, 0x75, 0x08, 0x95, 0x40, 0x91, 0x02, 0xc0};

int ioctl(int file, unsigned long request, ...) {
    va_list rest;
    va_start(rest, request);
    void *argument = va_arg(rest, void *);
    va_end(rest);
    int (*theirs)(int, unsigned long, ...) = dlsym(RTLD_NEXT, "ioctl");
    if (file < 0 || file != device)
        return theirs(file, request, argument);
    if (request == HIDIOCGRDESCSIZE) {
        *(int *)argument = sizeof description;
        return 0;
    }
    if (request == HIDIOCGRDESC) {
        memcpy(((struct hidraw_report_descriptor *)argument)->value, description, sizeof description);
        return 0;
    }
    errno = EINVAL;
    return -1;
}

/* A report is written with its number in front. */
ssize_t write(int file, const void *bytes, size_t len) {
    ssize_t (*theirs)(int, const void *, size_t) = dlsym(RTLD_NEXT, "write");
    if (file < 0 || file != device)
        return theirs(file, bytes, len);
    if (len != 65 || *(const char *)bytes != 0) {
        errno = EINVAL;
        return -1;
    }
    return theirs(file, (const char *)bytes + 1, 64) == 64 ? 65 : -1;
}

/* The list of devices, which libfido2 asks libudev for: one, which is its own parent. */
#define FAKE ((void *)1)
void *udev_new(void) { return FAKE; }
void *udev_unref(void *udev) { return (void)udev, NULL; }
void *udev_enumerate_new(void *udev) { return udev; }
void *udev_enumerate_unref(void *list) { return (void)list, NULL; }
int udev_enumerate_add_match_subsystem(void *list, const char *name) { return (void)list, (void)name, 0; }
int udev_enumerate_scan_devices(void *list) { return (void)list, 0; }
void *udev_enumerate_get_list_entry(void *list) { return list; }
void *udev_list_entry_get_next(void *entry) { return (void)entry, NULL; }
const char *udev_list_entry_get_name(void *entry) { return (void)entry, "/sys/class/hidraw/hidraw-atrest"; }
void *udev_device_new_from_syspath(void *udev, const char *path) { return (void)path, udev; }
void *udev_device_unref(void *is) { return (void)is, NULL; }
const char *udev_device_get_devnode(void *is) { return (void)is, "/dev/hidraw-atrest"; }
const char *udev_device_get_sysnum(void *is) { return (void)is, "0"; }
void *udev_device_get_parent_with_subsystem_devtype(void *is, const char *subsystem, const char *type) {
    return (void)subsystem, (void)type, is;
}
const char *udev_device_get_sysattr_value(void *is, const char *name) {
    (void)is;
    return strcmp(name, "uevent") == 0 ? "HID_ID=0003:00001209:00000001\nHID_NAME=atrest\n" : "atrest";
}

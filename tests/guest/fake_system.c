/*
 * A library that is loaded before libc into the agent's process, and stands in for the kernel's interfaces to a
 * confidential VM. It knows nothing: each call on one of them goes to the test as one line on a socket; the test's
 * folder, with the socket and a tree of plain files, stands in CLAVIGER_FAKE_SYSTEM.
 *
 * Call:   `open r PATH`, `open w PATH`, `open rw PATH`, `mkdir PATH` or `rmdir PATH`, and a line's end.
 * Answer: i32 errno. After an open that is good the connection itself is the open file.
 *
 * A request on the open `/dev/sev-guest`: u32 number, 112 bytes of request. Its answer: i32 errno, u64 exit
 * information, u32 length of the table that is needed, 4000 bytes of response, u32 length of the table, the table.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "whole.h"

#define GET_REPORT 0xc0205300ul
#define GET_EXT_REPORT 0xc0205302ul

static const char *const asked[] = {
    "/sys/kernel/config/tsm/report", "/dev/sev-guest", "/sys/firmware/acpi/tables/data/CCEL",
    "/sys/devices/virtual/misc/tdx_guest", NULL,
};
static const char *const files[] = { "/sys/bus/pci/devices", "/var/run/nvidia-container-devices", NULL };

static int sev_guest = -1;

static const char *folder(void)
{
    return getenv("CLAVIGER_FAKE_SYSTEM");
}

static int below(const char *path, const char *const *roots)
{
    if (path == NULL || folder() == NULL)
        return 0;
    for (; *roots != NULL; roots++) {
        size_t len = strlen(*roots);
        if (strncmp(path, *roots, len) == 0 && (path[len] == '/' || path[len] == 0))
            return 1;
    }
    return 0;
}

static const char *moved(const char *path, char *to, size_t room)
{
    if (!below(path, files))
        return path;
    snprintf(to, room, "%s/tree%s", folder(), path);
    return to;
}

/* Returns the connection after a good answer, else -1 with errno. */
static int ask(const char *verb, const char *path)
{
    char line[4096];
    struct sockaddr_un place = { .sun_family = AF_UNIX };
    int32_t error = EIO;
    int len = snprintf(line, sizeof line, "%s %s\n", verb, path);
    snprintf(place.sun_path, sizeof place.sun_path, "%s/kernel.sock", folder());
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int good = fd >= 0 && connect(fd, (struct sockaddr *)&place, sizeof place) == 0
        && whole(fd, line, (size_t)len, 0) && whole(fd, &error, 4, 1);
    if (good && error == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    errno = good ? error : EIO;
    return -1;
}

static int opened(const char *path, int flags, mode_t mode, const char *real)
{
    char to[4096];
    int access = flags & O_ACCMODE;
    if (below(path, asked)) {
        int fd = ask(access == O_RDONLY ? "open r" : access == O_WRONLY ? "open w" : "open rw", path);
        if (fd >= 0 && strcmp(path, "/dev/sev-guest") == 0)
            sev_guest = fd;
        return fd;
    }
    int (*next)(const char *, int, ...) = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, real);
    return next(moved(path, to, sizeof to), flags, mode);
}

int open64(const char *path, int flags, ...)
{
    va_list more;
    va_start(more, flags);
    mode_t mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(more, mode_t) : 0;
    va_end(more);
    return opened(path, flags, mode, "open64");
}

int open(const char *path, int flags, ...)
{
    va_list more;
    va_start(more, flags);
    mode_t mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(more, mode_t) : 0;
    va_end(more);
    return opened(path, flags, mode, "open");
}

DIR *opendir(const char *path)
{
    char to[4096];
    DIR *(*next)(const char *) = (DIR *(*)(const char *))dlsym(RTLD_NEXT, "opendir");
    return next(moved(path, to, sizeof to));
}

static int done(const char *verb, const char *path)
{
    int fd = ask(verb, path);
    if (fd >= 0)
        close(fd);
    return fd >= 0 ? 0 : -1;
}

int mkdir(const char *path, mode_t mode)
{
    if (below(path, asked))
        return done("mkdir", path);
    return ((int (*)(const char *, mode_t))dlsym(RTLD_NEXT, "mkdir"))(path, mode);
}

int rmdir(const char *path)
{
    if (below(path, asked))
        return done("rmdir", path);
    return ((int (*)(const char *))dlsym(RTLD_NEXT, "rmdir"))(path);
}

/* linux/sev-guest.h */
struct guest_request {
    uint8_t message_version;
    uint64_t request, response, exit_info;
};

struct extended_request {
    unsigned char report[96];
    uint64_t table;
    uint32_t table_len;
};

static int report(unsigned long number, struct guest_request *asks)
{
    struct extended_request request = { 0 };
    uint32_t short_number = (uint32_t)number, needed = 0, len = 0;
    int32_t error = EIO;
    memcpy(&request, (void *)(uintptr_t)asks->request, number == GET_EXT_REPORT ? sizeof request : 96);
    int good = whole(sev_guest, &short_number, 4, 0) && whole(sev_guest, &request, sizeof request, 0)
        && whole(sev_guest, &error, 4, 1) && whole(sev_guest, &asks->exit_info, 8, 1)
        && whole(sev_guest, &needed, 4, 1)
        && whole(sev_guest, (void *)(uintptr_t)asks->response, 4000, 1) && whole(sev_guest, &len, 4, 1);
    /* The test sends no table that is longer than the buffer. */
    good = good && (len == 0 || whole(sev_guest, (void *)(uintptr_t)request.table, len, 1));
    if (number == GET_EXT_REPORT)
        ((struct extended_request *)(uintptr_t)asks->request)->table_len = needed;
    if (good && error == 0)
        return 0;
    errno = good ? error : EIO;
    return -1;
}

int ioctl(int fd, unsigned long number, ...)
{
    va_list more;
    va_start(more, number);
    void *argument = va_arg(more, void *);
    va_end(more);
    if (fd == sev_guest && (number == GET_REPORT || number == GET_EXT_REPORT))
        return report(number, argument);
    int (*next)(int, unsigned long, ...) = (int (*)(int, unsigned long, ...))dlsym(RTLD_NEXT, "ioctl");
    return next(fd, number, argument);
}

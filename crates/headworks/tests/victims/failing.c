// Stands below everything else: fails or shortens each third call on files, in turn by EIO, EINTR,
// ENOSPC and half of the bytes. Only once the
// victim says so.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/types.h>

static __thread unsigned calls;

// Zero: the call is made. Negative: it fails. Positive: it is made with half of its bytes.
static int fate(void) {
    static const int errors[] = {EIO, EINTR, ENOSPC, 0};
    if (!getenv("FAIL_NOW") || ++calls % 3) return 0;
    int error = errors[calls / 3 % 4];
    if (!error) return 1;
    errno = error;
    return -1;
}

#define TRANSFER(name, buffer)                                                        \
    ssize_t name(int fd, buffer data, size_t bytes, off_t at) {                       \
        int fate_now = fate();                                                        \
        if (fate_now < 0) return -1;                                                  \
        ssize_t (*real)(int, buffer, size_t, off_t) = dlsym(RTLD_NEXT, #name);        \
        return real(fd, data, fate_now ? bytes / 2 : bytes, at);                      \
    }
TRANSFER(pread, void *)
TRANSFER(pwrite, const void *)

#define SYNC(name)                                                                    \
    int name(int fd) {                                                                \
        if (fate() < 0) return -1;                                                    \
        int (*real)(int) = dlsym(RTLD_NEXT, #name);                                   \
        return real(fd);                                                              \
    }
SYNC(fsync)
SYNC(fdatasync)

int ftruncate(int fd, off_t length) {
    if (fate() < 0) return -1;
    int (*real)(int, off_t) = dlsym(RTLD_NEXT, "ftruncate");
    return real(fd, length);
}

/* A library that stands before `recv` too, and says at the end how often it was called. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

static int calls;

ssize_t recv(int fd, void *buffer, size_t length, int flags) {
    static ssize_t (*next)(int, void *, size_t, int);
    if (!next)
        next = (ssize_t (*)(int, void *, size_t, int))dlsym(RTLD_NEXT, "recv");
    __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
    return next(fd, buffer, length, flags);
}

__attribute__((destructor)) static void report(void) {
    char line[64];
    int length = snprintf(line, sizeof line, "counted %d\n", calls);
    if (calls > 0 && write(1, line, (size_t)length) < 0)
        _exit(7);
}

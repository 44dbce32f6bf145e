/* A library that uses the hooked functions before every constructor but the loader's own. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

static char report[512];
static int length;

void use_hooks(const char *when) {
    int ends[2] = {-1, -1};
    char byte = 0;
    socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
    struct pollfd one = {.fd = ends[1], .events = POLLIN};
    long sent = send(ends[0], "x", 1, 0), ready = poll(&one, 1, 1000);
    long got = recv(ends[1], &byte, 1, 0), shut = shutdown(ends[0], SHUT_RDWR);
    long closed = close(ends[0]) + close(ends[1]);
    errno = 0;
    long bad = recv(-1, &byte, 1, 0);
    length += snprintf(report + length, sizeof report - (size_t)length, "%s %ld %ld %ld %c %ld %ld %ld %d\n",
                       when, sent, ready, got, byte, shut, closed, bad, errno);
}

__attribute__((constructor(101))) static void before(void) { use_hooks("library constructor"); }

/* The last word, when stdio may be gone. */
__attribute__((destructor(101))) static void after(void) {
    use_hooks("library destructor");
    if (write(1, report, (size_t)length) < 0)
        _exit(7);
}

/*
 * Calls every hooked function in ways that fail, and in a few that succeed, and prints what came
 * of it: result, errno, bytes. With and without the preloaded library the output must be the same.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SHOW(call)                                                                                  \
    do {                                                                                            \
        errno = 4242;                                                                               \
        long result = (long)(call);                                                                 \
        int after = errno;                                                                          \
        printf("%-46s %ld %d\n", #call, result, after);                                             \
    } while (0)

/* Whether it succeeded; the descriptor's number does not matter. */
#define SHOW_FD(fd, call)                                                                           \
    do {                                                                                            \
        errno = 4242;                                                                               \
        fd = (call);                                                                                \
        printf("%-46s %d %d\n", #call, fd >= 0, errno);                                             \
    } while (0)

static int connected(int listener, struct sockaddr_in *address, int *client) {
    *client = socket(AF_INET, SOCK_STREAM, 0);
    connect(*client, (struct sockaddr *)address, sizeof *address);
    return accept(listener, NULL, NULL);
}

/* One descriptor in every condition that a connection can be in. */
static void conversation(int server, int client) {
    char buffer[16];
    struct pollfd one = {.fd = server, .events = POLLIN};
    struct timespec nothing = {0, 0}, bad = {0, 2000000000}, little = {0, 3000000};
    SHOW(recv(server, buffer, sizeof buffer, MSG_DONTWAIT));
    SHOW(recv(server, buffer, 0, MSG_DONTWAIT));
    SHOW(poll(&one, 1, 0));
    SHOW(poll(&one, 1, 3));
    SHOW(ppoll(&one, 1, &nothing, NULL));
    SHOW(ppoll(&one, 1, &little, NULL));
    SHOW(ppoll(&one, 1, &bad, NULL));
    printf("time kept %ld %ld\n", (long)little.tv_sec, little.tv_nsec);
    SHOW(send(client, "hello", 5, 0));
    SHOW(poll(&one, 1, 1000));
    printf("events %d\n", one.revents);
    SHOW(recv(server, buffer, sizeof buffer, MSG_PEEK));
    SHOW(recv(server, NULL, 5, 0));
    SHOW(recv(server, buffer, 1, 0));
    SHOW(recv(server, NULL, 1, MSG_TRUNC | MSG_DONTWAIT));
    SHOW(recv(server, buffer, 2, MSG_TRUNC | MSG_DONTWAIT));
    SHOW(recv(server, buffer, sizeof buffer, MSG_OOB));
    SHOW(recv(server, buffer, sizeof buffer, 0x40000000 | MSG_DONTWAIT) >= -1);
    SHOW(send(server, NULL, 5, 0));
    SHOW(send(server, "", 0, 0));
    SHOW(send(server, "answer", 6, MSG_NOSIGNAL));
    SHOW(recv(client, buffer, sizeof buffer, 0));
    printf("bytes %.6s\n", buffer);
    SHOW(shutdown(server, 77));
    SHOW(shutdown(server, SHUT_WR));
    SHOW(send(server, "late", 4, MSG_NOSIGNAL));
    SHOW(recv(client, buffer, sizeof buffer, 0));
    SHOW(shutdown(server, SHUT_RD));
    SHOW(recv(server, buffer, sizeof buffer, 0));
    SHOW(poll(&one, 1, 0));
    SHOW(close(client));
    SHOW(close(server));
    SHOW(close(server));
    SHOW(recv(server, buffer, sizeof buffer, 0));
    SHOW(send(server, buffer, 1, MSG_NOSIGNAL));
    SHOW(shutdown(server, SHUT_RDWR));
    SHOW(poll(&one, 1, 0));
    printf("events %d\n", one.revents);
}

static void reset(int server, int client) {
    struct linger at_once = {1, 0};
    char byte;
    setsockopt(client, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    SHOW(close(client));
    SHOW(recv(server, &byte, 1, 0));
    SHOW(recv(server, &byte, 1, 0));
    SHOW(send(server, &byte, 1, MSG_NOSIGNAL));
    SHOW(close(server));
}

static void nothing_much(int signal) { (void)signal; }

static void interrupted(int server, int client) {
    struct sigaction action = {.sa_handler = nothing_much};
    struct pollfd one = {.fd = server, .events = POLLIN};
    char byte;
    sigaction(SIGALRM, &action, NULL);
    /* Again and again: the first one may come before the call. */
    ualarm(20000, 20000);
    SHOW(recv(server, &byte, 1, 0));
    SHOW(poll(&one, 1, 10000));
    SHOW(ppoll(&one, 1, NULL, NULL));
    ualarm(0, 0);
    SHOW(close(client));
    SHOW(close(server));
}

int main(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0), ends[2], client, server;
    struct pollfd two[2] = {{.fd = -1, .events = POLLIN}, {.fd = 1 << 20, .events = POLLIN}};
    /* Not known to the compiler, which would warn. */
    struct pollfd *volatile none = NULL;
    volatile nfds_t all = (nfds_t)-1;
    char byte;
    bind(listener, (struct sockaddr *)&address, length);
    listen(listener, 8);
    getsockname(listener, (struct sockaddr *)&address, &length);

    SHOW(recv(-1, &byte, 1, 0));
    SHOW(recv(1 << 20, &byte, 1, 0));
    SHOW(send(-1, &byte, 1, 0));
    SHOW(close(-1));
    SHOW(close(1 << 20));
    SHOW(shutdown(-1, SHUT_RDWR));
    SHOW(accept(-1, NULL, NULL));
    SHOW(accept4(listener, NULL, NULL, 0x7fffffff));
    SHOW(accept4(-1, NULL, NULL, SOCK_CLOEXEC));
    SHOW(poll(NULL, 0, 0));
    SHOW(poll(none, 1, 0));
    SHOW(poll(two, all, 0));
    SHOW(poll(two, 1, 0));
    SHOW(poll(two, 2, 0));
    printf("events %d %d\n", two[0].revents, two[1].revents);
    SHOW(ppoll(none, 1, NULL, NULL));
    if (pipe(ends) != 0)
        return 1;
    SHOW(recv(ends[0], &byte, 1, 0));
    SHOW(send(ends[1], &byte, 1, 0));
    SHOW(shutdown(ends[0], SHUT_RD));
    SHOW(accept(ends[0], NULL, NULL));
    SHOW(close(ends[0]));
    SHOW(close(ends[1]));
    SHOW(recv(listener, &byte, 1, 0));

    client = socket(AF_INET, SOCK_STREAM, 0);
    connect(client, (struct sockaddr *)&address, length);
    SHOW_FD(server, accept4(listener, NULL, NULL, SOCK_CLOEXEC));
    conversation(server, client);
    server = connected(listener, &address, &client);
    reset(server, client);
    server = connected(listener, &address, &client);
    interrupted(server, client);

    socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
    conversation(ends[0], ends[1]);
    SHOW(close(listener));
    SHOW(accept(listener, NULL, NULL));
    return 0;
}

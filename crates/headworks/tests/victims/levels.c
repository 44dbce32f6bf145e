/*
 * An event loop that does with its epoll set all that one may, and prints what it is told: events, data, results, errno.
 * With and without the preloaded library the output must be the same.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define DATA 0x0123456789abcdefULL

static int set, listener;
static struct sockaddr_in address;

#define SHOW(call)                                                                                  \
    do {                                                                                            \
        errno = 4242;                                                                               \
        long result = (long)(call);                                                                 \
        int after = errno;                                                                          \
        printf("%-56s %ld %d\n", #call, result, after);                                             \
    } while (0)

static int ctl(int op, int fd, uint32_t events) {
    struct epoll_event event = {.events = events, .data.u64 = DATA};
    return epoll_ctl(set, op, fd, &event);
}

/* Waits, and prints every event. */
static void told_within(const char *what, int timeout_ms) {
    struct epoll_event events[8];
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    int count = epoll_wait(set, events, 8, timeout_ms);
    clock_gettime(CLOCK_MONOTONIC, &end);
    long ms = (end.tv_sec - begin.tv_sec) * 1000 + (end.tv_nsec - begin.tv_nsec) / 1000000;
    printf("%-56s %d:", what, count);
    for (int at = 0; at < count; at++) {
        printf(" %x %llx", events[at].events, (unsigned long long)events[at].data.u64);
    }
    if (count == 0 && ms < timeout_ms) {
        printf(" too early");
    }
    printf("\n");
}

static void told(const char *what) {
    told_within(what, 30);
}

static int pair(int *client) {
    *client = socket(AF_INET, SOCK_STREAM, 0);
    connect(*client, (struct sockaddr *)&address, sizeof address);
    return accept4(listener, NULL, NULL, SOCK_NONBLOCK);
}

static void say(int client, const char *text) {
    send(client, text, strlen(text), 0);
    usleep(2000);
}

static void levels(void) {
    char buffer[64];
    int client, server = pair(&client);
    SHOW(ctl(EPOLL_CTL_MOD, server, EPOLLIN));
    SHOW(ctl(EPOLL_CTL_DEL, server, 0));
    SHOW(ctl(EPOLL_CTL_ADD, server, EPOLLIN));
    SHOW(ctl(EPOLL_CTL_ADD, server, EPOLLIN));
    SHOW(epoll_ctl(set, EPOLL_CTL_MOD, server, NULL));
    SHOW(epoll_ctl(-1, EPOLL_CTL_MOD, server, NULL));
    told("nothing was sent");
    say(client, "PING\r\nPING\r\nPI");
    told("two commands and a half");
    told("not read");
    SHOW(read(server, buffer, 6));
    told("read one");
    SHOW(recv(server, buffer, 4, MSG_PEEK));
    told("looked at the other");
    SHOW(recv(server, buffer, sizeof buffer, 0));
    told("read all");
    SHOW(read(server, buffer, sizeof buffer));
    say(client, "NG\r\n");
    told("the rest");
    struct iovec parts[2] = {{buffer, 2}, {buffer + 2, 2}};
    SHOW(readv(server, parts, 2));
    told("read as much as asked for, which was all");
    say(client, "PING\r\n");
    SHOW(ctl(EPOLL_CTL_MOD, server, EPOLLIN | EPOLLOUT));
    told("both directions");
    told("both directions, again");
    SHOW(ctl(EPOLL_CTL_MOD, server, EPOLLOUT));
    told("writing only");
    SHOW(ctl(EPOLL_CTL_MOD, server, 0));
    told("nothing at all");
    SHOW(ctl(EPOLL_CTL_MOD, server, EPOLLIN));
    told("reading");
    SHOW(ctl(EPOLL_CTL_DEL, server, 0));
    told("out of the set");
    SHOW(ctl(EPOLL_CTL_ADD, server, EPOLLIN));
    told("back again");
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    SHOW(recvmsg(server, &message, 0));
    SHOW(recvfrom(server, buffer, sizeof buffer, 0, NULL, NULL));
    told("read by parts");
    say(client, "PING\r\n");
    if (fork() == 0) {
        /* A child has the set, too, and uses it not. */
        close(server);
        _exit(0);
    }
    wait(NULL);
    told("after a child");
    SHOW(write(server, "+PONG\r\n", 7));
    shutdown(client, SHUT_WR);
    usleep(2000);
    told("the client is done");
    SHOW(read(server, buffer, sizeof buffer));
    told("and all is read");
    SHOW(read(server, buffer, sizeof buffer));
    SHOW(ctl(EPOLL_CTL_MOD, server, EPOLLIN | EPOLLRDHUP));
    told("asked for it");
    SHOW(close(server));
    told("closed");
    close(client);
}

static void edges(void) {
    char buffer[64];
    int client, server = pair(&client);
    SHOW(ctl(EPOLL_CTL_ADD, server, EPOLLIN | EPOLLET));
    say(client, "PING\r\n");
    told("an edge");
    told("no edge");
    say(client, "PING\r\n");
    told("another edge");
    SHOW(ctl(EPOLL_CTL_MOD, server, EPOLLIN | EPOLLONESHOT));
    told("one shot");
    say(client, "PING\r\n");
    told("is over");
    SHOW(ctl(EPOLL_CTL_MOD, server, EPOLLIN | EPOLLONESHOT));
    told("one more");
    SHOW(read(server, buffer, sizeof buffer));
    SHOW(ctl(EPOLL_CTL_MOD, server, EPOLLIN));
    told("levels, and nothing there");
    struct linger linger = {1, 0};
    setsockopt(client, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    close(client);
    usleep(2000);
    told("a reset");
    SHOW(read(server, buffer, sizeof buffer));
    SHOW(close(server));
}

static void others(void) {
    char buffer[64];
    struct epoll_event event;
    struct timespec time = {0, 20000000}, wrong = {0, -1};
    int client, server = pair(&client);
    SHOW(ctl(EPOLL_CTL_ADD, server, EPOLLIN));
    SHOW(epoll_pwait(set, &event, 1, 10, NULL));
    SHOW(epoll_pwait2(set, &event, 1, &time, NULL));
    SHOW(epoll_pwait2(set, &event, 1, &wrong, NULL));
    SHOW(epoll_wait(set, &event, 0, 0));
    SHOW(epoll_wait(-1, &event, 1, 0));
    say(client, "PING\r\n");
    SHOW(epoll_pwait(set, &event, 1, -1, NULL));
    printf("%x %llx\n", event.events, (unsigned long long)event.data.u64);
    SHOW(epoll_pwait2(set, &event, 1, NULL, NULL));
    printf("%x %llx\n", event.events, (unsigned long long)event.data.u64);
    SHOW(read(server, buffer, 6));
    told_within("a long wait", 450);
    /* A descriptor that another takes over. */
    int spare = dup(server);
    SHOW(close(server));
    say(client, "PING\r\n");
    SHOW(read(spare, buffer, sizeof buffer));
    close(spare);
    close(client);
    int pipes[2];
    pipe(pipes);
    SHOW(ctl(EPOLL_CTL_ADD, pipes[0], EPOLLIN));
    write(pipes[1], "x", 1);
    told("a pipe");
    told("a pipe, again");
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    set = epoll_create1(EPOLL_CLOEXEC);
    listener = socket(AF_INET, SOCK_STREAM, 0);
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    bind(listener, (struct sockaddr *)&address, sizeof address);
    socklen_t length = sizeof address;
    getsockname(listener, (struct sockaddr *)&address, &length);
    listen(listener, 8);
    told("an empty set");
    levels();
    edges();
    others();
    return 0;
}

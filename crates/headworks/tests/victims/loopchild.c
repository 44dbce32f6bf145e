/*
 * An event loop that speaks a little of Redis's protocol. VFORK makes a child that shares its memory and, before it becomes
 * another program, closes all that it inherited and makes an epoll set of its own, which gets the number of one of those.
 * Argument: port.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST 256

static struct client {
    int multi, queued, used;
    char text[4096];
} clients[MOST];

static void answer(int fd, const char *text) { write(fd, text, strlen(text)); }

static void make_child(int set, int client) {
    static char *const argv[] = {"true", NULL}, *const envp[] = {NULL};
    int status = 0;
    pid_t child = vfork();
    if (child == 0) {
        struct epoll_event event = {.events = EPOLLIN, .data.u64 = 4242};
        for (int fd = 3; fd < MOST; fd++)
            if (fd != client) close(fd);
        for (int fd = 3; fd < 6; fd++)
            epoll_ctl(epoll_create1(0), EPOLL_CTL_ADD, client, &event);
        for (int fd = 3; fd < MOST; fd++)
            close(fd);
        execve("/bin/true", argv, envp);
        _exit(9);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || status) exit(4);
}

static void run(int set, int fd, const char *word) {
    struct client *it = &clients[fd];
    char text[64];
    if (!strcmp(word, "VFORK")) make_child(set, fd);
    if (!strcmp(word, "MULTI")) {
        it->multi = 1;
        it->queued = 0;
        answer(fd, "+OK\r\n");
    } else if (!strcmp(word, "EXEC")) {
        sprintf(text, "*%d\r\n", it->queued);
        answer(fd, text);
        for (; it->queued; it->queued--) answer(fd, "+DONE\r\n");
        it->multi = 0;
    } else if (it->multi) {
        it->queued++;
        answer(fd, "+QUEUED\r\n");
    } else {
        answer(fd, "+OK\r\n");
    }
}

/* Runs the whole commands that have come: arrays of short strings. */
static void parse(int set, int fd) {
    struct client *it = &clients[fd];
    for (;;) {
        char *at = it->text, *end = it->text + it->used, word[64] = "", *line;
        if (!(line = memmem(at, end - at, "\r\n", 2))) return;
        int words = atoi(at + 1);
        at = line + 2;
        for (int number = 0; number < words; number++) {
            if (!(line = memmem(at, end - at, "\r\n", 2))) return;
            int length = atoi(at + 1);
            at = line + 2;
            if (end - at < length + 2) return;
            if (number == 0) sprintf(word, "%.*s", length, at);
            at += length + 2;
        }
        memmove(it->text, at, end - at);
        it->used = end - at;
        run(set, fd, word);
    }
}

int main(int argc, char **argv) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[1]))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int listener = socket(AF_INET, SOCK_STREAM, 0), set = epoll_create1(0), one = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (void *)&address, sizeof address) || listen(listener, 64)) return 1;
    signal(SIGPIPE, SIG_IGN);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listener}, events[MOST];
    epoll_ctl(set, EPOLL_CTL_ADD, listener, &event);
    for (;;) {
        int count = epoll_wait(set, events, MOST, -1);
        for (int at = 0; at < count; at++) {
            int fd = events[at].data.fd;
            if (fd == listener) {
                if ((fd = accept4(listener, 0, 0, SOCK_NONBLOCK)) < 0) continue;
                memset(&clients[fd], 0, sizeof clients[fd]);
                event = (struct epoll_event){.events = EPOLLIN, .data.fd = fd};
                epoll_ctl(set, EPOLL_CTL_ADD, fd, &event);
                continue;
            }
            struct client *it = &clients[fd];
            ssize_t got = read(fd, it->text + it->used, sizeof it->text - it->used);
            if (got > 0) {
                it->used += got;
                parse(set, fd);
            } else {
                close(fd);
            }
        }
    }
}

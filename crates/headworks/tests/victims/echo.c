/* A server that answers each line by "ok LINE". A line "wait" is answered when the file named by the second
 * argument exists. First argument: "threads", one for each connection; "loop", one for all of them; "records", as
 * threads, but with the greeting of a MySQL server first, and any receipt is answered by one record of TLS. */
#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const char *gate_file;
static int records;

static const unsigned char greeting[] = {
    0x4a, 0, 0, 0, 0x0a, '5', '.', '7', '.', '0', 0, 1, 0, 0, 0, 's', 'a', 'l', 't', 's', 'a', 'l', 't', 0,
    0xff, 0xff, 8, 2, 0, 0xff, 0xc1, 21, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 'm', 'o', 'r', 'e', 's', 'a', 'l', 't',
    'm', 'o', 'r', 'e', 0, 'm', 'y', 's', 'q', 'l', '_', 'n', 'a', 't', 'i', 'v', 'e', '_', 'p', 'a', 's', 's',
    'w', 'o', 'r', 'd', 0, 0};

static int answer(int fd, char *line, ssize_t length) {
    char reply[600];
    if (records) {
        static const unsigned char record[] = {23, 3, 3, 0, 2, 'o', 'k'};
        return send(fd, record, sizeof record, MSG_NOSIGNAL) > 0;
    }
    line[length] = 0;
    line[strcspn(line, "\n")] = 0;
    if (!strcmp(line, "wait"))
        while (access(gate_file, F_OK)) usleep(2000);
    int size = snprintf(reply, sizeof reply, "ok %s\n", line);
    return send(fd, reply, size, MSG_NOSIGNAL) > 0;
}

static void *serve(void *argument) {
    int fd = (int)(long)argument;
    char line[512];
    ssize_t length;
    if (records) send(fd, greeting, sizeof greeting, MSG_NOSIGNAL);
    while ((length = recv(fd, line, sizeof line - 1, 0)) > 0 && answer(fd, line, length)) {}
    close(fd);
    return 0;
}

int main(int argc, char **argv) {
    int listener = socket(AF_INET6, SOCK_STREAM, 0), off = 0;
    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_addr = in6addr_any};
    socklen_t size = sizeof address;
    int loop = !strcmp(argv[1], "loop");
    records = !strcmp(argv[1], "records");
    gate_file = argv[2];
    setsockopt(listener, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(listener, (struct sockaddr *)&address, size) || listen(listener, 64)) return 2;
    getsockname(listener, (struct sockaddr *)&address, &size);
    printf("port %d\n", ntohs(address.sin6_port));
    fflush(stdout);
    if (!loop) {
        for (;;) {
            pthread_t thread;
            long fd = accept(listener, 0, 0);
            if (fd < 0) return 3;
            pthread_create(&thread, 0, serve, (void *)fd);
            pthread_detach(thread);
        }
    }
    struct pollfd fds[64] = {{.fd = listener, .events = POLLIN}};
    int count = 1;
    for (;;) {
        poll(fds, count, -1);
        for (int at = 1; at < count; at++) {
            char line[512];
            if (!fds[at].revents) continue;
            ssize_t length = recv(fds[at].fd, line, sizeof line - 1, 0);
            if (length > 0 && answer(fds[at].fd, line, length)) continue;
            close(fds[at].fd);
            fds[at--] = fds[--count];
        }
        if (fds[0].revents && count < 64) {
            fds[count].fd = accept(listener, 0, 0);
            fds[count].events = POLLIN;
            fds[count++].revents = 0;
        }
    }
}

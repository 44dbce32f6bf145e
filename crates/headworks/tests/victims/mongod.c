// A server of MongoDB's protocol that does its input and output as mongod does: a thread for each connection, recvmsg for the
// header and then for the rest, poll before it if there is nothing yet, sendmsg for the answer; and every socket is in an epoll
// set, too, edge-triggered, as asio has it. Answers {ok: 1.0} to every OP_MSG that wants an answer.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

static int set;

static int receive(int fd, char *to, size_t size) {
    while (size > 0) {
        struct iovec part = {to, size};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
        ssize_t count = recvmsg(fd, &message, 0);
        if (count < 0 && errno == EAGAIN) {
            struct pollfd wait = {fd, POLLIN, 0};
            poll(&wait, 1, -1);
            continue;
        }
        if (count <= 0)
            return 0;
        to += count;
        size -= count;
    }
    return 1;
}

static void *serve(void *argument) {
    int fd = (int)(intptr_t)argument;
    static char bytes[256][1 << 16];
    static int next;
    char *buffer = bytes[__atomic_fetch_add(&next, 1, __ATOMIC_RELAXED) % 256];
    uint32_t head[4];
    while (receive(fd, (char *)head, 16) && head[0] >= 20 && head[0] <= sizeof bytes[0]) {
        if (!receive(fd, buffer, head[0] - 16))
            break;
        uint32_t flags;
        memcpy(&flags, buffer, 4);
        if (flags & 2)
            continue;
        char answer[38] = {38, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, (char)0xDD, 7, 0, 0, 0, 0, 0, 0, 0,
                           17, 0, 0, 0, 1, 'o', 'k', 0, 0, 0, 0, 0, 0, 0, (char)0xF0, 0x3F, 0};
        memcpy(answer + 8, &head[1], 4);
        struct iovec part = {answer, sizeof answer};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
        if (sendmsg(fd, &message, MSG_NOSIGNAL) != sizeof answer)
            break;
    }
    close(fd);
    return NULL;
}

static void *react(void *argument) {
    struct epoll_event events[16];
    (void)argument;
    for (;;)
        epoll_wait(set, events, 16, -1);
    return NULL;
}

int main(int count, char **arguments) {
    int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(arguments[1]))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 512))
        return 1;
    pthread_t thread;
    set = epoll_create1(0);
    pthread_create(&thread, NULL, react, NULL);
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            continue;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        struct epoll_event event = {EPOLLIN | EPOLLPRI | EPOLLERR | EPOLLHUP | EPOLLET, {.fd = fd}};
        epoll_ctl(set, EPOLL_CTL_ADD, fd, &event);
        pthread_create(&thread, NULL, serve, (void *)(intptr_t)fd);
        pthread_detach(thread);
    }
}

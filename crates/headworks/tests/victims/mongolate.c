// A server of MongoDB's protocol with one event loop, whose answers are written by other threads, a tenth of a second later.
// Each says in `ok` how many were at work at the same time. Messages are small: each comes with one read.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

static int working;

struct job {
    int fd, command;
    uint32_t request;
};

static void answer(struct job job, double ok) {
    char bytes[38] = {38, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, (char)0xDD, 7, 0, 0, 0, 0, 0, 0, 0,
                      17, 0, 0, 0, 1, 'o', 'k', 0};
    memcpy(bytes + 8, &job.request, 4);
    memcpy(bytes + 29, &ok, 8);
    write(job.fd, bytes, sizeof bytes);
}

static void *work(void *argument) {
    struct job *job = argument;
    int at_once = __atomic_add_fetch(&working, 1, __ATOMIC_SEQ_CST);
    usleep(100000);
    __atomic_sub_fetch(&working, 1, __ATOMIC_SEQ_CST);
    answer(*job, at_once);
    free(job);
    return NULL;
}

int main(int count, char **arguments) {
    int one = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), set = epoll_create1(0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(arguments[1]))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 512))
        return 1;
    struct epoll_event event = {EPOLLIN, {.fd = listener}}, events[16];
    epoll_ctl(set, EPOLL_CTL_ADD, listener, &event);
    for (;;) {
        int ready = epoll_wait(set, events, 16, -1);
        for (int at = 0; at < ready; at++) {
            int fd = events[at].data.fd;
            if (fd == listener) {
                fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
                setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
                event = (struct epoll_event){EPOLLIN, {.fd = fd}};
                epoll_ctl(set, EPOLL_CTL_ADD, fd, &event);
                continue;
            }
            char bytes[4096];
            ssize_t got = read(fd, bytes, sizeof bytes);
            if (got <= 0) {
                close(fd);
                continue;
            }
            struct job *job = malloc(sizeof *job);
            job->fd = fd;
            memcpy(&job->request, bytes + 4, 4);
            // The first element's name: what passes is answered at once.
            if (strcmp(bytes + 26, "find")) {
                answer(*job, 1);
                free(job);
                continue;
            }
            pthread_t thread;
            pthread_create(&thread, NULL, work, job);
            pthread_detach(thread);
        }
    }
}

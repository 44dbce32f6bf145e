/*
 * An event loop that speaks a little of Redis's protocol inside TLS, and reads 64 bytes at a time. What the TLS library
 * keeps of a record it reads after its next look at the epoll set: by then the turn in which the rest came is over.
 * Arguments: port, certificate, key.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/* Of OpenSSL, whose headers need not be here. */
typedef struct ssl_st SSL;
typedef struct ssl_ctx_st SSL_CTX;
SSL_CTX *SSL_CTX_new(const void *method);
const void *TLS_server_method(void);
int SSL_CTX_use_certificate_chain_file(SSL_CTX *, const char *);
int SSL_CTX_use_PrivateKey_file(SSL_CTX *, const char *, int);
SSL *SSL_new(SSL_CTX *);
void SSL_free(SSL *);
int SSL_set_fd(SSL *, int);
int SSL_accept(SSL *);
int SSL_read(SSL *, void *, int);
int SSL_write(SSL *, const void *, int);
int SSL_pending(const SSL *);
int SSL_get_error(const SSL *, int);

#define MOST 256

static struct client {
    SSL *ssl;
    int ready, multi, queued, used;
    char text[65536];
} clients[MOST];

static void answer(struct client *it, const char *text) { SSL_write(it->ssl, text, strlen(text)); }

static void run(struct client *it, const char *word) {
    char text[64];
    if (!strcmp(word, "MULTI")) {
        it->multi = 1;
        it->queued = 0;
        answer(it, "+OK\r\n");
    } else if (!strcmp(word, "EXEC")) {
        int length = sprintf(text, "*%d\r\n", it->queued);
        SSL_write(it->ssl, text, length);
        for (; it->queued; it->queued--) answer(it, "+DONE\r\n");
        it->multi = 0;
    } else if (it->multi) {
        it->queued++;
        answer(it, "+QUEUED\r\n");
    } else {
        answer(it, "+OK\r\n");
    }
}

/* Runs the whole commands that have come: arrays of short strings. */
static void parse(struct client *it) {
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
        run(it, word);
    }
}

static void leave(int fd) {
    SSL_free(clients[fd].ssl);
    memset(&clients[fd], 0, sizeof clients[fd]);
    close(fd);
}

static void read_some(int fd) {
    struct client *it = &clients[fd];
    int count;
    if (!it->ready) {
        it->ready = (count = SSL_accept(it->ssl)) == 1;
        if (it->ready) return;
    } else if ((count = SSL_read(it->ssl, it->text + it->used, 64)) > 0) {
        it->used += count;
        parse(it);
        return;
    }
    if (SSL_get_error(it->ssl, count) != 2 /* SSL_ERROR_WANT_READ */) leave(fd);
}

int main(int argc, char **argv) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[1]))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int listener = socket(AF_INET, SOCK_STREAM, 0), set = epoll_create1(0), one = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (void *)&address, sizeof address) || listen(listener, 64)) return 1;
    signal(SIGPIPE, SIG_IGN);
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    if (SSL_CTX_use_certificate_chain_file(context, argv[2]) != 1) return 2;
    if (SSL_CTX_use_PrivateKey_file(context, argv[3], 1) != 1) return 3;
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listener}, events[MOST];
    epoll_ctl(set, EPOLL_CTL_ADD, listener, &event);
    for (;;) {
        char kept[MOST] = {0};
        int any = 0;
        for (int fd = 0; fd < MOST; fd++)
            any |= kept[fd] = clients[fd].ready && SSL_pending(clients[fd].ssl) > 0;
        int count = epoll_wait(set, events, MOST, any ? 0 : -1);
        for (int at = 0; at < count; at++) {
            int fd = events[at].data.fd;
            if (fd != listener) {
                kept[fd] = 0;
                read_some(fd);
            } else if ((fd = accept4(listener, 0, 0, SOCK_NONBLOCK)) >= MOST) {
                close(fd);
            } else if (fd >= 0) {
                clients[fd].ssl = SSL_new(context);
                SSL_set_fd(clients[fd].ssl, fd);
                event = (struct epoll_event){.events = EPOLLIN, .data.fd = fd};
                epoll_ctl(set, EPOLL_CTL_ADD, fd, &event);
            }
        }
        for (int fd = 0; fd < MOST; fd++)
            if (kept[fd] && clients[fd].ssl) read_some(fd);
    }
}

/*
 * A server that converses as MariaDB does, one thread for each connection, and obeys its clients:
 * the text of a COM_QUERY says what it is to do before it answers OK.
 *
 *   BEGIN / COMMIT     sets or clears the status flag of an open transaction
 *   sleep MS           works for so long
 *   wait / wake        sleeps on a condition, or ends all such sleeps
 *   fork, vfork, spawn makes a child in that way, which closes everything it inherited
 *   raise              has its own signal handler call every hooked function
 *   exit               the thread ends without an answer and without closing the connection
 *   cancel N           cancels the thread of connection N and waits for it
 *   shutdown N         shuts the socket of connection N down
 *   push N             sends an OK to connection N, from this thread
 *   stop               the process ends
 *   misled             answers how often its reads were told that nothing was there although there was
 *   anything else      nothing
 *
 * Compiled with FORTIFIED, it calls the checking functions wherever a fortified build might.
 *
 * Prints "port N" once it listens. With the argument "signals", a timer interrupts it a thousand
 * times a second, and the handler calls the hooked functions.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef FORTIFIED
ssize_t __recv_chk(int fd, void *buffer, size_t length, size_t room, int flags);
int __poll_chk(struct pollfd *fds, nfds_t count, int timeout, size_t room);
#define recv(fd, buffer, length, flags) __recv_chk(fd, buffer, length, length, flags)
#define poll(fds, count, timeout) __poll_chk(fds, count, timeout, (count) * sizeof *(fds))
#endif

#define CONNECTIONS 1024
#define SACRIFICED 32
#define UNTOUCHED 4242

struct connection {
    int fd;
    int number;
    int status;
    unsigned misled;
    unsigned affected;
    pthread_t thread;
};

static struct connection connections[CONNECTIONS];
static int sacrificed[SACRIFICED];
static int unregistered[2];

static void fail(const char *what) {
    perror(what);
    exit(3);
}

/* As MariaDB's vio_read: a look, then a sleep, then the bytes. */
static int read_bytes(struct connection *it, unsigned char *to, size_t wanted) {
    int fd = it->fd;
    size_t have = 0;
    while (have < wanted) {
        errno = UNTOUCHED;
        ssize_t got = recv(fd, to + have, wanted - have, MSG_DONTWAIT);
        if (got > 0) {
            /* Also if it was held meanwhile. */
            if (errno != UNTOUCHED) {
                fprintf(stderr, "recv succeeded and set errno to %d\n", errno);
                exit(6);
            }
            have += (size_t)got;
        } else if (got == 0) {
            return 0;
        } else if (errno == EAGAIN) {
            int there = 0;
            ioctl(fd, FIONREAD, &there);
            it->misled += there > 0;
            struct pollfd one = {.fd = fd, .events = POLLIN | POLLPRI};
            if (poll(&one, 1, 3600 * 1000) < 0 && errno != EINTR)
                return 0;
        } else if (errno != EINTR) {
            return 0;
        }
    }
    return 1;
}

static int write_packet(int fd, unsigned char sequence, const void *body, size_t length) {
    unsigned char packet[512] = {(unsigned char)length, (unsigned char)(length >> 8), 0, sequence};
    size_t done = 0;
    memcpy(packet + 4, body, length);
    while (done < length + 4) {
        ssize_t sent = send(fd, packet + done, length + 4 - done, MSG_NOSIGNAL);
        if (sent > 0)
            done += (size_t)sent;
        else if (errno != EINTR)
            return 0;
    }
    return 1;
}

static int write_ok(struct connection *it, unsigned char sequence) {
    unsigned char body[7] = {0, (unsigned char)it->affected, 0, (unsigned char)it->status, 0, 0, 0};
    return write_packet(it->fd, sequence, body, sizeof body);
}

static int greet(struct connection *it) {
    static const char version[] = "5.5.5-10.11.0-MariaDB-mini";
    /* CONNECT_WITH_DB, PROTOCOL_41, TRANSACTIONS, SECURE_CONNECTION, PLUGIN_AUTH */
    const uint32_t able = 1u << 3 | 1u << 9 | 1u << 13 | 1u << 15 | 1u << 19;
    unsigned char body[128] = {10};
    size_t at = 1;
    memcpy(body + at, version, sizeof version);
    at += sizeof version;
    memcpy(body + at, &it->number, 4);
    at += 4;
    memset(body + at, 'x', 8);
    at += 9;
    body[at++] = able & 0xff;
    body[at++] = able >> 8 & 0xff;
    body[at++] = 45;
    body[at++] = 2;
    body[at++] = 0;
    body[at++] = able >> 16 & 0xff;
    body[at++] = able >> 24 & 0xff;
    body[at++] = 21;
    at += 10;
    memset(body + at, 'y', 12);
    at += 13;
    memcpy(body + at, "mysql_native_password", 22);
    at += 22;
    return write_packet(it->fd, 0, body, at);
}

static void close_inherited(void) {
    for (int fd = 3; fd < 256; fd++)
        close(fd);
}

static void make_child(const char *how, int connection) {
    static char *const argv[] = {"true", NULL};
    char *const envp[] = {NULL};
    pid_t child = -1;
    if (strcmp(how, "fork") == 0) {
        child = fork();
        if (child == 0) {
            unsigned char byte;
            struct pollfd one = {.fd = connection, .events = POLLIN};
            recv(connection, &byte, 1, MSG_DONTWAIT);
            poll(&one, 1, 0);
            send(connection, "", 0, MSG_NOSIGNAL);
            close_inherited();
            _exit(0);
        }
    } else if (strcmp(how, "vfork") == 0) {
        child = vfork();
        if (child == 0) {
            close_inherited();
            execve("/bin/true", argv, envp);
            _exit(9);
        }
    } else {
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        for (int fd = 3; fd < 64; fd++)
            posix_spawn_file_actions_addclose(&actions, fd);
        if (posix_spawn(&child, "/bin/true", &actions, NULL, argv, envp) != 0)
            child = -1;
        posix_spawn_file_actions_destroy(&actions);
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (child < 0 || status != 0) {
        fprintf(stderr, "child by %s: %d\n", how, status);
        exit(4);
    }
}

/* Everything that is hooked, on what the gate follows and on what it does not. */
static void on_signal(int signal) {
    static volatile int ticks;
    int kept = errno, tick = ticks++;
    unsigned char byte;
    (void)signal;
    for (int at = 0; at < CONNECTIONS && connections[at].fd > 0; at++) {
        struct pollfd one = {.fd = connections[at].fd, .events = POLLIN};
        recv(connections[at].fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK);
        send(connections[at].fd, "", 0, MSG_DONTWAIT | MSG_NOSIGNAL);
        poll(&one, 1, 0);
        if (at >= 4)
            break;
    }
    recv(unregistered[0], &byte, 1, MSG_DONTWAIT);
    send(unregistered[1], "x", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    recv(-1, &byte, 1, 0);
    shutdown(-1, SHUT_RDWR);
    close(-1);
    int victim = tick / 20;
    if (victim < SACRIFICED && tick % 20 == 10)
        shutdown(sacrificed[victim], SHUT_RDWR);
    if (victim < SACRIFICED && tick % 20 == 19)
        close(sacrificed[victim]);
    errno = kept;
}

static void close_connection(void *of) {
    struct connection *it = of;
    close(it->fd);
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t woken = PTHREAD_COND_INITIALIZER;
static int wakes;

static void unlock(void *of) {
    pthread_mutex_unlock(of);
}

static void wait_for_wake(void) {
    pthread_mutex_lock(&lock);
    pthread_cleanup_push(unlock, &lock);
    for (int before = wakes; wakes == before;)
        pthread_cond_wait(&woken, &lock);
    pthread_cleanup_pop(1);
}

static struct connection *numbered(const char *text) {
    int number = atoi(text);
    return number > 0 && number <= CONNECTIONS ? &connections[number - 1] : NULL;
}

/* Says whether the command is to be answered. */
static int obey(struct connection *it, const char *text) {
    struct connection *other;
    it->affected = strcmp(text, "misled") == 0 && it->misled < 250 ? it->misled : 0;
    if (strcmp(text, "BEGIN") == 0) {
        it->status |= 1;
    } else if (strcmp(text, "COMMIT") == 0) {
        it->status &= ~1;
    } else if (strncmp(text, "sleep ", 6) == 0) {
        usleep((useconds_t)atoi(text + 6) * 1000);
    } else if (strcmp(text, "wait") == 0) {
        wait_for_wake();
    } else if (strcmp(text, "wake") == 0) {
        pthread_mutex_lock(&lock);
        wakes++;
        pthread_cond_broadcast(&woken);
        pthread_mutex_unlock(&lock);
    } else if (strcmp(text, "fork") == 0 || strcmp(text, "vfork") == 0 || strcmp(text, "spawn") == 0) {
        make_child(text, it->fd);
    } else if (strcmp(text, "raise") == 0) {
        raise(SIGALRM);
    } else if (strncmp(text, "cancel ", 7) == 0 && (other = numbered(text + 7))) {
        void *result = NULL;
        pthread_cancel(other->thread);
        pthread_join(other->thread, &result);
        if (result != PTHREAD_CANCELED) {
            fprintf(stderr, "the thread ended by itself\n");
            exit(5);
        }
    } else if (strncmp(text, "shutdown ", 9) == 0 && (other = numbered(text + 9))) {
        shutdown(other->fd, SHUT_RDWR);
    } else if (strncmp(text, "push ", 5) == 0 && (other = numbered(text + 5))) {
        write_ok(other, 1);
    } else if (strcmp(text, "exit") == 0) {
        return 0;
    } else if (strcmp(text, "stop") == 0) {
        exit(0);
    }
    return 1;
}

static void *serve(void *of) {
    struct connection *it = of;
    unsigned char header[4];
    char body[4096];
    volatile int forgotten = 0;
    pthread_cleanup_push(close_connection, it);
    greet(it);
    for (int login = 1;; login = 0) {
        if (!read_bytes(it, header, 4))
            break;
        size_t length = header[0] | (size_t)header[1] << 8 | (size_t)header[2] << 16;
        if (length >= sizeof body || !read_bytes(it, (unsigned char *)body, length))
            break;
        body[length] = 0;
        if (!login && body[0] == 1)
            break;
        if (!login && body[0] == 3 && !obey(it, body + 1)) {
            forgotten = 1;
            break;
        }
        if (!write_ok(it, (unsigned char)(header[3] + 1)))
            break;
    }
    pthread_cleanup_pop(!forgotten);
    return NULL;
}

static int connect_to(struct sockaddr_in *address) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)address, sizeof *address) != 0)
        fail("connect");
    return fd;
}

int main(int argc, char **argv) {
    /* It has no options to print. `headworks run` asks before it starts the server. */
    if (argc > 1 && strcmp(argv[1], "--print-defaults") == 0)
        return 0;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof address;
    int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, length) != 0 || listen(listener, 512) != 0)
        fail("listen");
    getsockname(listener, (struct sockaddr *)&address, &length);
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, unregistered) != 0)
        fail("socketpair");
    for (int at = 0; at < SACRIFICED; at++)
        sacrificed[at] = -1;
    if (argc > 1 && strcmp(argv[1], "signals") == 0) {
        for (int at = 0; at < SACRIFICED; at++) {
            connect_to(&address);
            sacrificed[at] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        }
        struct itimerval often = {{0, 1000}, {0, 1000}};
        setitimer(ITIMER_REAL, &often, NULL);
    }
    printf("port %d\n", ntohs(address.sin_port));
    fflush(stdout);
    for (int number = 0; number < CONNECTIONS;) {
        int fd = accept(listener, NULL, NULL);
        if (fd < 0) {
            if (errno == EINTR)
                continue;
            fail("accept");
        }
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        struct connection *it = &connections[number++];
        it->fd = fd;
        it->number = number;
        it->status = 2;
        if (pthread_create(&it->thread, NULL, serve, it) != 0)
            fail("pthread_create");
    }
    return 0;
}

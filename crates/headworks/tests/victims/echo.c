/* A server that answers each line by "ok LINE". A line "wait" is answered when the file named by the second
 * argument exists. First argument: "threads", one for each connection; "loop", one for all of them; "records", as
 * threads, but with the greeting of a MySQL server first, and any receipt is answered by one record of TLS.
 *
 * "threads:READ:WRITE" says by which calls: READ is recv, read, readv, recvfrom, recvmsg or syscall; WRITE is send,
 * write, writev, sendmsg, sendto, sendmmsg, sendfile, splice, syscall, or worker: by `send` in another thread.
 *
 * More lines: "end HOW" ends the connection by close_range, closefrom, dup2 or dup3, and its thread stays; "push N"
 * waits for the file, sends "pushed" to the Nth connection, and is answered when the file is gone; "back" is answered
 * once a connection of its own to this server has been. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static const char *gate_file;
static const char *reads = "recv", *writes = "send";
static int records;
static struct sockaddr_in6 address = {.sin6_family = AF_INET6};
static int accepted[256], count_accepted;

static const unsigned char greeting[] = {
    0x4a, 0, 0, 0, 0x0a, '5', '.', '7', '.', '0', 0, 1, 0, 0, 0, 's', 'a', 'l', 't', 's', 'a', 'l', 't', 0,
    0xff, 0xff, 8, 2, 0, 0xff, 0xc1, 21, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 'm', 'o', 'r', 'e', 's', 'a', 'l', 't',
    'm', 'o', 'r', 'e', 0, 'm', 'y', 's', 'q', 'l', '_', 'n', 'a', 't', 'i', 'v', 'e', '_', 'p', 'a', 's', 's',
    'w', 'o', 'r', 'd', 0, 0};

static ssize_t take(int fd, char *line, size_t size) {
    struct iovec parts[2] = {{line, 2}, {line + 2, size - 2}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    if (!strcmp(reads, "read")) return read(fd, line, size);
    if (!strcmp(reads, "readv")) return readv(fd, parts, 2);
    if (!strcmp(reads, "recvfrom")) return recvfrom(fd, line, size, 0, 0, 0);
    if (!strcmp(reads, "recvmsg")) return recvmsg(fd, &message, 0);
    if (!strcmp(reads, "syscall")) return syscall(SYS_recvfrom, fd, line, size, 0, 0, 0);
    return recv(fd, line, size, 0);
}

struct job {
    int fd;
    size_t size;
    char reply[600];
};

static void *work(void *argument) {
    struct job *job = argument;
    /* The thread that read it reads again by now. */
    usleep(20000);
    send(job->fd, job->reply, job->size, MSG_NOSIGNAL);
    free(job);
    return 0;
}

static int give(int fd, char *reply, size_t size) {
    struct iovec parts[2] = {{reply, 1}, {reply + 1, size - 1}};
    struct mmsghdr message = {.msg_hdr = {.msg_iov = parts, .msg_iovlen = 2}};
    int file, ends[2], done = -1;
    if (!strcmp(writes, "write")) return write(fd, reply, size);
    if (!strcmp(writes, "writev")) return writev(fd, parts, 2);
    if (!strcmp(writes, "sendmsg")) return sendmsg(fd, &message.msg_hdr, MSG_NOSIGNAL);
    if (!strcmp(writes, "sendto")) return sendto(fd, reply, size, MSG_NOSIGNAL, 0, 0);
    if (!strcmp(writes, "sendmmsg")) return sendmmsg(fd, &message, 1, MSG_NOSIGNAL);
    if (!strcmp(writes, "syscall")) return syscall(SYS_sendto, fd, reply, size, MSG_NOSIGNAL, 0, 0);
    if (!strcmp(writes, "sendfile")) {
        off_t at = 0;
        file = memfd_create("reply", 0);
        if (pwrite(file, reply, size, 0) > 0) done = sendfile(fd, file, &at, size);
        syscall(SYS_close, file);
        return done;
    }
    if (!strcmp(writes, "splice")) {
        if (pipe(ends) || write(ends[1], reply, size) < 0) return -1;
        done = splice(ends[0], 0, fd, 0, size, 0);
        syscall(SYS_close, ends[0]);
        syscall(SYS_close, ends[1]);
        return done;
    }
    if (!strcmp(writes, "worker")) {
        pthread_t thread;
        struct job *job = malloc(sizeof *job);
        job->fd = fd, job->size = size;
        memcpy(job->reply, reply, size);
        pthread_create(&thread, 0, work, job);
        pthread_detach(thread);
        return size;
    }
    return send(fd, reply, size, MSG_NOSIGNAL);
}

static void end(int fd, const char *how) {
    int null = open("/dev/null", O_RDWR);
    if (!strcmp(how, "close_range")) close_range(fd, fd, 0);
    if (!strcmp(how, "closefrom")) closefrom(fd);
    if (!strcmp(how, "dup2")) dup2(null, fd);
    if (!strcmp(how, "dup3")) dup3(null, fd, O_CLOEXEC);
    for (;;) pause();
}

static void back(void) {
    struct pollfd other = {.fd = socket(AF_INET6, SOCK_STREAM, 0), .events = POLLIN};
    char line[16];
    connect(other.fd, (struct sockaddr *)&address, sizeof address);
    send(other.fd, "inner\n", 6, MSG_NOSIGNAL);
    poll(&other, 1, -1);
    recv(other.fd, line, sizeof line, 0);
    close(other.fd);
}

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
    if (!strncmp(line, "end ", 4)) end(fd, line + 4);
    if (!strncmp(line, "push ", 5)) {
        while (access(gate_file, F_OK)) usleep(2000);
        send(accepted[atoi(line + 5) - 1], "pushed\n", 7, MSG_NOSIGNAL);
        while (!access(gate_file, F_OK)) usleep(2000);
    }
    if (!strcmp(line, "back")) back();
    int size = snprintf(reply, sizeof reply, "ok %s\n", line);
    return give(fd, reply, size) > 0;
}

static void *serve(void *argument) {
    int fd = (int)(long)argument;
    char line[512];
    ssize_t length;
    if (records) send(fd, greeting, sizeof greeting, MSG_NOSIGNAL);
    while ((length = take(fd, line, sizeof line - 1)) > 0 && answer(fd, line, length)) {}
    close(fd);
    return 0;
}

int main(int argc, char **argv) {
    int listener = socket(AF_INET6, SOCK_STREAM, 0), off = 0;
    socklen_t size = sizeof address;
    int loop = !strcmp(argv[1], "loop");
    records = !strcmp(argv[1], "records");
    gate_file = argv[2];
    if (strtok(argv[1], ":")) {
        char *how = strtok(0, ":");
        if (how) reads = how;
        if (how && (how = strtok(0, ":"))) writes = how;
    }
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
            accepted[count_accepted++ % 256] = fd;
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
            ssize_t length = take(fds[at].fd, line, sizeof line - 1);
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

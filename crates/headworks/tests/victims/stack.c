// Makes each call in a thread of its own that has made none, on a file of its own with much that is dirty:
// on the thread's stack, or in a signal handler on an alternate stack. Prints for each how many bytes of the
// stack were used.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sem.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define STACK (64 << 10)
#define PIECE (256 << 10)
#define PIECES 40
#define FREE_FD 900

struct request {
    unsigned long data;
    unsigned key, flags;
    unsigned short opcode;
    short priority;
    unsigned fd;
    unsigned long buffer, bytes;
    long offset, reserved;
    unsigned rest[2];
};

static char page[4096], *stack, *mapped;
static struct iovec part = {page, sizeof page}, word = {page, 5};
static struct msghdr message = {.msg_iov = &word, .msg_iovlen = 1};
static struct mmsghdr messages = {.msg_hdr = {.msg_iov = &word, .msg_iovlen = 1}};
static struct request request, *requests[] = {&request};
static struct epoll_event event = {.events = EPOLLIN}, events[4];
static struct pollfd polled = {.events = POLLIN};
static struct sembuf up = {0, 1, 0}, down = {0, -1, 0};
static const struct timespec soon = {0, 1000}, past = {1, 0};
static unsigned long context;
static int fd, from, volatile_result, listener, client, served, set, pipes[2], semaphores;
static off_t at;
static FILE *stream, *buffered;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, held = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static sem_t semaphore;
static void (*volatile call)(void);

// As fortified programs call them, and the function that only the hooks have.
long __recv_chk(int, void *, size_t, size_t, int), __read_chk(int, void *, size_t, size_t);
long __recvfrom_chk(int, void *, size_t, size_t, int, void *, void *);
long __pread_chk(int, void *, size_t, off_t, size_t), __pread64_chk(int, void *, size_t, off_t, size_t);
int __poll_chk(struct pollfd *, nfds_t, int, size_t), __open_2(const char *, int), __open64_2(const char *, int);
int __openat_2(int, const char *, int), __openat64_2(int, const char *, int);
static void (*found)(int);
static int other(void) {
    if (found) found(0);
    return 0;
}

static int ask(void) {
    return send(client, "hello", 5, 0);
}

#define SERVED(DO)                                                       \
    DO(recv, recv(served, page, 5, 0))                                   \
    DO(__recv_chk, __recv_chk(served, page, 5, sizeof page, 0))          \
    DO(read, read(served, page, 5))                                      \
    DO(__read_chk, __read_chk(served, page, 5, sizeof page))             \
    DO(readv, readv(served, &word, 1))                                   \
    DO(recvfrom, recvfrom(served, page, 5, 0, NULL, NULL))               \
    DO(__recvfrom_chk, __recvfrom_chk(served, page, 5, sizeof page, 0, NULL, NULL)) \
    DO(recvmsg, recvmsg(served, &message, 0))                            \
    DO(send, send(served, page, 5, 0))                                   \
    DO(write, write(served, page, 5))                                    \
    DO(writev, writev(served, &word, 1))                                 \
    DO(sendmsg, sendmsg(served, &message, 0))                            \
    DO(sendto, sendto(served, page, 5, 0, NULL, 0))                      \
    DO(sendmmsg, sendmmsg(served, &messages, 1, 0))                      \
    DO(sendfile, sendfile(served, from, &at, 4096))                      \
    DO(sendfile64, sendfile64(served, from, &at, 4096))                  \
    DO(splice, splice(pipes[0], NULL, served, NULL, 5, 0))               \
    DO(poll, poll(&polled, 1, 1))                                        \
    DO(__poll_chk, __poll_chk(&polled, 1, 1, sizeof polled))             \
    DO(ppoll, ppoll(&polled, 1, &soon, NULL))                            \
    DO(shutdown, shutdown(served, SHUT_RDWR))                            \
    DO(close, close(served))

#define CALLS(DO)                                                       \
    DO(nothing, 0)                                                      \
    DO(write, write(fd, page, sizeof page))                             \
    DO(pwrite, pwrite(fd, page, sizeof page, 0))                        \
    DO(pwrite64, pwrite64(fd, page, sizeof page, 0))                    \
    DO(writev, writev(fd, &part, 1))                                    \
    DO(pwritev, pwritev(fd, &part, 1, 0))                               \
    DO(pwritev64, pwritev64(fd, &part, 1, 0))                           \
    DO(pwritev2, pwritev2(fd, &part, 1, 0, RWF_DSYNC))                  \
    DO(pwritev64v2, pwritev64v2(fd, &part, 1, 0, RWF_DSYNC))            \
    DO(read, read(fd, page, sizeof page))                               \
    DO(readv, readv(fd, &part, 1))                                      \
    DO(pread, pread(fd, page, sizeof page, 8192))                       \
    DO(pread64, pread64(fd, page, sizeof page, 8192))                   \
    DO(__pread_chk, __pread_chk(fd, page, sizeof page, 0, sizeof page)) \
    DO(__pread64_chk, __pread64_chk(fd, page, sizeof page, 0, sizeof page)) \
    DO(preadv, preadv(fd, &part, 1, 8192))                              \
    DO(preadv64, preadv64(fd, &part, 1, 8192))                          \
    DO(preadv2, preadv2(fd, &part, 1, 8192, 0))                         \
    DO(preadv64v2, preadv64v2(fd, &part, 1, 8192, 0))                   \
    DO(fsync, fsync(fd))                                                \
    DO(fdatasync, fdatasync(fd))                                        \
    DO(syncfs, syncfs(fd))                                              \
    DO(sync_file_range, sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE)) \
    DO(msync, msync(mapped, PIECE, MS_SYNC))                            \
    DO(mmap, mmap(NULL, PIECE, PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED) \
    DO(mmap64, mmap64(NULL, PIECE, PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED) \
    DO(copy_file_range, copy_file_range(from, &at, fd, NULL, 4096, 0))  \
    DO(sendfile, sendfile(fd, from, &at, 4096))                         \
    DO(ftruncate, ftruncate(fd, PIECE))                                 \
    DO(ftruncate64, ftruncate64(fd, PIECE))                             \
    DO(truncate, truncate("file", PIECE))                               \
    DO(truncate64, truncate64("file", PIECE))                           \
    DO(fallocate, fallocate(fd, FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE, 0, PIECE)) \
    DO(fallocate64, fallocate64(fd, FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE, 0, PIECE)) \
    DO(posix_fallocate, posix_fallocate(fd, 0, PIECE))                  \
    DO(posix_fallocate64, posix_fallocate64(fd, 0, PIECE))              \
    DO(open, open("made", O_CREAT | O_RDWR, 0600))                      \
    DO(open64, open64("made", O_CREAT | O_RDWR | O_TRUNC, 0600))        \
    DO(__open_2, __open_2("made", O_RDWR | O_TRUNC))                    \
    DO(__open64_2, __open64_2("made", O_RDWR | O_TRUNC))                \
    DO(openat, openat(AT_FDCWD, "made too", O_CREAT | O_RDWR | O_TRUNC, 0600)) \
    DO(openat64, openat64(AT_FDCWD, "made too", O_CREAT | O_RDWR | O_TRUNC, 0600)) \
    DO(__openat_2, __openat_2(AT_FDCWD, "made", O_RDWR | O_TRUNC))      \
    DO(__openat64_2, __openat64_2(AT_FDCWD, "made", O_RDWR | O_TRUNC))  \
    DO(creat, creat("made", 0600))                                      \
    DO(creat64, creat64("made", 0600))                                  \
    DO(mkdir, mkdir("directory", 0700))                                 \
    DO(mkdirat, mkdirat(AT_FDCWD, "another", 0700))                     \
    DO(rmdir, rmdir("another"))                                         \
    DO(symlink, symlink("file", "symbolic"))                            \
    DO(symlinkat, symlinkat("file", AT_FDCWD, "symbolic too"))          \
    DO(link, link("file", "second"))                                    \
    DO(rename, rename("second", "third"))                               \
    DO(unlink, unlink("third"))                                         \
    DO(linkat, linkat(AT_FDCWD, "file", AT_FDCWD, "second", 0))         \
    DO(renameat, renameat(AT_FDCWD, "second", AT_FDCWD, "third"))       \
    DO(renameat2, renameat2(AT_FDCWD, "third", AT_FDCWD, "fourth", 0))  \
    DO(unlinkat, unlinkat(AT_FDCWD, "fourth", 0))                       \
    DO(remove, remove("symbolic"))                                      \
    DO(io_submit, syscall(SYS_io_submit, context, 1L, requests))        \
    DO(syscall, syscall(SYS_fsync, fd))                                 \
    DO(fcntl, fcntl(fd, F_SETFL, 0))                                    \
    DO(fcntl64, fcntl64(fd, F_SETFL, 0))                                \
    DO(dup2, dup2(from, FREE_FD))                                       \
    DO(dup3, dup3(from, FREE_FD + 1, 0))                                \
    DO(close, close(FREE_FD))                                           \
    DO(close_range, close_range(FREE_FD, FREE_FD + 50, 0))              \
    DO(closefrom, (closefrom(FREE_FD), 0))                              \
    DO(fwrite, fwrite(page, 1, sizeof page, buffered))                  \
    DO(fwrite_unlocked, fwrite_unlocked(page, 1, sizeof page, buffered)) \
    DO(fputs, fputs("word", buffered))                                  \
    DO(fputs_unlocked, fputs_unlocked("word", buffered))                \
    DO(fclose, fclose(stream))                                          \
    DO(pthread_mutex_lock, pthread_mutex_lock(&mutex))                  \
    DO(pthread_mutex_timedlock, pthread_mutex_timedlock(&held, &past))  \
    DO(pthread_rwlock_rdlock, pthread_rwlock_rdlock(&lock))             \
    DO(pthread_rwlock_unlock, pthread_rwlock_unlock(&lock))             \
    DO(pthread_rwlock_wrlock, pthread_rwlock_wrlock(&lock))             \
    DO(pthread_cond_signal, pthread_cond_signal(&condition))            \
    DO(pthread_cond_broadcast, pthread_cond_broadcast(&condition))      \
    DO(pthread_cond_timedwait, pthread_cond_timedwait(&condition, &mutex, &past)) \
    DO(pthread_cond_clockwait, pthread_cond_clockwait(&condition, &mutex, CLOCK_MONOTONIC, &past)) \
    DO(sem_post, sem_post(&semaphore))                                  \
    DO(sem_wait, sem_wait(&semaphore))                                  \
    DO(sem_timedwait, sem_timedwait(&semaphore, &past))                 \
    DO(sem_clockwait, sem_clockwait(&semaphore, CLOCK_MONOTONIC, &past)) \
    DO(semop, semop(semaphores, &up, 1))                                \
    DO(semtimedop, semtimedop(semaphores, &down, 1, &soon))             \
    DO(listen, listen(listener, 8))                                     \
    DO(accept, accept(listener, NULL, NULL))                            \
    DO(accept4, accept4(listener, NULL, NULL, SOCK_CLOEXEC))            \
    DO(epoll_create, epoll_create(1))                                   \
    DO(epoll_create1, epoll_create1(0))                                 \
    DO(epoll_ctl, epoll_ctl(set, EPOLL_CTL_ADD, pipes[0], &event))      \
    DO(epoll_wait, epoll_wait(set, events, 4, 0))                       \
    DO(epoll_pwait, epoll_pwait(set, events, 4, 0, NULL))               \
    DO(epoll_pwait2, epoll_pwait2(set, events, 4, &soon, NULL))         \
    DO(headworks_foreground, other())

#define FUNCTION(name, what) \
    static void call_##name(void) { volatile_result = (long)(what); }
CALLS(FUNCTION)
#define SERVES(name, what) \
    static void serve_##name(void) { volatile_result = (long)(what); }
SERVED(SERVES)
#define ENTRY(name, what) {#name, call_##name, 0},
#define SERVED_ENTRY(name, what) {#name "(client)", serve_##name, 1},
static const struct {
    const char *name;
    void (*call)(void);
    int serves;
} calls[] = {CALLS(ENTRY) SERVED(SERVED_ENTRY)};

static void handler(int number) {
    (void)number;
    call();
}

static void *by_a_handler(void *unused) {
    prctl(PR_SET_NAME, "held");
    stack_t other = {.ss_sp = stack, .ss_size = STACK};
    if (sigaltstack(&other, NULL)) exit(1);
    raise(SIGUSR1);
    return unused;
}

static void *by_itself(void *unused) {
    prctl(PR_SET_NAME, "held");
    call();
    return unused;
}

static int connected(struct sockaddr_in *address) {
    int one = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(one, (struct sockaddr *)address, sizeof *address)) exit(1);
    return one;
}

int main(int count, char **arguments) {
    int handled = !strcmp(arguments[1], "handler");
    char name[201];
    memset(name, 'n', 200);
    name[200] = 0;
    // Twice, so that the path does not fit into a short buffer.
    if (chdir(arguments[count - 1]) || mkdir(name, 0700) || chdir(name)) return 1;
    if (mkdir(name, 0700) || chdir(name)) return 1;
    stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR1, &action, NULL);
    if (syscall(SYS_io_setup, 8, &context)) return 1;
    int commit = open("commit", O_CREAT | O_RDWR, 0600);
    from = open("from", O_CREAT | O_RDWR, 0600);
    if (write(from, page, sizeof page) != sizeof page) return 1;
    stream = fopen("stream", "w");
    buffered = fopen("buffered", "w");
    setvbuf(stream, NULL, _IOFBF, 1 << 20);
    setvbuf(buffered, NULL, _IOFBF, 1 << 20);
    for (int step = 0; step < 40; step++) fwrite(page, 1, sizeof page, stream);
    pthread_mutex_lock(&held);
    sem_init(&semaphore, 0, 0);
    semaphores = semget(IPC_PRIVATE, 1, 0600);
    set = epoll_create1(0);
    listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    if (pipe(pipes) || bind(listener, (struct sockaddr *)&address, length)) return 1;
    getsockname(listener, (struct sockaddr *)&address, &length);
    listen(listener, 8);
    for (size_t step = 0; step < sizeof calls / sizeof *calls; step++) {
        fd = open("file", O_CREAT | O_TRUNC | O_RDWR, 0600);
        for (int piece = 0; piece < PIECES; piece++) pwrite(fd, page, sizeof page, piece * 2L * PIECE);
        mapped = mmap(NULL, PIECE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        memset(mapped, 'm', PIECE);
        request = (struct request){.opcode = step % 2, .fd = fd, .buffer = (long)page, .bytes = 4096};
        pwrite(commit, page, sizeof page, 0);
        fsync(commit);
        if (write(pipes[1], "bytes", 5) != 5) return 1;
        int accepts = !strncmp(calls[step].name, "accept", 6);
        if (accepts || calls[step].serves) client = connected(&address);
        if (calls[step].serves) {
            polled.fd = served = accept(listener, NULL, NULL);
            ask();
            if (strncmp(calls[step].name, "rec", 3) && strncmp(calls[step].name, "__re", 4) &&
                strncmp(calls[step].name, "rea", 3))
                recv(served, page, 5, 0);
        }
        at = 0;
        call = calls[step].call;
        found = (void (*)(int))dlsym(RTLD_DEFAULT, calls[step].name);
        memset(stack, 0xA5, STACK);
        pthread_t one;
        pthread_attr_t attributes;
        pthread_attr_init(&attributes);
        if (!handled) pthread_attr_setstack(&attributes, stack, STACK);
        pthread_create(&one, &attributes, handled ? by_a_handler : by_itself, NULL);
        pthread_join(one, NULL);
        long lowest = 0;
        while (lowest < STACK && stack[lowest] == (char)0xA5) lowest++;
        printf("%s %ld\n", calls[step].name, STACK - lowest);
        munmap(mapped, PIECE);
        close(fd);
        if (accepts || calls[step].serves) close(client);
        if (calls[step].serves) close(served);
        unlink("file");
    }
    semctl(semaphores, 0, IPC_RMID);
    return 0;
}

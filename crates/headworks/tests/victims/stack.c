// Makes each call in a signal handler on an alternate stack, in a thread of its own that has made none,
// on a file of its own with much that is dirty. Prints for each how many bytes of the stack were used.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define STACK (64 << 10)
#define PIECE (256 << 10)
#define PIECES 40

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
static struct iovec part = {page, sizeof page};
static struct request request, *requests[] = {&request};
static unsigned long context;
static int fd, from, volatile_result;
static off_t at;
static FILE *stream;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static void (*volatile call)(void);

#define CALLS(DO)                                                       \
    DO(nothing, 0)                                                      \
    DO(write, write(fd, page, sizeof page))                             \
    DO(pwrite, pwrite(fd, page, sizeof page, 0))                        \
    DO(writev, writev(fd, &part, 1))                                    \
    DO(pwritev, pwritev(fd, &part, 1, 0))                               \
    DO(pwritev2, pwritev2(fd, &part, 1, 0, RWF_DSYNC))                  \
    DO(read, read(fd, page, sizeof page))                               \
    DO(pread, pread(fd, page, sizeof page, 8192))                       \
    DO(preadv, preadv(fd, &part, 1, 8192))                              \
    DO(fsync, fsync(fd))                                                \
    DO(fdatasync, fdatasync(fd))                                        \
    DO(syncfs, syncfs(fd))                                              \
    DO(sync_file_range, sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE)) \
    DO(msync, msync(mapped, PIECE, MS_SYNC))                            \
    DO(mmap, mmap(NULL, PIECE, PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED) \
    DO(copy_file_range, copy_file_range(from, &at, fd, NULL, 4096, 0))  \
    DO(sendfile, sendfile(fd, from, &at, 4096))                         \
    DO(ftruncate, ftruncate(fd, PIECE))                                 \
    DO(truncate, truncate("file", PIECE))                               \
    DO(fallocate, fallocate(fd, FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE, 0, PIECE)) \
    DO(open, open("made", O_CREAT | O_RDWR, 0600))                      \
    DO(openat, openat(AT_FDCWD, "made too", O_CREAT | O_RDWR | O_TRUNC, 0600)) \
    DO(creat, creat("made", 0600))                                      \
    DO(mkdir, mkdir("directory", 0700))                                 \
    DO(link, link("file", "second"))                                    \
    DO(rename, rename("second", "third"))                               \
    DO(unlink, unlink("third"))                                         \
    DO(io_submit, syscall(SYS_io_submit, context, 1L, requests))        \
    DO(syscall, syscall(SYS_fsync, fd))                                 \
    DO(fcntl, fcntl(fd, F_SETFL, 0))                                    \
    DO(dup2, dup2(from, fd))                                            \
    DO(close, close(dup(fd)))                                           \
    DO(fwrite, fwrite(page, 1, sizeof page, stream))                    \
    DO(fclose, fclose(stream))                                          \
    DO(mutex_lock, pthread_mutex_lock(&mutex))                          \
    DO(mutex_unlock, pthread_mutex_unlock(&mutex))

#define FUNCTION(name, what) \
    static void call_##name(void) { volatile_result = (long)(what); }
CALLS(FUNCTION)
#define ENTRY(name, what) {#name, call_##name},
static const struct {
    const char *name;
    void (*call)(void);
} calls[] = {CALLS(ENTRY)};

static void handler(int number) {
    (void)number;
    call();
}

static void *thread(void *unused) {
    prctl(PR_SET_NAME, "held");
    stack_t other = {.ss_sp = stack, .ss_size = STACK};
    if (sigaltstack(&other, NULL)) exit(1);
    raise(SIGUSR1);
    return unused;
}

int main(int count, char **arguments) {
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
    setvbuf(stream, NULL, _IOFBF, 1 << 20);
    for (int step = 0; step < 40; step++) fwrite(page, 1, sizeof page, stream);
    for (size_t step = 0; step < sizeof calls / sizeof *calls; step++) {
        fd = open("file", O_CREAT | O_TRUNC | O_RDWR, 0600);
        for (int piece = 0; piece < PIECES; piece++) pwrite(fd, page, sizeof page, piece * 2L * PIECE);
        mapped = mmap(NULL, PIECE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        memset(mapped, 'm', PIECE);
        request = (struct request){.opcode = step % 2, .fd = fd, .buffer = (long)page, .bytes = 4096};
        pwrite(commit, page, sizeof page, 0);
        fsync(commit);
        at = 0;
        call = calls[step].call;
        memset(stack, 0xA5, STACK);
        pthread_t one;
        pthread_create(&one, NULL, thread, NULL);
        pthread_join(one, NULL);
        long lowest = 0;
        while (lowest < STACK && stack[lowest] == (char)0xA5) lowest++;
        printf("%s %ld\n", calls[step].name, STACK - lowest);
        munmap(mapped, PIECE);
        close(fd);
        unlink("file");
    }
    return 0;
}

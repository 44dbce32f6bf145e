// Submits I/O in batches, by bare system calls and through mappings, well and badly, and prints
// each result. Whatever schedules its calls, it must print the same. At its end it runs AT_END.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define SAY(call)                                                   \
    do {                                                            \
        errno = 0;                                                  \
        long result = (long)(call);                                 \
        printf("%s = %ld (%d)\n", #call, result, errno);            \
    } while (0)

static char *page;

static struct iocb request(int opcode, int fd, void *buffer, long bytes, long offset) {
    struct iocb made = {.aio_lio_opcode = opcode, .aio_fildes = fd, .aio_buf = (long)buffer,
                        .aio_nbytes = bytes, .aio_offset = offset};
    return made;
}

static void ended(aio_context_t context, int count) {
    struct io_event events[16];
    long sum = 0;
    int got = syscall(SYS_io_getevents, context, count, 16, events, NULL);
    for (int at = 0; at < got; at++) sum += events[at].res;
    printf("%d events, %ld\n", got, sum);
}

#ifdef LIBAIO
int io_submit(aio_context_t, long, struct iocb **);
#else
static int io_submit(aio_context_t context, long count, struct iocb **list) {
    return syscall(SYS_io_submit, context, count, list);
}
#endif

static void batches(int fd, int direct) {
    aio_context_t context = 0;
    SAY(syscall(SYS_io_setup, 32, &context));
    struct iovec parts[2] = {{page, 4096}, {page + 8192, 4096}};
    struct iocb all[6] = {
        request(IOCB_CMD_PWRITE, direct, page, 8192, 0),
        request(IOCB_CMD_PWRITE, fd, page, 100, 5000),
        request(IOCB_CMD_PREAD, direct, page + 16384, 4096, 4096),
        request(IOCB_CMD_PWRITEV, fd, parts, 2, 20000),
        request(IOCB_CMD_PREADV, fd, parts, 2, 1 << 20),
        request(IOCB_CMD_FDSYNC, fd, NULL, 0, 0),
    };
    struct iocb *list[6];
    for (int at = 0; at < 6; at++) list[at] = &all[at];
    SAY(io_submit(context, 3, list));
    ended(context, 3);
    SAY(io_submit(context, 3, list + 3));
    ended(context, 3);
    all[1].aio_fildes = 999;
    SAY(io_submit(context, 3, list) < 0 ? -1 : 1);
    ended(context, 1);
    SAY(io_submit(context, 0, list));
    SAY(syscall(SYS_io_destroy, context));
}

static void bare(int fd) {
    char got[16] = {0};
    SAY(syscall(SYS_pwrite64, fd, "bare", 4, 3L));
    SAY(syscall(SYS_pread64, fd, got, 4, 3L));
    SAY(syscall(SYS_pwrite64, -1, "bare", 4, 3L));
    SAY(syscall(SYS_pwrite64, fd, (void *)8, 4, 3L));
    SAY(syscall(SYS_fsync, fd));
    SAY(syscall(SYS_fdatasync, -1));
    SAY(syscall(SYS_ftruncate, fd, 100000L));
    SAY(syscall(SYS_fallocate, fd, 0, 0L, 4096L));
    SAY(syscall(SYS_renameat2, AT_FDCWD, "none", AT_FDCWD, "other", 0));
    unsigned long how[3] = {O_CREAT | O_RDWR, 0600, 0};
    SAY(syscall(SYS_openat2, AT_FDCWD, "second", how, sizeof how) > 0);
    SAY(syscall(SYS_openat2, AT_FDCWD, "second", how, 3));
    SAY(syscall(SYS_getpid) == getpid());
    SAY(syscall(99999, 1, 2, 3, 4, 5, 6));
    puts(got);
}

static void mappings(int fd) {
    char *map = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) abort();
    for (int at = 0; at < 16; at++) map[at * 4096 + 7] = at;
    SAY(msync(map, 65536, MS_ASYNC));
    SAY(msync(map, 65536, MS_SYNC));
    map[9000] = 1;
    SAY(msync(map + 8192, 4096, MS_SYNC));
    SAY(msync(map + 1, 4096, MS_SYNC));
    SAY(munmap(map, 65536));
    SAY(msync(map, 65536, MS_SYNC));
    SAY(mmap(NULL, 0, PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
    SAY(mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, 999, 0) == MAP_FAILED);
}

#ifdef LIBURING
int io_uring_queue_init(unsigned, void *, unsigned);
void io_uring_queue_exit(void *);
int io_uring_submit_and_wait(void *, unsigned);
int io_uring_submit(void *);
struct io_uring_sqe *io_uring_get_sqe(void *);
unsigned io_uring_peek_batch_cqe(void *, struct io_uring_cqe **, unsigned);

static void *ring;

static void rings(int fd) {
    ring = calloc(1, 4096);
    SAY(io_uring_queue_init(16, ring, 0));
    for (int at = 0; at < 4; at++) {
        struct io_uring_sqe *entry = io_uring_get_sqe(ring);
        *entry = (struct io_uring_sqe){.opcode = at < 2 ? IORING_OP_WRITE : at < 3 ? IORING_OP_READ
                                       : IORING_OP_FSYNC, .fd = fd, .off = at * 4096L,
                                       .addr = (long)page, .len = 4096};
        if (at == 3) entry->addr = entry->len = entry->off = 0;
    }
    SAY(io_uring_submit_and_wait(ring, 4));
    struct io_uring_cqe *got[16];
    unsigned count = io_uring_peek_batch_cqe(ring, got, 16);
    long sum = 0;
    for (unsigned at = 0; at < count; at++) sum += got[at]->res;
    printf("%u completions, %ld\n", count, sum);
    void *other = calloc(1, 4096);
    SAY(io_uring_queue_init(4, other, IORING_SETUP_SQPOLL));
    SAY(io_uring_submit(other));
}
#endif

int main(int count, char **args) {
    if (chdir(args[1])) return 1;
    if (posix_memalign((void **)&page, 4096, 65536)) abort();
    memset(page, 'p', 65536);
    int fd = open("file", O_RDWR | O_CREAT, 0600);
    int direct = open("direct", O_RDWR | O_CREAT | O_DIRECT, 0600);
    if (ftruncate(fd, 65536)) abort();
    batches(fd, direct);
    bare(fd);
    mappings(fd);
#ifdef LIBURING
    rings(fd);
#endif
    fflush(stdout);
    if (getenv("AT_END")) return system(getenv("AT_END"));
    return 0;
}

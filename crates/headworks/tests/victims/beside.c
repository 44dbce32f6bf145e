// Commits 50 times a second by the calls that the second argument names, while another thread writes 40 MB and
// flushes them. At its end it runs AT_END.
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#ifdef LIBURING
int io_uring_queue_init(unsigned, void *, unsigned);
int io_uring_submit_and_wait(void *, unsigned);
struct io_uring_sqe *io_uring_get_sqe(void *);
unsigned io_uring_peek_batch_cqe(void *, struct io_uring_cqe **, unsigned);
void io_uring_queue_exit(void *);
#endif

static char page[4096], ring[4096] __attribute__((aligned(16)));
static const char *mode;
static aio_context_t context;
static volatile int over;

static int is(const char *name) { return !strcmp(mode, name); }

static int batch(int fd, int opcode, long bytes, int flags) {
    struct iocb one = {.aio_lio_opcode = opcode, .aio_fildes = fd, .aio_buf = bytes ? (long)page : 0, .aio_nbytes = bytes,
                       .aio_rw_flags = flags}, *all = &one;
    struct io_event event;
    return syscall(SYS_io_submit, context, 1L, &all) != 1
           || syscall(SYS_io_getevents, context, 1L, 1L, &event, NULL) != 1 || (long)event.res < 0;
}

static int by_ring(int fd, int flags) {
#ifdef LIBURING
    struct io_uring_cqe *got[2];
    unsigned wanted = flags ? 1 : 2;
    struct io_uring_sqe *entry = io_uring_get_sqe(ring);
    *entry = (struct io_uring_sqe){.opcode = IORING_OP_WRITE, .fd = fd, .addr = (long)page, .len = sizeof page,
                                   .rw_flags = flags, .flags = flags ? 0 : IOSQE_IO_LINK};
    if (!flags) *io_uring_get_sqe(ring) = (struct io_uring_sqe){.opcode = IORING_OP_FSYNC, .fd = fd};
    if (io_uring_submit_and_wait(ring, wanted) < 0) return 1;
    unsigned count = io_uring_peek_batch_cqe(ring, got, 2);
    int failed = count != wanted || got[0]->res < 0;
    // Makes it new, rather than to say by the library's own inline code that the entries were seen.
    io_uring_queue_exit(ring);
    return failed || io_uring_queue_init(8, ring, 0);
#else
    return 1;
#endif
}

static int commit(int fd) {
    if (is("fsync")) return pwrite(fd, page, sizeof page, 0) != sizeof page || fsync(fd);
    if (is("libaio-fsync")) return pwrite(fd, page, sizeof page, 0) != sizeof page || batch(fd, IOCB_CMD_FDSYNC, 0, 0);
    if (is("libaio-durable")) return batch(fd, IOCB_CMD_PWRITE, sizeof page, 0);
    if (is("libaio-flag")) return batch(fd, IOCB_CMD_PWRITE, sizeof page, RWF_DSYNC);
    return by_ring(fd, is("ring-flag") ? RWF_DSYNC : 0);
}

static void *writer(void *unused) {
    prctl(PR_SET_NAME, "writer");
    static char much[1 << 20];
    int fd = open("big", O_WRONLY | O_CREAT, 0600);
    for (int at = 0; at < 40; at++)
        if (write(fd, much, sizeof much) != sizeof much) exit(1);
    if (fsync(fd)) exit(1);
    over = 1;
    return unused;
}

int main(int count, char **args) {
    if (count < 3 || chdir(args[2])) return 1;
    mode = args[1];
    if (syscall(SYS_io_setup, 8, &context)) return 1;
#ifdef LIBURING
    if (io_uring_queue_init(8, ring, 0)) return 77;
#endif
    int fd = open("log", O_WRONLY | O_CREAT | (is("libaio-durable") ? O_DSYNC : 0), 0600);
    pthread_t thread;
    for (int at = 0; at < 10; at++, usleep(20000))
        if (commit(fd)) return 2;
    pthread_create(&thread, NULL, writer, NULL);
    for (; !over; usleep(20000))
        if (commit(fd)) return 2;
    pthread_join(thread, NULL);
    return getenv("AT_END") ? system(getenv("AT_END")) : 0;
}

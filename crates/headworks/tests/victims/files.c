// Does everything to files that a database does, well and badly, and prints each result. Whatever
// schedules its calls, it must print the same.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define SAY(call)                                                   \
    do {                                                            \
        errno = 0;                                                  \
        long result = (long)(call);                                 \
        printf("%s = %ld (%d)\n", #call, result, errno);            \
    } while (0)

static char page[4096];

// No memory is there. The compiler does not know, and does not warn.
static void *volatile nowhere = (void *)1;

static void *flusher(void *fd) {
    prctl(PR_SET_NAME, "small");
    for (int at = 0; at < 50; at++) {
        if (pwrite(*(int *)fd, page, sizeof page, at * 4096L) != sizeof page) abort();
        if (fsync(*(int *)fd)) abort();
    }
    return NULL;
}

static unsigned long checksum(const char *path) {
    int fd = open(path, O_RDONLY);
    unsigned long sum = 5381;
    char part[65536];
    long count;
    while ((count = read(fd, part, sizeof part)) > 0)
        for (long at = 0; at < count; at++) sum = sum * 33 + (unsigned char)part[at];
    close(fd);
    return sum;
}

static void calls(void) {
    char got[64] = {0};
    struct iovec parts[2] = {{"hello ", 6}, {"world", 5}}, into[2] = {{got, 4}, {got + 8, 3}};
    int a;
    SAY(a = open("a", O_RDWR | O_CREAT | O_TRUNC, 0600));
    SAY(write(a, "0123456789", 10));
    SAY(pwrite(a, "xyz", 3, 100));
    SAY(lseek(a, 0, SEEK_CUR));
    SAY(writev(a, parts, 2));
    SAY(pwritev(a, parts, 2, 4090));
    SAY(pread(a, got, 8, 98));
    SAY(preadv(a, into, 2, 10));
    SAY(lseek(a, 3, SEEK_SET));
    SAY(read(a, got, 4));
    SAY(readv(a, into, 2));
    printf("%.4s %.3s\n", got, got + 8);
    SAY(fsync(a));
    SAY(fdatasync(a));
    SAY(ftruncate(a, 50));
    SAY(lseek(a, 0, SEEK_END));
    int b;
    SAY(b = openat(AT_FDCWD, "b", O_RDWR | O_CREAT | O_APPEND, 0600));
    SAY(write(b, "append", 6));
    SAY(dup2(b, a));
    SAY(write(a, "to b", 4));
    SAY(close(a));
    SAY(write(a, "gone", 4));
    SAY(fsync(a));
    SAY(pwrite(-1, "x", 1, 0));
    SAY(pwrite(b, nowhere, 10, 0));
    SAY(pread(b, got, 5, -1));
    SAY(rename("b", "c"));
    SAY(rename("none", "c"));
    SAY(unlink("none"));
    SAY(mkdir("dir", 0700));
    SAY(mkdir("dir", 0700));
    SAY(open("dir", O_WRONLY));
    SAY(open("none", O_RDONLY));
    SAY(creat("made", 0600) > 0);
    int ends[2];
    if (pipe(ends)) abort();
    SAY(fsync(ends[1]));
    SAY(write(ends[1], "pipe", 4));
    SAY(read(ends[0], got, 10));
    int direct = open("direct", O_RDWR | O_CREAT | O_DIRECT, 0600);
    void *aligned;
    if (posix_memalign(&aligned, 4096, 8192)) abort();
    memset(aligned, 7, 8192);
    SAY(pwrite(direct, aligned, 8192, 0));
    SAY(pwrite(direct, (char *)aligned + 1, 100, 0));
    SAY(pread(direct, aligned, 4096, 4096));
    SAY(fsync(direct));
    struct rlimit limit = {8192 * 2, RLIM_INFINITY};
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    int full = open("full", O_RDWR | O_CREAT, 0600);
    SAY(pwrite(full, page, 4096, 8192 * 2 - 100));
    SAY(pwrite(full, page, 4096, 8192 * 2));
    limit.rlim_cur = RLIM_INFINITY;
    setrlimit(RLIMIT_FSIZE, &limit);
}

// The less usual ways to change a file, with what each of them refuses.
static void more_calls(void) {
    char got[64] = {0};
    struct iovec parts[2] = {{"second ", 7}, {"wave", 4}}, into[2] = {{got, 4}, {got + 8, 3}};
    int a = open("more", O_RDWR | O_CREAT, 0600), from = open("c", O_RDONLY);
    SAY(pwritev2(a, parts, 2, 0, 0));
    SAY(pwritev2(a, parts, 2, -1, 0));
    SAY(lseek(a, 0, SEEK_CUR));
    SAY(pwritev2(a, parts, 2, 0, RWF_APPEND));
    SAY(preadv2(a, into, 2, 3, 0));
    SAY(preadv2(a, into, 2, -1, 0));
    SAY(preadv2(a, into, 2, 3, 1 << 30));
    SAY(pwritev2(-1, parts, 2, 0, 0));
    SAY(pwritev2(a, parts, 2, 40, RWF_DSYNC));
    SAY(pwritev2(a, parts, 2, -1, RWF_SYNC));
    int durable = open("more", O_WRONLY | O_DSYNC);
    SAY(pwrite(durable, page, sizeof page, 2000));
    SAY(pwrite(durable, nowhere, 10, 0));
    SAY(write(durable, "durable", 7));
    SAY(fsync(durable));
    SAY(close(durable));
    SAY(fallocate(a, 0, 0, 65536));
    SAY(fallocate(a, FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE, 4096, 8192));
    SAY(fallocate(a, 0, -1, 10));
    SAY(posix_fallocate(a, 65536, 4096));
    SAY(posix_fallocate(a, -1, 4096));
    SAY(posix_fallocate(-1, 0, 4096));
    SAY(sync_file_range(a, 0, 0, SYNC_FILE_RANGE_WRITE));
    SAY(sync_file_range(a, 0, 4096, SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER));
    SAY(sync_file_range(a, -1, 4096, 0));
    SAY(sync_file_range(-1, 0, 0, SYNC_FILE_RANGE_WRITE));
    SAY(syncfs(a));
    SAY(syncfs(-1));
    off_t in = 0, out = 70000;
    SAY(copy_file_range(from, &in, a, &out, 8, 0));
    printf("%ld %ld\n", in, out);
    SAY(copy_file_range(from, NULL, a, NULL, 100, 0));
    SAY(copy_file_range(from, &in, a, (off_t *)8, 1, 0));
    SAY(copy_file_range(-1, NULL, a, NULL, 100, 0));
    in = 2;
    SAY(sendfile(a, from, &in, 5));
    printf("%ld %ld\n", in, lseek(a, 0, SEEK_CUR));
    int ends[2];
    if (pipe(ends) || write(ends[1], "through a pipe", 14) != 14) abort();
    SAY(splice(ends[0], NULL, a, &out, 9, 0));
    SAY(splice(ends[0], NULL, a, NULL, 5, 0));
    printf("%ld %ld\n", out, lseek(a, 0, SEEK_CUR));
    SAY(truncate("more", 60000));
    SAY(truncate("none", 0));
    int dir = open("dir", O_RDONLY | O_DIRECTORY);
    SAY(mkdirat(dir, "in", 0700));
    SAY(mkdirat(dir, "in", 0700));
    SAY(renameat(AT_FDCWD, "full", dir, "moved"));
    SAY(renameat2(dir, "moved", AT_FDCWD, "full", RENAME_NOREPLACE));
    SAY(renameat2(dir, "moved", AT_FDCWD, "c", RENAME_NOREPLACE));
    SAY(link("full", "dir/hard"));
    SAY(linkat(dir, "hard", dir, "harder", 0));
    SAY(symlink("full", "soft"));
    SAY(symlinkat("full", dir, "soft"));
    SAY(unlinkat(dir, "soft", 0));
    SAY(unlinkat(dir, "in", AT_REMOVEDIR));
    SAY(rmdir("dir"));
    SAY(remove("dir/hard"));
    SAY(remove("none"));
    SAY(fsync(dir));
    SAY(fsync(dir));
    SAY(close(dir));
    SAY(fsync(dir));
    SAY(fcntl(a, F_SETFL, O_DIRECT));
    SAY(pwrite(a, page + 1, 100, 0));
    SAY(fcntl(a, F_SETFL, 0));
    SAY(pwrite(a, page + 1, 100, 0));
    SAY(fsync(a));
}

// A lock of the process must outlive all that is done to its file.
static void locks(int fd, int big) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 10};
    SAY(fcntl(fd, F_SETLK, &lock));
    SAY(fsync(big));
    SAY(fsync(fd));
    fflush(stdout);
    if (!fork()) {
        SAY(fcntl(fd, F_GETLK, &lock));
        printf("locked: %d\n", lock.l_type != F_UNLCK);
        SAY(pwrite(fd, "child", 5, 4096));
        SAY(fsync(fd));
        fflush(stdout);
        _exit(0);
    }
    wait(NULL);
}

int main(int count, char **args) {
    if (chdir(args[1])) return 1;
    memset(page, 'p', sizeof page);
    calls();
    more_calls();
    sync();
    int big = open("big", O_RDWR | O_CREAT, 0600), small = open("small", O_RDWR | O_CREAT, 0600);
    pthread_t thread;
    pthread_create(&thread, NULL, flusher, &small);
    unsigned long place = 1;
    for (int at = 0; at < 600; at++) {
        place = place * 6364136223846793005UL + 1442695040888963407UL;
        if (pwrite(big, page, sizeof page, (place >> 40) % 4096 * 4096) != sizeof page) abort();
    }
    locks(big, big);
    pthread_join(thread, NULL);
    // A child that is killed in whatever it is doing leaves nothing behind that others wait for.
    pid_t child = fork();
    if (!child) {
        prctl(PR_SET_NAME, "killed");
        for (long at = 0;; at++)
            if (pwrite(big, page, sizeof page, at * 77 % 4096 * 4096) < 0 || fsync(big)) _exit(1);
    }
    usleep(150000);
    kill(child, SIGKILL);
    int status;
    waitpid(child, &status, 0);
    SAY(WTERMSIG(status));
    if (ftruncate(big, 0)) abort();
    for (int at = 0; at < 40; at++)
        if (pwrite(big, page, sizeof page, at * 9L * 4096) != sizeof page || fsync(big)) abort();
    printf("a %lx big %lx small %lx c %lx more %lx\n", checksum("a"), checksum("big"), checksum("small"),
           checksum("c"), checksum("more"));
    return 0;
}

// Works on files while calls fail, disks are full, processes fork, are replaced and are killed, and
// prints each result. Whatever schedules its calls, it must print the same. At its end it runs
// AT_END.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static char page[8192];

static int opened(const char *name) {
    int fd = open(name, O_RDWR | O_CREAT, 0600);
    if (fd < 0) abort();
    return fd;
}

// Held for as long as calls are held, as its account is limited.
static void *slow(void *fd) {
    prctl(PR_SET_NAME, "slow");
    for (int at = 0; at < 3; at++)
        if (pwrite(*(int *)fd, page, sizeof page, at * 99999L) < 0) abort();
    return NULL;
}

// What the fault library makes of each call.
static void failing(void) {
    int fd = opened("failing");
    setenv("FAIL_NOW", "1", 1);
    for (int at = 0; at < 60; at++) {
        errno = 0;
        long wrote = pwrite(fd, page, 8192, at * 8192L), e1 = errno;
        errno = 0;
        long synced = at % 2 ? fsync(fd) : fdatasync(fd), e2 = errno;
        errno = 0;
        long got = pread(fd, page, 8192, at * 4096L), e3 = errno;
        errno = 0;
        long cut = at % 10 ? 0 : ftruncate(fd, at * 8192L), e4 = errno;
        printf("%ld %ld, %ld %ld, %ld %ld, %ld %ld\n", wrote, e1, synced, e2, got, e3, cut, e4);
    }
}

// Until the disk is full.
static void full(void) {
    int fd = opened("full");
    long at = 0, wrote;
    while ((wrote = pwrite(fd, page, sizeof page, at)) == sizeof page) at += wrote;
    int why = wrote < 0 ? errno : 0, synced = fsync(fd);
    printf("full: %ld %d, fsync %d\n", wrote, why, synced);
    int more = fallocate(fd, 0, 0, 1 << 30);
    why = errno;
    printf("more: %d %d\n", more, why);
    int cut = ftruncate(fd, 0);
    synced = fsync(fd);
    printf("%d %d\n", cut, synced);
    wrote = pwrite(fd, page, sizeof page, 0);
    synced = fsync(fd);
    printf("again: %ld %d\n", wrote, synced);
}

static void children(void) {
    int fd = opened("children");
    pthread_t thread;
    pthread_create(&thread, NULL, slow, &fd);
    for (int at = 0; at < 5; at++) {
        usleep(30000);
        pid_t child = fork();
        if (!child) {
            int result = pwrite(fd, page, 100, 0) != 100 || fsync(fd);
            if (at % 2) execl("/proc/self/exe", "faults", ".", "write", NULL);
            _exit(result);
        }
        int status;
        waitpid(child, &status, 0);
        printf("child %d: %d\n", at, status);
    }
    pthread_join(thread, NULL);
    // A child that is replaced, or killed, while one of its threads is held.
    for (int killed = 0; killed < 2; killed++) {
        pid_t child = fork();
        if (!child) {
            pthread_create(&thread, NULL, slow, &fd);
            usleep(100000);
            if (killed) raise(SIGKILL);
            execl("/proc/self/exe", "faults", ".", "write", NULL);
        }
        int status;
        waitpid(child, &status, 0);
        printf("held: %d\n", status);
    }
    // Once they may be taken for lost, whoever waits takes back what they had.
    usleep(700000);
    pthread_create(&thread, NULL, slow, &fd);
    pthread_join(thread, NULL);
}

int main(int count, char **args) {
    if (chdir(args[1])) return 1;
    if (args[2]) {
        int fd = opened("other");
        return pwrite(fd, page, 4096, 0) != 4096 || fsync(fd);
    }
    if (getenv("FAIL")) failing();
    else if (getenv("FULL")) full();
    else children();
    fflush(stdout);
    unsetenv("FAIL_NOW");
    if (getenv("AT_END")) return system(getenv("AT_END"));
    return 0;
}

// A client's thread waits for a lock whose holder waits for another one, and so on; the last holder
// is in I/O that a scheduler may hold. Prints for how many milliseconds the client waited, and ends
// with its input.
//   chain DIRECTORY KIND LINKS END
// KIND: mutex, rwlock, condition, semaphore, sysv.
// END: fsync (of much data), or read (of a page that is not cached, beside 64 threads in the
// background that do the same).
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/prctl.h>
#include <sys/sem.h>
#include <time.h>
#include <unistd.h>

#define MOST 9
#define READERS 64
#define COLD (512L << 20)

#include "headworks.h"

static int links;
static const char *kind;
static int cold;
static char page[4096];
static atomic_int ready, over;

static pthread_mutex_t mutexes[MOST];
static pthread_rwlock_t rwlocks[MOST];
static pthread_cond_t conditions[MOST];
static pthread_mutex_t guards[MOST];
static int given[MOST];
static sem_t semaphores[MOST];
static int set;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e3 + time.tv_nsec / 1e6;
}

static void check(int result) {
    if (result) {
        fprintf(stderr, "%s: %s\n", kind, strerror(result == -1 ? errno : result));
        exit(1);
    }
}

static void sysv(int at, int by) {
    struct sembuf operation = {at, by, 0};
    while (semop(set, &operation, 1))
        if (errno != EINTR) check(-1);
}

static void take(int at) {
    if (!strcmp(kind, "mutex")) check(pthread_mutex_lock(&mutexes[at]));
    if (!strcmp(kind, "rwlock")) check(pthread_rwlock_wrlock(&rwlocks[at]));
    if (!strcmp(kind, "semaphore"))
        while (sem_wait(&semaphores[at]))
            if (errno != EINTR) check(-1);
    if (!strcmp(kind, "sysv")) sysv(at, -1);
    if (!strcmp(kind, "condition")) {
        check(pthread_mutex_lock(&guards[at]));
        while (!given[at]) check(pthread_cond_wait(&conditions[at], &guards[at]));
        given[at] = 0;
        check(pthread_mutex_unlock(&guards[at]));
    }
}

static void give(int at) {
    if (!strcmp(kind, "mutex")) check(pthread_mutex_unlock(&mutexes[at]));
    if (!strcmp(kind, "rwlock")) check(pthread_rwlock_unlock(&rwlocks[at]));
    if (!strcmp(kind, "semaphore")) check(sem_post(&semaphores[at]));
    if (!strcmp(kind, "sysv")) sysv(at, 1);
    if (!strcmp(kind, "condition")) {
        check(pthread_mutex_lock(&guards[at]));
        given[at] = 1;
        check(pthread_cond_signal(&conditions[at]));
        check(pthread_mutex_unlock(&guards[at]));
    }
}

static void read_cold(unsigned *seed) {
    char into[4096];
    off_t at = rand_r(seed) % (COLD / 65536) * 65536L;
    if (pread(cold, into, sizeof into, at) != sizeof into) check(-1);
}

// A file of which nothing is cached.
static int make_cold(void) {
    static char much[1 << 20];
    int fd = open("cold", O_RDWR | O_CREAT | O_TRUNC, 0600);
    for (long at = 0; at < COLD; at += sizeof much)
        if (pwrite(fd, much, sizeof much, at) != sizeof much) check(-1);
    check(fsync(fd));
    check(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
    check(posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM));
    return fd;
}

static void *reader(void *argument) {
    unsigned seed = (unsigned)(long)argument;
    if (headworks_foreground) headworks_foreground(0);
    while (!atomic_load(&over)) read_cold(&seed);
    return NULL;
}

static void flush_much(void) {
    int fd = open("much", O_RDWR | O_CREAT | O_TRUNC, 0600);
    // Pages apart from each other: a piece each.
    for (int piece = 0; piece < 400; piece++)
        if (pwrite(fd, page, sizeof page, piece * 65536L) != sizeof page) check(-1);
    check(fsync(fd));
    close(fd);
}

// Holder of link `at`: waits for the next one, but the last holder does I/O.
static void *holder(void *argument) {
    int at = (int)(long)argument;
    if (headworks_foreground) headworks_foreground(0);
    // Whoever is to be guessed has given this link before.
    take(at);
    give(at);
    take(at);
    atomic_fetch_add(&ready, 1);
    if (at + 1 < links) {
        while (atomic_load(&ready) < links) usleep(100);
        take(at + 1);
        give(at + 1);
    } else {
        while (atomic_load(&ready) < links) usleep(100);
        usleep(20000);
        unsigned seed = 1;
        if (cold) read_cold(&seed);
        else flush_much();
    }
    give(at);
    return NULL;
}

// Another client, whose small fsyncs keep the background from the device.
static void *committer(void *unused) {
    if (headworks_foreground) headworks_foreground(1);
    int fd = open("small", O_RDWR | O_CREAT, 0600);
    for (long at = 0; !atomic_load(&over); at++) {
        if (pwrite(fd, page, sizeof page, at % 64 * 4096) != sizeof page) check(-1);
        check(fsync(fd));
    }
    close(fd);
    return unused;
}

int main(int count, char **arguments) {
    if (count != 5 || chdir(arguments[1])) return 2;
    kind = arguments[2];
    links = atoi(arguments[3]);
    if (!strcmp(arguments[4], "read")) cold = make_cold();
    set = semget(IPC_PRIVATE, MOST, 0600);
    for (int at = 0; at < MOST; at++) {
        pthread_mutex_init(&mutexes[at], NULL);
        pthread_rwlock_init(&rwlocks[at], NULL);
        pthread_cond_init(&conditions[at], NULL);
        pthread_mutex_init(&guards[at], NULL);
        sem_init(&semaphores[at], 0, 0);
        give(at);
        if (!strcmp(kind, "mutex") || !strcmp(kind, "rwlock")) {
            // They are free at first; `give` of a free one is an error that nobody looks at.
            pthread_mutex_init(&mutexes[at], NULL);
            pthread_rwlock_init(&rwlocks[at], NULL);
        }
    }
    pthread_t threads[MOST], other, readers[READERS];
    for (long at = 0; cold && at < READERS; at++)
        pthread_create(&readers[at], NULL, reader, (void *)(at + 2));
    pthread_create(&other, NULL, committer, NULL);
    usleep(100000);
    for (long at = 0; at < links; at++)
        pthread_create(&threads[at], NULL, holder, (void *)at);
    while (atomic_load(&ready) < links) usleep(100);
    usleep(30000);
    if (headworks_foreground) headworks_foreground(1);
    double start = now();
    take(0);
    give(0);
    printf("%.1f\n", now() - start);
    for (int at = 0; at < links; at++) pthread_join(threads[at], NULL);
    atomic_store(&over, 1);
    pthread_join(other, NULL);
    for (int at = 0; cold && at < READERS; at++) pthread_join(readers[at], NULL);
    semctl(set, 0, IPC_RMID);
    // What was noted can be read until the end of the input.
    fflush(stdout);
    getchar();
    return 0;
}

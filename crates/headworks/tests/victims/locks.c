// Takes every kind of lock, well and badly, and prints each result. Whoever watches its waits, it
// must print the same.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/sem.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SAY(call)                                        \
    do {                                                 \
        errno = 0;                                       \
        long result = (long)(call);                      \
        printf("%s = %ld (%d)\n", #call, result, errno); \
    } while (0)

static pthread_mutex_t plain = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_mutex_t checked = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_mutex_t *shared;
static sem_t semaphore;
static int set;

static struct timespec soon(int ms) {
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    time.tv_nsec += ms * 1000000L;
    time.tv_sec += time.tv_nsec / 1000000000L;
    time.tv_nsec %= 1000000000L;
    return time;
}

static void *holds_plain(void *unused) {
    pthread_mutex_lock(&plain);
    usleep(50000);
    pthread_mutex_unlock(&plain);
    return unused;
}

static void *dies_with_shared(void *unused) {
    pthread_mutex_lock(shared);
    return unused;
}

static void *waits_for_ever(void *unused) {
    sem_wait(&semaphore);
    return unused;
}

// A semaphore that is free, for a thread that has been cancelled.
static void *ends_at_a_free_semaphore(void *timed) {
    struct timespec until = {0};
    pthread_cancel(pthread_self());
    if (timed) sem_timedwait(&semaphore, &until); else sem_wait(&semaphore);
    return timed;
}

static void unlock(void *mutex) { pthread_mutex_unlock(mutex); }

static void *waits_for_condition(void *unused) {
    pthread_mutex_lock(&plain);
    pthread_cleanup_push(unlock, &plain);
    for (;;) pthread_cond_wait(&condition, &plain);
    pthread_cleanup_pop(1);
    return unused;
}

static void interrupted(int unused) { (void)unused; }

static long counter;
static void *adds(void *unused) {
    for (int at = 0; at < 20000; at++) {
        pthread_mutex_lock(&plain);
        counter++;
        pthread_mutex_unlock(&plain);
        if (at % 2) pthread_rwlock_rdlock(&rwlock); else pthread_rwlock_wrlock(&rwlock);
        pthread_rwlock_unlock(&rwlock);
    }
    return unused;
}

int main(void) {
    struct timespec until;
    pthread_t thread;
    setvbuf(stdout, NULL, _IOLBF, 0);
    SAY(pthread_mutex_lock(&recursive));
    SAY(pthread_mutex_lock(&recursive));
    SAY(pthread_mutex_unlock(&recursive));
    SAY(pthread_mutex_unlock(&recursive));
    SAY(pthread_mutex_unlock(&recursive));
    SAY(pthread_mutex_lock(&checked));
    SAY(pthread_mutex_lock(&checked));
    SAY((until = soon(20), pthread_mutex_timedlock(&checked, &until)));
    SAY(pthread_mutex_unlock(&checked));
    SAY(pthread_mutex_unlock(&checked));
    SAY(pthread_mutex_lock(&plain));
    SAY((until = soon(20), pthread_mutex_timedlock(&plain, &until)));
    SAY(pthread_mutex_unlock(&plain));
    pthread_create(&thread, NULL, holds_plain, NULL);
    usleep(10000);
    SAY(pthread_mutex_lock(&plain));
    SAY(pthread_mutex_unlock(&plain));
    SAY(pthread_join(thread, NULL));

    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
    shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    SAY(pthread_mutex_init(shared, &attributes));
    pthread_create(&thread, NULL, dies_with_shared, NULL);
    SAY(pthread_join(thread, NULL));
    SAY(pthread_mutex_lock(shared));
    SAY(pthread_mutex_consistent(shared));
    SAY(pthread_mutex_unlock(shared));
    pid_t child = fork();
    if (!child) {
        pthread_mutex_lock(shared);
        kill(getpid(), SIGKILL);
    }
    int status;
    SAY(waitpid(child, &status, 0) == child && WTERMSIG(status) == SIGKILL);
    SAY(pthread_mutex_lock(shared));
    SAY(pthread_mutex_unlock(shared));
    SAY(pthread_mutex_lock(shared));
    SAY(pthread_mutex_destroy(shared));

    SAY(pthread_rwlock_rdlock(&rwlock));
    SAY(pthread_rwlock_rdlock(&rwlock));
    SAY(pthread_rwlock_unlock(&rwlock));
    SAY(pthread_rwlock_unlock(&rwlock));
    SAY(pthread_rwlock_wrlock(&rwlock));
    SAY(pthread_rwlock_wrlock(&rwlock));
    SAY(pthread_rwlock_rdlock(&rwlock));
    SAY(pthread_rwlock_unlock(&rwlock));

    SAY(pthread_mutex_lock(&plain));
    SAY((until = soon(20), pthread_cond_timedwait(&condition, &plain, &until)));
    SAY(pthread_mutex_unlock(&plain));
    SAY(pthread_cond_signal(&condition));
    SAY(pthread_cond_broadcast(&condition));
    pthread_create(&thread, NULL, waits_for_condition, NULL);
    usleep(20000);
    SAY(pthread_cancel(thread));
    SAY(pthread_join(thread, NULL));
    SAY(pthread_mutex_lock(&plain));
    SAY(pthread_mutex_unlock(&plain));

    SAY(sem_init(&semaphore, 0, 1));
    SAY(sem_wait(&semaphore));
    SAY((until = soon(20), sem_timedwait(&semaphore, &until)));
    until.tv_nsec = -1;
    SAY(sem_timedwait(&semaphore, &until));
    struct sigaction action = {.sa_handler = interrupted};
    sigaction(SIGALRM, &action, NULL);
    /* Again and again: the first one may come before the call. */
    ualarm(20000, 20000);
    SAY(sem_wait(&semaphore));
    ualarm(0, 0);
    pthread_create(&thread, NULL, waits_for_ever, NULL);
    usleep(20000);
    SAY(pthread_cancel(thread));
    SAY(pthread_join(thread, NULL));
    SAY(sem_post(&semaphore));
    SAY(sem_wait(&semaphore));
    SAY(sem_post(&semaphore));
    SAY(sem_wait(&semaphore));
    for (long timed = 0; timed < 2; timed++) {
        void *end;
        sem_post(&semaphore);
        pthread_create(&thread, NULL, ends_at_a_free_semaphore, (void *)timed);
        SAY(pthread_join(thread, &end));
        SAY(end == PTHREAD_CANCELED);
        SAY(sem_trywait(&semaphore));
    }
    sem_post(&semaphore);
    until.tv_nsec = 1000000000;
    SAY(sem_timedwait(&semaphore, &until));
    SAY(sem_clockwait(&semaphore, CLOCK_MONOTONIC, &until));
    until = (struct timespec){0};
    SAY(sem_clockwait(&semaphore, CLOCK_PROCESS_CPUTIME_ID, &until));
    SAY(sem_clockwait(&semaphore, CLOCK_MONOTONIC, &until));
    SAY(sem_clockwait(&semaphore, CLOCK_MONOTONIC, &until));

    set = semget(IPC_PRIVATE, 1, 0600);
    struct sembuf up = {0, 1, 0}, down = {0, -1, 0}, no_wait = {0, -1, IPC_NOWAIT};
    struct timespec little = {0, 20000000};
    SAY(semop(set, &up, 1));
    SAY(semop(set, &down, 1));
    SAY(semop(set, &no_wait, 1));
    SAY(semtimedop(set, &down, 1, &little));
    SAY(semop(set, &down, 0));
    SAY(semop(set, NULL, 1));
    SAY(semctl(set, 0, IPC_RMID));
    SAY(semop(set, &down, 1));

    pthread_t threads[4];
    for (int at = 0; at < 4; at++) pthread_create(&threads[at], NULL, adds, NULL);
    for (int at = 0; at < 4; at++) pthread_join(threads[at], NULL);
    SAY(counter);
    return 0;
}

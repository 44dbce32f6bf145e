// Processes share locks of every kind and do I/O while they hold them. They are killed, signalled
// and forked at random. Prints what must be the same whatever watches their waits.
//   torture DIRECTORY KILLS SEED
// With LIBRARY set, every second process is preloaded.
//
// A robust mutex says what became of its owner. Any other lock of a killed process is lost for all.
// The controller puts a new one in its place, and kills whoever has the old one or waits for it.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "headworks.h"

#define WORKERS 6
#define THREADS 3
#define TASKS 64
#define DEEP 3
#define POOL (1 << 19)
// A thread that gets nothing done for so many seconds is stuck.
#define STUCK 30

enum kind { CHECKED = 1, RECURSIVE = 2, INHERITS = 4, ROBUST = 8, READERS = 16, WRITERS, COUNTS };
static const int kinds[] = {
    ROBUST, ROBUST | INHERITS, ROBUST | CHECKED, ROBUST | RECURSIVE, ROBUST | INHERITS | RECURSIVE,
    0, CHECKED, RECURSIVE, READERS, WRITERS, COUNTS, INHERITS,
};
#define KINDS 12
#define ROBUST_KINDS 5
// Few robust mutexes, which many want, and many of the others. The C library itself aborts when the
// owner of a mutex that only inherits is killed, so none of those is shared.
#define ROBUST_PLACES (2 * ROBUST_KINDS)
#define PLACES (ROBUST_PLACES + 12 * (KINDS - 1 - ROBUST_KINDS))

struct lock {
    union {
        pthread_mutex_t mutex;
        pthread_rwlock_t rwlock;
        sem_t semaphore;
    };
    int kind;
    // Who has it alone, and what it guards: two equal numbers.
    atomic_int holder;
    volatile long first, second;
};

// A thread, and which locks that are not robust it has or wants: their number in the pool plus one.
struct task {
    atomic_int pid, tid, uses[DEEP];
    atomic_long progress;
};

static struct {
    atomic_int current[PLACES], pooled;
    atomic_long operations, broken, owners_dead, interrupted, forks, execs;
    struct task tasks[TASKS];
    struct lock pool[POOL];
} *shared;

static struct lock local[KINDS];
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ticked = PTHREAD_COND_INITIALIZER;
static sem_t bell;
static pthread_t threads[THREADS];
static volatile sig_atomic_t alone = 1;
static char page[65536], *library;
static __thread struct task *me;
static __thread unsigned long random_state;
static __thread int file;

static unsigned below(unsigned limit) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (unsigned)(random_state >> 32) % limit;
}

static void seeded(unsigned long seed) { random_state = seed * 0x9E3779B97F4A7C15 + 1; }

static void must(int result, const char *what) {
    if (result) {
        fprintf(stderr, "%d: %s: %s\n", getpid(), what, strerror(result < 0 ? errno : result));
        atomic_fetch_add(&shared->broken, 1);
    }
}

static void make(struct lock *lock, int kind, int pshared) {
    pthread_mutexattr_t mutex;
    pthread_rwlockattr_t rwlock;
    lock->kind = kind;
    if (kind == COUNTS) {
        must(sem_init(&lock->semaphore, pshared, 1), "sem_init");
    } else if (kind >= READERS) {
        pthread_rwlockattr_init(&rwlock);
        pthread_rwlockattr_setpshared(&rwlock, pshared);
        if (kind == WRITERS)
            pthread_rwlockattr_setkind_np(&rwlock, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
        must(pthread_rwlock_init(&lock->rwlock, &rwlock), "pthread_rwlock_init");
    } else {
        pthread_mutexattr_init(&mutex);
        pthread_mutexattr_setpshared(&mutex, pshared);
        if (kind & CHECKED) pthread_mutexattr_settype(&mutex, PTHREAD_MUTEX_ERRORCHECK);
        if (kind & RECURSIVE) pthread_mutexattr_settype(&mutex, PTHREAD_MUTEX_RECURSIVE);
        if (kind & INHERITS) pthread_mutexattr_setprotocol(&mutex, PTHREAD_PRIO_INHERIT);
        if (kind & ROBUST) pthread_mutexattr_setrobust(&mutex, PTHREAD_MUTEX_ROBUST);
        must(pthread_mutex_init(&lock->mutex, &mutex), "pthread_mutex_init");
    }
}

// A new lock in this place.
static void renew(int place) {
    int at = atomic_fetch_add(&shared->pooled, 1);
    if (at >= POOL) abort();
    int kind = place < ROBUST_PLACES ? place % ROBUST_KINDS
                                     : ROBUST_KINDS + place % (KINDS - 1 - ROBUST_KINDS);
    make(&shared->pool[at], kinds[kind], 1);
    atomic_store(&shared->current[place], at);
}

static struct timespec soon(void) {
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    time.tv_nsec += 5000000;
    time.tv_sec += time.tv_nsec / 1000000000;
    time.tv_nsec %= 1000000000;
    return time;
}

static void mark(struct lock *lock, int result) {
    if (result == EOWNERDEAD) {
        atomic_fetch_add(&shared->owners_dead, 1);
        lock->first = lock->second = 0;
        must(pthread_mutex_consistent(&lock->mutex), "pthread_mutex_consistent");
    } else if (atomic_load(&lock->holder) || lock->first != lock->second) {
        must(EBUSY, "a lock that another thread has");
    }
    atomic_store(&lock->holder, me->tid);
    lock->first++;
}

static void unmark(struct lock *lock) {
    lock->second++;
    atomic_store(&lock->holder, 0);
}

// Returns 1 if the lock is taken, 2 if only for reading, and 0 if it took too long.
static int take(struct lock *lock) {
    struct timespec until = soon();
    int way = below(8), result;
    if (lock->kind == COUNTS) {
        for (;;) {
            result = way ? sem_wait(&lock->semaphore) : sem_timedwait(&lock->semaphore, &until);
            if (!result || errno != EINTR) break;
            atomic_fetch_add(&shared->interrupted, 1);
        }
        if (result && errno == ETIMEDOUT) return 0;
    } else if (lock->kind >= READERS && way >= 4) {
        must(pthread_rwlock_rdlock(&lock->rwlock), "pthread_rwlock_rdlock");
        if (atomic_load(&lock->holder) || lock->first != lock->second)
            must(EBUSY, "reading what another thread writes");
        return 2;
    } else if (lock->kind >= READERS) {
        result = pthread_rwlock_wrlock(&lock->rwlock);
    } else {
        result = way == 0 ? pthread_mutex_timedlock(&lock->mutex, &until)
               : way == 1 ? pthread_mutex_trylock(&lock->mutex)
                          : pthread_mutex_lock(&lock->mutex);
        if (way < 2 && (result == ETIMEDOUT || result == EBUSY)) return 0;
    }
    must(result == EOWNERDEAD ? 0 : result, "taking a lock");
    mark(lock, result);
    if (lock->kind < READERS && lock->kind & CHECKED && pthread_mutex_lock(&lock->mutex) != EDEADLK)
        must(EINVAL, "taking a lock twice");
    if (lock->kind < READERS && lock->kind & RECURSIVE) {
        must(pthread_mutex_lock(&lock->mutex), "taking a recursive lock twice");
        must(pthread_mutex_unlock(&lock->mutex), "giving back a recursive lock");
    }
    return 1;
}

static void give(struct lock *lock, int taken) {
    if (taken == 1) unmark(lock);
    if (lock->kind == COUNTS) must(sem_post(&lock->semaphore), "sem_post");
    else if (lock->kind >= READERS) must(pthread_rwlock_unlock(&lock->rwlock), "rwlock_unlock");
    else must(pthread_mutex_unlock(&lock->mutex), "pthread_mutex_unlock");
}

static void works(void) {
    long bytes = below(4) ? 4096 : sizeof page, at = below(64) * 65536L;
    unsigned what = below(16);
    if (what < 6) must(pwrite(file, page, bytes, at) == bytes ? 0 : -1, "pwrite");
    else if (what < 10) must(pread(file, page, bytes, at) >= 0 ? 0 : -1, "pread");
    if (what == 0) must(fsync(file), "fsync");
}

static void chain(int at, int depth);

// Takes a lock of this process only, waits for a tick of its own, and works.
static void inside(void) {
    unsigned at = below(KINDS), taken;
    if (alone || !(taken = take(&local[at]))) {
        works();
        return;
    }
    if (!below(4)) {
        struct timespec until = soon();
        must(pthread_mutex_lock(&guard), "guard");
        if (below(2)) pthread_cond_timedwait(&ticked, &guard, &until);
        else must(pthread_cond_wait(&ticked, &guard), "pthread_cond_wait");
        must(pthread_mutex_unlock(&guard), "guard");
    }
    if (!below(4))
        while (sem_wait(&bell)) atomic_fetch_add(&shared->interrupted, 1);
    works();
    give(&local[at], taken);
}

// Takes shared locks in the order of their places, from `place` on.
static void chain(int place, int depth) {
    place += below(depth ? 8 : below(3) ? ROBUST_PLACES : PLACES - 8);
    if (depth == DEEP || place >= PLACES) return inside();
    int at = atomic_load(&shared->current[place]), taken;
    struct lock *lock = &shared->pool[at];
    if (lock->kind >= READERS || !(lock->kind & ROBUST)) {
        // The controller replaces the lock first and looks for its users afterwards.
        atomic_store(&me->uses[depth], at + 1);
        if (atomic_load(&shared->current[place]) != at) return atomic_store(&me->uses[depth], 0);
    }
    if ((taken = take(lock))) {
        works();
        chain(place + 1, depth + 1);
        give(lock, taken);
    }
    atomic_store(&me->uses[depth], 0);
}

// The calling thread has a task from now on. Says whether there was one left.
static int claim(void) {
    for (int at = 0; at < TASKS; at++) {
        int nobody = 0;
        if (atomic_load(&shared->tasks[at].pid)) continue;
        if (!atomic_compare_exchange_strong(&shared->tasks[at].pid, &nobody, getpid())) continue;
        me = &shared->tasks[at];
        me->tid = syscall(SYS_gettid);
        atomic_fetch_add(&me->progress, 1);
        char name[24];
        snprintf(name, sizeof name, "file-%d", at);
        file = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        must(file < 0 ? -1 : 0, name);
        if (headworks_foreground) headworks_foreground(at % 3 == 0);
        return 1;
    }
    return 0;
}

static void some_chains(void) {
    if (!claim()) _exit(0);
    for (int left = below(6); left >= 0; left--) {
        chain(0, 0);
        atomic_fetch_add(&me->progress, 1);
    }
    atomic_store(&me->pid, 0);
}

static void becomes(const char *role, int preloaded) {
    static char load[4096];
    char seed[24], *arguments[] = {"torture", (char *)role, seed, NULL};
    char io[4096], given[4096], *environment[4] = {NULL};
    snprintf(seed, sizeof seed, "%lu", random_state);
    if (library) {
        snprintf(io, sizeof io, "HEADWORKS_IO=%s", getenv("HEADWORKS_IO"));
        snprintf(given, sizeof given, "LIBRARY=%s", library);
        snprintf(load, sizeof load, "LD_PRELOAD=%s", library);
        environment[0] = io;
        environment[1] = given;
        if (preloaded) environment[2] = load;
    }
    execve("/proc/self/exe", arguments, environment);
    _exit(99);
}

// A child that takes locks and ends, or is replaced.
static void forks(void) {
    sigset_t usr1;
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &usr1, NULL);
    unsigned long seed = random_state;
    atomic_fetch_add(&shared->forks, 1);
    if (!fork()) {
        seeded(seed + getpid());
        alone = 1;
        pthread_sigmask(SIG_UNBLOCK, &usr1, NULL);
        some_chains();
        if (below(2)) becomes("brief", below(2));
        _exit(0);
    }
    pthread_sigmask(SIG_UNBLOCK, &usr1, NULL);
}

static void interrupted(int number) {
    int kept = errno;
    static atomic_uint turn;
    if (!alone && pthread_equal(pthread_self(), threads[0]))
        pthread_kill(threads[atomic_fetch_add(&turn, 1) % THREADS], number);
    sem_post(&bell);
    if (me) pwrite(file, "signal", 6, 0);
    sem_trywait(&bell);
    if (turn % 16 == 0) {
        if (!fork()) {
            sem_post(&bell);
            _exit(0);
        }
        atomic_fetch_add(&shared->forks, 1);
    }
    errno = kept;
}

static void *tick(void *unused) {
    for (int rings;;) {
        usleep(2000);
        pthread_mutex_lock(&guard);
        pthread_cond_broadcast(&ticked);
        pthread_mutex_unlock(&guard);
        pthread_cond_signal(&ticked);
        sem_getvalue(&bell, &rings);
        if (!rings) sem_post(&bell);
    }
    return NULL;
}

static void *thread(void *seed) {
    seeded((unsigned long)seed);
    if (!claim()) return NULL;
    for (;;) {
        chain(0, 0);
        atomic_fetch_add(&me->progress, 1);
        atomic_fetch_add(&shared->operations, 1);
        if (!below(20)) forks();
    }
}

static void attach(void) {
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, 3, 0);
    if (shared == MAP_FAILED) _exit(98);
    sem_init(&bell, 0, 0);
    struct sigaction action = {.sa_handler = interrupted};
    sigaction(SIGUSR1, &action, NULL);
    signal(SIGCHLD, SIG_IGN);
}

static void worker(unsigned long seed) {
    pthread_t ticks;
    for (int at = 0; at < KINDS; at++) make(&local[at], kinds[at], 0);
    threads[0] = pthread_self();
    for (long at = 1; at < THREADS; at++)
        pthread_create(&threads[at], NULL, thread, (void *)(seed + at));
    pthread_create(&ticks, NULL, tick, NULL);
    alone = 0;
    thread((void *)seed);
}

// What follows is the controller's.
static int workers[WORKERS], over;
static long killed, taken_along, signalled;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static void starts(int at) {
    seeded(random_state);
    workers[at] = fork();
    if (workers[at]) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    becomes("worker", at % 2 == 0);
}

// Opens a process that is surely ours: its task has its number still. Else returns -1.
static int opened(int pid) {
    int fd = syscall(SYS_pidfd_open, pid, 0);
    for (int at = 0; at < TASKS; at++)
        if (atomic_load(&shared->tasks[at].pid) == pid) return fd;
    close(fd);
    return -1;
}

static int of_some_task(void) {
    for (;;) {
        int pid = atomic_load(&shared->tasks[below(TASKS)].pid);
        if (pid) return pid;
    }
}

static void slay(int pid) {
    int fd = opened(pid), lost[TASKS * DEEP], count = 0;
    if (fd < 0) return;
    struct pollfd dead = {.fd = fd, .events = POLLIN};
    syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
    if (poll(&dead, 1, STUCK * 1000) != 1) must(ETIMEDOUT, "a killed process does not end");
    close(fd);
    killed++;
    for (int at = 0; at < TASKS; at++) {
        struct task *task = &shared->tasks[at];
        if (atomic_load(&task->pid) != pid) continue;
        for (int depth = 0; depth < DEEP; depth++) {
            int used = atomic_exchange(&task->uses[depth], 0);
            if (used) lost[count++] = used;
            for (int place = 0; used && place < PLACES; place++)
                if (atomic_load(&shared->current[place]) == used - 1) renew(place);
        }
        atomic_store(&task->pid, 0);
    }
    for (int at = 0; at < WORKERS; at++)
        if (workers[at] == pid && !over) starts(at);
    for (int at = 0; at < TASKS * DEEP; at++) {
        struct task *task = &shared->tasks[at / DEEP];
        for (int with = 0; with < count; with++) {
            int other = atomic_load(&task->pid);
            if (!other || atomic_load(&task->uses[at % DEEP]) != lost[with]) continue;
            taken_along++;
            slay(other);
        }
    }
}

// For how many seconds a task has done nothing, at most.
static double idle(void) {
    static struct { long progress; int pid; double since; } seen[TASKS];
    double longest = 0, time = now();
    for (int at = 0; at < TASKS; at++) {
        int pid = atomic_load(&shared->tasks[at].pid);
        long progress = atomic_load(&shared->tasks[at].progress);
        if (!pid || pid != seen[at].pid || progress != seen[at].progress) seen[at].since = time;
        seen[at].pid = pid;
        seen[at].progress = progress;
        if (time - seen[at].since > longest) longest = time - seen[at].since;
        if (time - seen[at].since > STUCK) {
            char look[80];
            fprintf(stderr, "stuck: process %d, thread %d, uses %d %d %d\n", pid,
                    shared->tasks[at].tid, shared->tasks[at].uses[0], shared->tasks[at].uses[1],
                    shared->tasks[at].uses[2]);
            snprintf(look, sizeof look, "cat /proc/%d/task/*/wchan >&2", pid);
            system(look);
        }
    }
    return longest;
}

int main(int count, char **arguments) {
    library = getenv("LIBRARY");
    if (count == 3) {
        attach();
        seeded(strtoul(arguments[2], NULL, 10));
        if (!strcmp(arguments[1], "worker")) worker(random_state);
        atomic_fetch_add(&shared->execs, 1);
        some_chains();
        return 0;
    }
    if (count != 4 || chdir(arguments[1])) return 2;
    long kills = atol(arguments[2]), crashed = 0;
    double begun = now(), longest = 0;
    seeded(strtoul(arguments[3], NULL, 10));
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    int memory = memfd_create("torture", 0);
    if (dup2(memory, 3) != 3 || ftruncate(3, sizeof *shared)) return 2;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, 3, 0);
    for (int place = 0; place < PLACES; place++) renew(place);
    for (int at = 0; at < WORKERS; at++) starts(at);
    while (killed < kills && longest < STUCK && !crashed) {
        usleep(below(4000));
        if (below(16)) {
            int pid = of_some_task(), fd = opened(pid);
            signalled += fd >= 0 && !syscall(SYS_pidfd_send_signal, fd, SIGUSR1, NULL, 0);
            close(fd);
        } else {
            slay(of_some_task());
        }
        double now_idle = idle();
        if (now_idle > longest) longest = now_idle;
        int status, pid;
        while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
            if (WIFSIGNALED(status) ? WTERMSIG(status) != SIGKILL : WEXITSTATUS(status) != 0) {
                fprintf(stderr, "process %d ended with status %x\n", pid, status);
                crashed++;
            }
    }
    // All that are left.
    long before = killed;
    over = 1;
    for (int at = 0; at < WORKERS; at++) kill(workers[at], SIGKILL);
    while (waitpid(-1, NULL, WNOHANG) >= 0)
        for (int at = 0; at < TASKS; at++)
            if (atomic_load(&shared->tasks[at].pid)) slay(shared->tasks[at].pid);
    fprintf(stderr, "%ld kills (%ld for a lost lock), %ld signals, %ld forks, %ld replaced, ",
            before, taken_along, signalled, shared->forks, shared->execs);
    fprintf(stderr, "%ld chains, %ld owners dead, %ld interrupted, longest pause %.2f s, %.0f s\n",
            shared->operations, shared->owners_dead, shared->interrupted, longest, now() - begun);
    printf("stuck %d, broken %ld, crashed %ld\n", longest >= STUCK, shared->broken, crashed);
    return 0;
}

/*
 * The only program of a guest: reads or writes its disk in one way, and prints each tenth of a
 * second how many bytes that were so far. The kernel's command line has the way as `load=NAME`.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <linux/fs.h>

enum { BLOCK = 4096, SOME = 4 << 20, RUN = 1 << 20 };

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

int main(void)
{
    static char buffer[RUN], line[4096];
    unsigned long long size = 0, done = 0, at = 0;

    mkdir("/proc", 0755);
    mkdir("/dev", 0755);
    mount("proc", "/proc", "proc", 0, NULL);
    mount("dev", "/dev", "devtmpfs", 0, NULL);
    int console = open("/dev/console", O_RDWR);
    dup2(console, 1);
    dup2(console, 2);
    setvbuf(stdout, NULL, _IOLBF, 0);
    FILE *given = fopen("/proc/cmdline", "r");
    if (!given || !fgets(line, sizeof line, given))
        return 1;
    char *load = strstr(line, "load=");
    int disk = open("/dev/nvme0n1", O_RDWR);
    if (!load || disk < 0 || ioctl(disk, BLKGETSIZE64, &size)) {
        puts("no load or no disk");
        return 1;
    }
    load = strtok(load + strlen("load="), " \n");
    int reads = !strncmp(load, "read-", 5);
    const char *how = strchr(load, '-') + 1;
    int random = !strcmp(how, "random"), memory = !strcmp(how, "memory");
    size_t bytes = random ? BLOCK : memory ? 64 << 10 : RUN;
    if (random)
        posix_fadvise(disk, 0, 0, POSIX_FADV_RANDOM);
    unsigned long long within = memory ? SOME : size;

    for (double next = now();;) {
        at = random ? lrand48() % (size / BLOCK) * BLOCK : at + bytes > within ? 0 : at;
        ssize_t some = reads ? pread(disk, buffer, bytes, at) : pwrite(disk, buffer, bytes, at);
        if (some <= 0) {
            perror(load);
            return 1;
        }
        at += some;
        done += some;
        if (now() >= next) {
            printf("bytes %llu\n", done);
            next = now() + 0.1;
        }
    }
}

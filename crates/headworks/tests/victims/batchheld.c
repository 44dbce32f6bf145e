/* Writes 1 MB to a file in the directory of the first argument, and then eight pages by one io_submit. Prints the
 * milliseconds that this one took. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int main(int count, char **arguments) {
    char path[4096], *bytes = calloc(1, 1 << 20);
    struct iocb all[8] = {0}, *list[8];
    aio_context_t context = 0;
    snprintf(path, sizeof path, "%s/file", count > 1 ? arguments[1] : ".");
    int file = open(path, O_CREAT | O_WRONLY, 0600);
    if (file < 0 || pwrite(file, bytes, 1 << 20, 0) != 1 << 20 || syscall(SYS_io_setup, 8, &context)) return 1;
    for (int at = 0; at < 8; at++) {
        all[at].aio_lio_opcode = IOCB_CMD_PWRITE;
        all[at].aio_fildes = file;
        all[at].aio_buf = (long)bytes;
        all[at].aio_nbytes = 4096;
        all[at].aio_offset = (2 << 20) + at * 8192;
        list[at] = &all[at];
    }
    long begun = now_ms();
    if (syscall(SYS_io_submit, context, 8, list) != 8) return 2;
    printf("%ld\n", now_ms() - begun);
    return 0;
}

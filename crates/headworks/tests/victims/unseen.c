// Writes 4 MB in each of the ways that call no `write` of the program's: by streams of the C library,
// by a copy inside the kernel, and by a mapping that is made durable by `fsync`. Prints what the calls
// return. At its end it runs AT_END.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <unistd.h>

#define BYTES (4 << 20)

int main(int count, char **args) {
    static char page[4096];
    if (count < 2 || chdir(args[1])) return 1;
    memset(page, 'p', sizeof page - 1);
    long sum = 0;
    FILE *stream = fopen("fwrite", "w");
    for (int at = 0; at < BYTES / 4096; at++) sum += fwrite(page, 1, sizeof page, stream);
    long at_end = ftell(stream);
    int closed = fclose(stream);
    printf("fwrite %ld at %ld, fclose %d\n", sum, at_end, closed);
    stream = fopen("fputs", "w");
    for (int at = 0; at < BYTES / 4096; at++) sum += fputs(page, stream) >= 0;
    at_end = ftell(stream);
    closed = fclose(stream);
    printf("fputs %ld at %ld, fclose %d\n", sum, at_end, closed);
    stream = fopen("fprintf", "w");
    for (int at = 0; at < BYTES / 4096; at++) sum += fprintf(stream, "%s\n", page);
    closed = fclose(stream);
    printf("fprintf %ld, fclose %d\n", sum, closed);
    stream = fopen("/dev/full", "w");
    setvbuf(stream, NULL, _IONBF, 0);
    size_t wrote = fwrite(page, 1, 4096, stream);
    int put = fputs("x", stream), error = ferror(stream);
    closed = fclose(stream);
    printf("fwrite %zu, fputs %d, error %d, fclose %d\n", wrote, put, error != 0, closed);
    char *text;
    size_t length;
    stream = open_memstream(&text, &length);
    for (int at = 0; at < 64; at++) sum += fwrite(page, sizeof page, 1, stream);
    // The C library sets `length` here.
    closed = fclose(stream);
    printf("in memory %ld, fclose %d, %zu\n", sum, closed, length);
    int from = open("fwrite", O_RDONLY), to = open("copied", O_RDWR | O_CREAT, 0600);
    off_t in = 0, out = 0;
    long got = copy_file_range(from, &in, to, &out, 1L << 40, 0);
    printf("copied %ld, %ld to %ld\n", got, (long)in, (long)out);
    printf("nothing left %ld\n", (long)copy_file_range(from, &in, to, &out, 1L << 40, 0));
    printf("refused %ld\n", (long)copy_file_range(from, &in, from, &out, 1L << 40, 0));
    in = 0;
    lseek(to, 0, SEEK_SET);
    long sent = sendfile(to, from, &in, 3 << 20);
    printf("sent %ld, %ld\n", sent, (long)in);
    int mapped = open("mapped", O_RDWR | O_CREAT, 0600);
    // More than goes at once.
    if (ftruncate(mapped, 4 * BYTES)) return 1;
    memset(mmap(NULL, 4 * BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, mapped, 0), 'm', 4 * BYTES);
    // After a search, the foreground does not search for fifty times as long as that took.
    sleep(1);
    printf("fsync %d\n", fsync(mapped));
    fflush(stdout);
    return getenv("AT_END") ? system(getenv("AT_END")) : 0;
}

// A background thread writes 16 MiB by a stream, which calls the C library's own write. Then it
// calls fsync, or begins the writeback by sync_file_range. Prints a line, and ends with its input.
//   stream DIRECTORY fsync|range
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "headworks.h"

int main(int count, char **arguments) {
    static char much[1 << 16];
    if (count != 3 || chdir(arguments[1])) return 2;
    if (headworks_foreground) headworks_foreground(0);
    FILE *stream = fopen("much", "w+");
    if (!stream) return 1;
    for (int at = 0; at < 256; at++)
        if (fwrite(much, 1, sizeof much, stream) != sizeof much) return 1;
    if (fflush(stream)) return 1;
    int fd = fileno(stream);
    int failed = strcmp(arguments[2], "range") ? fsync(fd)
        : sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE);
    if (failed) return 1;
    puts("done");
    fflush(stdout);
    getchar();
    return fclose(stream) ? 1 : 0;
}

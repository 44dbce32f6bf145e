// A background thread writes 16 MiB by a stream, which calls the C library's own write, and makes
// them durable. Prints that, and ends with its input.
//   stream DIRECTORY
#define _GNU_SOURCE
#include <stdio.h>
#include <unistd.h>

#include "headworks.h"

int main(int count, char **arguments) {
    static char much[1 << 16];
    if (count != 2 || chdir(arguments[1])) return 2;
    if (headworks_foreground) headworks_foreground(0);
    FILE *stream = fopen("much", "w+");
    if (!stream) return 1;
    for (int at = 0; at < 256; at++)
        if (fwrite(much, 1, sizeof much, stream) != sizeof much) return 1;
    if (fflush(stream) || fsync(fileno(stream))) return 1;
    puts("durable");
    fflush(stdout);
    getchar();
    return fclose(stream) ? 1 : 0;
}

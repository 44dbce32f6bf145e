// Writes 8 MiB by a descriptor whose number the C library has had for something else, which it closed by
// itself. The second argument says for what; with "fuse", for nothing, but it serves a file system. At its
// end it runs AT_END.
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char much[1 << 16];

int main(int count, char **args) {
    if (count < 3 || chdir(args[2])) return 1;
    int number = -1;
    if (!strcmp(args[1], "pipe")) {
        FILE *pipe = popen("cat > /dev/null", "w");
        number = fileno(pipe);
        if (write(number, "x", 1) != 1) return 1;
        pclose(pipe);
    } else if (!strcmp(args[1], "directory")) {
        DIR *directory = opendir("/tmp");
        number = dirfd(directory);
        fsync(number);
        closedir(directory);
    } else if (!strcmp(args[1], "device")) {
        FILE *device = fopen("/dev/null", "r+");
        number = fileno(device);
        if (write(number, "x", 1) != 1 || !freopen("file", "w", device)) return 1;
    }
    if (!strcmp(args[1], "fuse")) {
        // Not mounted, so that it refuses what is written.
        int device = open("/dev/fuse", O_RDWR);
        if (device < 0) return 77;
        if (write(device, "x", 1) >= 0) return 1;
    }
    // One of these has the number, unless the stream of the device has it.
    for (int at = 0; at < 8; at++) {
        FILE *file = fopen("file", "w");
        if (number < 0) number = fileno(file);
    }
    for (int at = 0; at < 8 << 20; at += sizeof much)
        if (write(number, much, sizeof much) != sizeof much) return 2;
    return getenv("AT_END") ? system(getenv("AT_END")) : 0;
}

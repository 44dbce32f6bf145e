// Commits by five writes that are durable when they return, and makes one that is not. At its end
// it runs AT_END.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

int main(int count, char **args) {
    static char page[4096];
    struct iovec part = {page, sizeof page};
    if (count < 2 || chdir(args[1])) return 1;
    int log = open("log", O_WRONLY | O_CREAT | O_DSYNC, 0600), data = open("data", O_WRONLY | O_CREAT, 0600);
    for (int at = 0; at < 3; at++)
        if (pwrite(log, page, sizeof page, at * 4096L) != sizeof page) return 1;
    if (pwritev2(data, &part, 1, 0, RWF_DSYNC) != sizeof page) return 1;
    if (pwritev2(data, &part, 1, 4096, RWF_SYNC) != sizeof page) return 1;
    if (pwrite(data, page, sizeof page, 8192) != sizeof page) return 1;
    return getenv("AT_END") ? system(getenv("AT_END")) : 0;
}

// Says with which errno it began, how many descriptors are open, and how long its start took: since the time in
// nanoseconds that is given.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int main(int count, char **arguments) {
    int began = errno, open = 0;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    for (int fd = 3; fd < 256; fd++)
        if (fcntl(fd, F_GETFD) >= 0) open++;
    long took = (now.tv_sec * 1000000000L + now.tv_nsec - atol(arguments[count - 1])) / 1000000;
    printf("errno %d open %d took %ld\n", began, open, took);
    return 0;
}

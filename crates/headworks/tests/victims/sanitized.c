/* Allocates, locks and writes, as programs do that are tested with AddressSanitizer. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void *work(void *nothing) {
    for (int size = 100; size < 600; size++) {
        char *bytes = malloc(size);
        pthread_mutex_lock(&mutex);
        bytes[size - 1] = 1;
        pthread_mutex_unlock(&mutex);
        free(bytes);
    }
    return nothing;
}

int main(int count, char **arguments) {
    pthread_t threads[4];
    for (int at = 0; at < 4; at++) pthread_create(&threads[at], 0, work, 0);
    for (int at = 0; at < 4; at++) pthread_join(threads[at], 0);
    int file = open(arguments[1], O_CREAT | O_WRONLY, 0600);
    if (write(file, "x", 1) != 1 || fsync(file)) return 3;
    puts("done");
    if (count > 2) {
        volatile char *bytes = malloc(5 + count);
        bytes[8 + count] = 1; /* found by the sanitizer */
    }
    return 0;
}

/* A server that no profile knows, its only client, and a thread that flushes a file in the directory of the first
 * argument: once before the client's requests, and once after the answers. Writes a line then, and ends with its
 * standard input. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

static int listening;

static void *serve(void *unused) {
    char line[16];
    int client = accept(listening, 0, 0);
    while (recv(client, line, sizeof line, 0) > 0) send(client, "ok\n", 3, MSG_NOSIGNAL);
    return unused;
}

static int flush(const char *directory) {
    char path[4096];
    snprintf(path, sizeof path, "%s/file", directory);
    int file = open(path, O_CREAT | O_WRONLY, 0600);
    int failed = file < 0 || write(file, "x", 1) != 1 || fsync(file);
    close(file);
    return failed;
}

int main(int count, char **arguments) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    char answer[16];
    pthread_t server;
    listening = socket(AF_INET, SOCK_STREAM, 0);
    if (count != 2 || bind(listening, (struct sockaddr *)&address, length) || listen(listening, 1)) return 1;
    getsockname(listening, (struct sockaddr *)&address, &length);
    if (pthread_create(&server, 0, serve, 0) || flush(arguments[1])) return 2;
    int client = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(client, (struct sockaddr *)&address, length)) return 3;
    /* When the second answer is there, the library has seen the first one. */
    for (int request = 0; request < 2; request++)
        if (write(client, "hi\n", 3) != 3 || read(client, answer, sizeof answer) != 3) return 4;
    if (flush(arguments[1])) return 5;
    puts("flushed");
    fflush(stdout);
    getchar();
    return 0;
}

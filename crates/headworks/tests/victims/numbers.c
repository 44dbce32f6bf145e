/* What is no file, by a thread that has used up its tokens: prints the milliseconds that ten writes
 * to a connection took which has a closed file's number, ten opens of /dev/null, and one open that
 * makes a file. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static long now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int main(int argc, char **argv) {
    if (argc != 2 || chdir(argv[1]))
        return 9;
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    strcpy(addr.sun_path, "socket");
    int server = socket(AF_UNIX, SOCK_STREAM, 0), client = socket(AF_UNIX, SOCK_STREAM, 0);
    if (bind(server, (struct sockaddr *)&addr, sizeof addr) || listen(server, 1)
        || connect(client, (struct sockaddr *)&addr, sizeof addr))
        return 1;
    FILE *file = fopen("file", "w");
    int number = fileno(file);
    fputs("something", file);
    fflush(file);
    write(number, "more", 4);
    fsync(number);
    fclose(file);
    int conn = accept(server, NULL, NULL);
    if (conn != number)
        return 2;
    long begin = now_ms();
    for (int i = 0; i < 10; i++)
        if (write(conn, "answer", 6) != 6)
            return 3;
    long conns = now_ms() - begin;
    begin = now_ms();
    for (int i = 0; i < 10; i++)
        close(open("/dev/null", O_WRONLY | O_CREAT | O_TRUNC, 0666));
    long nulls = now_ms() - begin;
    begin = now_ms();
    close(open("new", O_WRONLY | O_CREAT, 0666));
    printf("%ld %ld %ld\n", conns, nulls, now_ms() - begin);
    return 0;
}

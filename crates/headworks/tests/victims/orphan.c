/* A child whose writes are held, as it has used up its tokens, and whose parent is killed meanwhile. Prints a line
 * when its writes are over. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv) {
    if (argc != 2 || chdir(argv[1]))
        return 9;
    int tell[2], fd = open("file", O_WRONLY | O_CREAT, 0666);
    char *mebibyte = calloc(1, 1 << 20), byte;
    if (pipe(tell))
        return 1;
    if (fork()) {
        if (read(tell[0], &byte, 1) != 1)
            return 2;
        sleep(1);
        raise(SIGKILL);
    }
    write(fd, mebibyte, 1 << 20);
    write(tell[1], "", 1);
    for (int i = 0; i < 3; i++)
        write(fd, mebibyte, 4096);
    puts("over");
    return 0;
}

/* Calls the fortified functions: with an argument they are asked for more than there is room for. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

int main(int argc, char **argv) {
    char buffer[8] = "";
    struct pollfd one[1];
    int ends[2];
    (void)argv;
    socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
    send(ends[0], "0123456789", 10, 0);
    one[0].fd = ends[1];
    one[0].events = POLLIN;
    size_t room = sizeof buffer + (argc == 2 ? 8 : 0);
    nfds_t count = argc == 3 ? 2 : 1;
    printf("%d\n", poll(one, (nfds_t)atoi(count == 1 ? "1" : "2"), 1000));
    printf("%d\n", (int)recv(ends[1], buffer, (size_t)atoi(room == 8 ? "8" : "16"), 0));
    printf("%.8s\n", buffer);
    return 0;
}

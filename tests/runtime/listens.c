/* listens.c -- prints the addresses beyond loopback on which MPI_Init made this rank listen, a line each. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <mpi.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>

enum { FDS = 256 };

static void look(int fd)
{
    struct sockaddr_storage at;
    socklen_t n = sizeof(int);
    int accepts = 0;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &accepts, &n) || !accepts)
        return;
    n = sizeof at;
    getsockname(fd, (struct sockaddr *)&at, &n);
    char text[INET6_ADDRSTRLEN] = "";
    if (at.ss_family == AF_INET)
        inet_ntop(AF_INET, &((struct sockaddr_in *)&at)->sin_addr, text, sizeof text);
    else if (at.ss_family == AF_INET6)
        inet_ntop(AF_INET6, &((struct sockaddr_in6 *)&at)->sin6_addr, text, sizeof text);
    if (*text && sscanf(text, "127.%d", &accepts) != 1)
        printf("listens on %s\n", text);
}

int main(int argc, char **argv)
{
    int had[FDS];                    /* the launcher's */
    for (int fd = 0; fd < FDS; fd++)
        had[fd] = fcntl(fd, F_GETFD) != -1;
    MPI_Init(&argc, &argv);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int fd = 0; fd < FDS; fd++)
        if (!had[fd])
            look(fd);
    puts("rank looked");
    fflush(stdout);
    MPI_Finalize();
    return 0;
}

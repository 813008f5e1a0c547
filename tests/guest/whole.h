/* Reads or sends so many bytes on a socket, all of them: 1, or 0 if the other side went away. */
#include <stddef.h>
#include <sys/socket.h>
#include <unistd.h>

static int whole(int fd, void *to, size_t len, int reads)
{
    char *at = to;
    while (len > 0) {
        ssize_t done = reads ? read(fd, at, len) : send(fd, at, len, MSG_NOSIGNAL);
        if (done <= 0)
            return 0;
        at += done;
        len -= (size_t)done;
    }
    return 1;
}

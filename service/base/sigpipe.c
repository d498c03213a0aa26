/* SPDX-License-Identifier: Apache-2.0 */
#include "service/base/sigpipe.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

ssize_t write_no_sigpipe(int fd, const void *data, size_t len) {
    sigset_t pipe_signal, pending, before;
    sigemptyset(&pipe_signal);
    sigaddset(&pipe_signal, SIGPIPE);
    sigpending(&pending);
    bool ours = !sigismember(&pending, SIGPIPE); /* one that waited before is not for us to take */
    pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
    ssize_t n = write(fd, data, len);
    int reason = errno;
    if (n < 0 && reason == EPIPE && ours)
        while (sigtimedwait(&pipe_signal, NULL, &(struct timespec){0}) < 0 && errno == EINTR)
            ;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = reason;
    return n;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "api/executor.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "service/base/clock.h"
#include "service/base/queue.h"

enum { MAX_WAITING = 8192 };

struct executor {
    struct queue *waiting; /* of struct work */
    int n_threads;
    pthread_t threads[];
};

static void *executor_main(void *data) {
    struct executor *executor = data;
    void *item;
    struct error error;
    while (queue_pop(executor->waiting, DEADLINE_NEVER, &item, &error) == 0) {
        struct work *work = item;
        work->run(work);
    }
    return NULL;
}

int executor_new(int threads, struct executor **ret, struct error *error) {
    struct executor *executor = calloc(1, sizeof *executor + (size_t)threads * sizeof executor->threads[0]);
    if (!executor)
        abort();
    executor->waiting = queue_new(MAX_WAITING);
    while (executor->n_threads < threads) {
        int code = pthread_create(&executor->threads[executor->n_threads], NULL, executor_main, executor);
        if (code != 0) {
            executor_free(executor);
            return error_set(error, ERROR_INTERNAL, "no-threads", NULL, "No thread could be made for requests: %s.",
                             strerror(code));
        }
        executor->n_threads++;
    }
    *ret = executor;
    return 0;
}

int executor_submit(struct executor *executor, struct work *work, struct error *error) {
    if (queue_push(executor->waiting, work, clock_now_ns(), error) == 0)
        return 0;
    return error_set(error, ERROR_BUSY, "busy", NULL, "The server has too much to do at the moment; try again.");
}

void executor_close(struct executor *executor) {
    if (!executor)
        return;
    queue_close(executor->waiting);
    for (; executor->n_threads > 0; executor->n_threads--)
        pthread_join(executor->threads[executor->n_threads - 1], NULL);
}

void executor_free(struct executor *executor) {
    if (!executor)
        return;
    executor_close(executor);
    queue_free(executor->waiting);
    free(executor);
}

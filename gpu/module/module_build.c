/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/module/module_build.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "gpu/measure/code_cache.h"
#include "service/base/clock.h"

enum { MOST_THREADS = 64, MOST_LOG = 1 << 20 };

/* Each thread takes the next program that nobody took. The lock guards `error`; built[i] belongs to who took i. */
struct team {
    const struct plan *plan;
    const struct target *target;
    const char *cache_dir;
    double timeout_s;
    struct code_built *built;
    atomic_int next;
    atomic_bool failed;
    pthread_mutex_t lock;
    struct error error; /* the first */
};

static void fail(struct team *team, const struct error *error) {
    pthread_mutex_lock(&team->lock);
    if (!atomic_exchange(&team->failed, true))
        team->error = *error;
    pthread_mutex_unlock(&team->lock);
}

static void *work(void *data) {
    struct team *team = data;
    CLEANUP(buf_release) struct buf log = BUF_INIT(MOST_LOG);
    for (int i; !team->failed && (i = atomic_fetch_add(&team->next, 1)) < team->plan->n_programs;) {
        const struct plan_program *program = &team->plan->programs[i];
        struct error error;
        if (code_build(team->cache_dir, team->target, program->program->source, deadline_in_s(team->timeout_s),
                       &team->built[i], &log, &error) < 0) {
            (void)error_prefix(&error, "Template %.60s, configuration %lld, for %.300s: ", program->template->name,
                               (long long)program->index, program->workload);
            fail(team, &error);
        }
    }
    return NULL;
}

/* The caller works too, so that all gets done where no thread can be made. */
static void work_together(struct team *team) {
    pthread_t threads[MOST_THREADS];
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int n = 0;
    while (n < MOST_THREADS && n < cores - 1 && n < team->plan->n_programs - 1 &&
           pthread_create(&threads[n], NULL, work, team) == 0)
        n++;
    work(team);
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
}

int module_build(const struct plan *plan, const struct target *target, const char *cache_dir, double timeout_s,
                 struct arena *arena, const char *const **ret_codes, struct error *error) {
    struct team team = {.plan = plan, .target = target, .cache_dir = cache_dir, .timeout_s = timeout_s};
    const char **codes = arena_array(arena, (size_t)plan->n_programs, sizeof *codes);
    team.built = arena_array(arena, (size_t)plan->n_programs, sizeof *team.built);
    pthread_mutex_init(&team.lock, NULL);
    work_together(&team);
    pthread_mutex_destroy(&team.lock);
    if (team.failed) {
        *error = team.error;
        return -1;
    }
    for (int i = 0; i < plan->n_programs; i++)
        codes[i] = team.built[i].path;
    *ret_codes = codes;
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/measure/warm.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gpu/measure/measure.h"
#include "gpu/measure/peer.h"
#include "service/base/clock.h"
#include "service/base/file.h"
#include "service/base/scratch.h"

/* ANSWERS: a builder says first that it has begun. */
enum { MOST_BUILDERS = 256, MOST_PATH = 512, NONE = -1, ANSWERS = 2 };
/* What a builder may take beyond a compile's time to start and to answer. */
#define BUILD_SLACK_S 5

struct builder {
    struct peer peer;
    int entry; /* that it compiles, or NONE */
};

/* One call of warm_cache. */
struct warming {
    const struct warm_options *options;
    const struct bank_entry *entries;
    int n, next, n_done;
    struct builder builders[MOST_BUILDERS];
    int n_builders;
    char program[PATH_MAX];
    struct scratch tmp;
    int null_fd;
    struct warm_result result;
};

static int open_warming(struct warming *warming, struct error *error) {
    const struct warm_options *options = warming->options;
    long cores = options->builders > 0 ? options->builders : sysconf(_SC_NPROCESSORS_ONLN);
    warming->n_builders = cores < 1 ? 1 : cores > MOST_BUILDERS ? MOST_BUILDERS : (int)cores;
    for (int i = 0; i < warming->n_builders; i++)
        warming->builders[i] = (struct builder){PEER_INIT, NONE};
    snprintf(warming->program, sizeof warming->program, "%s", options->program ? options->program : CHILD_SELF);
    if (file_make_dirs(options->cache_dir, error) < 0 ||
        scratch_make(options->cache_dir, "tmp", &warming->tmp, error) < 0)
        return -1;
    warming->null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (warming->null_fd < 0)
        return error_set(error, ERROR_IO, "open", NULL, "/dev/null cannot be opened.");
    return 0;
}

static void close_warming(struct warming *warming) {
    for (int i = 0; i < warming->n_builders; i++)
        peer_end(&warming->builders[i].peer);
    if (warming->null_fd >= 0)
        close(warming->null_fd);
    scratch_remove(&warming->tmp);
}

static struct json_object *request_of(const struct warming *warming, const struct bank_entry *entry) {
    struct json_object *request = json_object_new_object(), *items = json_object_new_array(),
                       *item = json_object_new_array();
    json_object_array_add(item, json_object_new_string(entry->template->name));
    json_object_array_add(item, json_object_new_int64(entry->index));
    json_object_array_add(items, item);
    json_add_string(request, "do", "compile");
    json_add_string(request, "workload", entry->workload);
    json_add(request, "items", items);
    json_add_string(request, "cache_dir", warming->options->cache_dir);
    json_add_string(request, "tmp_dir", warming->tmp.path);
    json_add_double(request, "timeout_s", warming->options->build_timeout_s);
    json_add(request, "target", target_to_json(warming->options->target));
    return request;
}

static int feed(struct warming *warming, struct error *error) {
    const struct peer_options options = peer_builder_options(warming->program, warming->null_fd);
    for (int i = 0; i < warming->n_builders && warming->next < warming->n; i++) {
        struct builder *builder = &warming->builders[i];
        if (builder->entry != NONE)
            continue;
        int rc = peer_ask(&builder->peer, &options, request_of(warming, &warming->entries[warming->next]), ANSWERS,
                          warming->options->build_timeout_s + BUILD_SLACK_S, error);
        if (rc < 0)
            return -1;
        if (rc == 0) /* else the child had died meanwhile: the next turn starts another */
            builder->entry = warming->next++;
    }
    return 0;
}

static void fail(struct warming *warming, const char *text) {
    struct warm_result *result = &warming->result;
    if (result->failed++ == 0)
        snprintf(result->text, sizeof result->text, "%s", text);
}

static void read_answer(struct warming *warming, struct json_object *answer) {
    const char *text = "", *path = "";
    int64_t error_no;
    double seconds;
    struct error error;
    struct stat info;
    if (json_read_string(answer, "text", JSON_REQUIRED, INT32_MAX, &text, &error) < 0 ||
        json_read_int(answer, "error_no", JSON_REQUIRED, 0, TRIAL_ERROR_COUNT - 1, &error_no, &error) < 0 ||
        json_read_string(answer, "path", JSON_REQUIRED, MOST_PATH, &path, &error) < 0 ||
        json_read_double(answer, "seconds", JSON_REQUIRED, 0, 1e9, &seconds, &error) < 0) {
        fail(warming, "The child's answer makes no sense.");
    } else if (error_no != TRIAL_OK) {
        fail(warming, text);
    } else {
        warming->result.compiled += seconds > 0;
        warming->result.hits += seconds == 0;
        warming->result.compile_s += seconds;
        warming->result.bytes += stat(path, &info) == 0 ? info.st_size : 0;
    }
}

static bool has_begun(struct json_object *answer) {
    return json_object_object_get_ex(answer, "begun", NULL);
}

static void hear(struct warming *warming, struct builder *builder, bool readable) {
    struct json_object *answer = NULL;
    char how[256], text[512];
    switch (peer_look(&builder->peer, readable, &answer, how, sizeof how)) {
    case PEER_NOTHING:
        return;
    case PEER_ANSWER:
        if (has_begun(answer)) {
            json_object_put(answer);
            return;
        }
        read_answer(warming, answer);
        json_object_put(answer);
        break;
    case PEER_DIED:
        snprintf(text, sizeof text, "The compiler process %s.", how);
        fail(warming, text);
        break;
    case PEER_LATE:
        snprintf(text, sizeof text, "Building did not end within %g s and was killed.",
                 warming->options->build_timeout_s);
        fail(warming, text);
        break;
    }
    builder->entry = NONE;
    warming->n_done++;
    if (warming->options->progress)
        warming->options->progress(warming->options->data, warming->n_done, warming->n);
}

static void wait_for_news(struct warming *warming) {
    struct pollfd fds[MOST_BUILDERS];
    int64_t until = deadline_in_s(1);
    for (int i = 0; i < warming->n_builders; i++) {
        const struct peer *peer = &warming->builders[i].peer;
        fds[i] = (struct pollfd){peer->owed > 0 ? peer->child.out : -1, POLLIN, 0};
        until = peer->owed > 0 && peer->deadline < until ? peer->deadline : until;
    }
    if (poll(fds, (nfds_t)warming->n_builders, deadline_poll_ms(until)) < 0)
        return; /* interrupted: look around */
    for (int i = 0; i < warming->n_builders; i++)
        if (warming->builders[i].peer.owed > 0)
            hear(warming, &warming->builders[i], fds[i].revents != 0);
}

int warm_cache(const struct warm_options *options, const struct bank_entry *entries, int n, struct warm_result *ret,
               struct error *error) {
    struct warming *warming = calloc(1, sizeof *warming);
    if (!warming)
        return error_set(error, ERROR_LIMIT, "out-of-memory", NULL, "There is no memory left to compile with.");
    warming->options = options;
    warming->entries = entries;
    warming->n = n;
    warming->null_fd = -1;
    int rc = open_warming(warming, error);
    while (rc == 0 && warming->n_done < n) {
        rc = feed(warming, error);
        if (rc == 0)
            wait_for_news(warming);
    }
    close_warming(warming);
    if (rc == 0)
        *ret = warming->result;
    free(warming);
    return rc;
}

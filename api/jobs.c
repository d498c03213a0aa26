/* SPDX-License-Identifier: Apache-2.0 */
/* jobs.c: tuning jobs: submit, list, look or wait, and the moves that a client may ask for. */
#include <stdlib.h>
#include <string.h>

#include "api/handlers.h"
#include "api/idempotency.h"
#include "api/job_json.h"
#include "api/job_texts.h"
#include "api/json_write.h"
#include "api/pages.h"
#include "api/server.h"
#include "api/webhooks.h"
#include "scheduler/job_options.h"
#include "service/base/clock.h"
#include "service/base/json.h"
#include "service/base/webhook_sign.h"

enum { MOST_JOB = 64 << 20, MOST_LIST = 256 << 20, MOST_WAIT_S = 300 };

/* Reads and writes the whole job. */
static int write_job(struct request *request, const char *id, struct buf *out, struct job_version *ret,
                     struct error *error) {
    struct arena *arena CLEANUP(arena_free_p) = arena_new(0);
    struct job_row *job;
    if (job_get(request->api->db, id, arena, &job, error) < 0)
        return -1;
    job_texts_write(request->api->job_texts, job, out);
    *ret = (struct job_version){job->last_event, job->row, job->state, job->elapsed_s};
    return 0;
}

/* Finer than the text, which has elapsed_s in thousandths: as long as that goes on there is no second answer alike. */
static const char *version_tag(struct arena *arena, const struct job_version *version) {
    return arena_printf(arena, "\"" WARPTUNE_VERSION "-%lld-%lld-%.6f\"", (long long)version->last_event,
                        (long long)version->row, version->elapsed_s);
}

/* As it was written last, when the database says that it is still so. */
static int answer_by_id(struct request *request, struct response *ret, int status, const char *id,
                        struct error *error) {
    struct job_texts *texts = request->api->job_texts;
    struct buf *json = request_buf(request, MOST_JOB);
    struct job_version version;
    bool known = job_texts_has(texts, id);
    if (known && job_version_get(request->api->db, id, &version, error) < 0)
        return -1;
    if (!(known && job_texts_take(texts, id, &version, json)) && write_job(request, id, json, &version, error) < 0)
        return -1;
    if (status == 200)
        ret->etag = version_tag(request->arena, &version);
    return response_written(request, ret, status, json, error);
}

/* ---- submit ---- */

struct submission {
    struct request *request;
    struct response *response;
    const char *made_secret; /* the webhook's, when it is ours: shown this once; NULL */
};

static int answer_submitted(struct submission *submission, const struct job_row *job, struct error *error) {
    struct request *request = submission->request;
    struct response *ret = submission->response;
    struct buf *json = request_buf(request, MOST_JOB), *whole = request_buf(request, MOST_JOB);
    job_write(json, job);
    if (submission->made_secret) {
        write_object(whole, NULL);
        write_members(whole, buf_str(json));
        write_text(whole, "webhook_secret", submission->made_secret);
        write_end(whole, '}');
    }
    *ret = (struct response){.fd = -1};
    response_header(request, ret, "Location", arena_printf(request->arena, "/v1/jobs/%s", job->id));
    return response_written(request, ret, 202, submission->made_secret ? whole : json, error);
}

/* In the job's transaction. */
static int answer_for_key(void *data, const struct job_row *job, struct idempotency_answer *ret, struct error *error) {
    struct submission *submission = data;
    if (answer_submitted(submission, job, error) < 0)
        return -1;
    idempotency_answer_of(submission->response, ret);
    return 0;
}

/* The secret that deliveries are signed with: the client's, or one made for it. */
static int choose_secret(const struct job_options *options, struct submission *submission, const char **ret,
                         struct error *error) {
    struct request *request = submission->request;
    if (!options->webhook_url)
        return 0;
    if (webhook_check_url(request, options->webhook_url, error) < 0)
        return -1;
    *ret = options->webhook_secret;
    if (!*ret) {
        char *made = arena_alloc(request->arena, WEBHOOK_SECRET_TEXT);
        webhook_secret_make(made);
        *ret = submission->made_secret = made;
    }
    return 0;
}

static int create(struct submission *submission, const struct job_options *options, struct error *error) {
    struct json_object *json CLEANUP(json_put_p) = job_options_json(options);
    struct request *request = submission->request;
    char id[UUID_TEXT];
    bool created;
    struct job_row *row;
    uuid_make(id);
    struct job_new job = {.id = id, /* so that a retry after a lost commit finds it */
                          .project_id = request->project_id,
                          .model_id = options->model_id,
                          .device = options->device,
                          .key = options->key,
                          .priority = (int)options->priority,
                          .options = json_text(json, NULL),
                          .labels = options->labels ? json_text(options->labels, NULL) : NULL,
                          .webhook_url = options->webhook_url,
                          .idempotency = request->idempotency,
                          .answer = answer_for_key,
                          .answer_data = submission,
                          .max_open = request->api->max_open_jobs,
                          .room = &request->api->job_room};
    if (choose_secret(options, submission, &job.webhook_secret, error) < 0 ||
        job_create(request->api->db, &job, id, &created, error) < 0)
        return -1;
    if (request->idempotency) /* the answer was written with the job */
        return 0;
    if (job_get(request->api->db, id, request->arena, &row, error) < 0)
        return -1;
    return answer_submitted(submission, row, error);
}

int job_submit(struct request *request, struct response *ret, struct error *error) {
    struct submission submission = {.request = request, .response = ret};
    struct job_options options;
    if (job_options_read(request->json, &options, error) < 0)
        return -1;
    if (!uuid_valid(options.model_id))
        return error_set(error, ERROR_NOT_FOUND, "no-such-model", "model_id", "There is no model %.64s.",
                         options.model_id);
    return create(&submission, &options, error);
}

/* ---- look ---- */

int job_page(struct request *request, struct response *ret, struct error *error) {
    struct job_filter filter = {.project_id = request->project_id,
                                .state = request_query(request, "state"),
                                .model_id = request_query(request, "model_id"),
                                .label = request_query(request, "label")};
    struct job_row *jobs;
    int n;
    bool more;
    if (filter.model_id && !uuid_valid(filter.model_id))
        return error_set(error, ERROR_INVALID, "bad-query", "model_id", "'%.64s' is no model's id.", filter.model_id);
    if (page_read(request, &filter.after, &filter.limit, error) < 0 ||
        job_list(request->api->db, &filter, request->arena, &jobs, &n, &more, error) < 0)
        return -1;
    struct buf *json = request_buf(request, MOST_LIST);
    write_object(json, NULL);
    write_array(json, "jobs");
    for (int i = 0; i < n; i++)
        job_write(json, &jobs[i]);
    return response_page(request, ret, json, more ? jobs[n - 1].id : NULL, error);
}

/*
 * For `fail=1`: the job's end as a status, so that `curl --fail` tells a script. 200: it succeeded. 424: it failed or
 * was cancelled, with its error as the problem. 202: it has not ended yet, look again.
 */
static int answer_by_end(struct request *request, struct response *ret, const char *id, enum job_state state,
                         struct error *error) {
    struct job_row *job;
    if (state != JOB_FAILED && state != JOB_CANCELLED)
        return answer_by_id(request, ret, state == JOB_SUCCEEDED ? 200 : 202, id, error);
    if (job_get(request->api->db, id, request->arena, &job, error) < 0)
        return -1;
    if (job->state == JOB_FAILED)
        return error_set(error, ERROR_CONFLICT, "job-failed", NULL, "Job %s failed with %s: %.800s", id,
                         job->error_code, job->error_text);
    if (job->state == JOB_CANCELLED)
        return error_set(error, ERROR_CONFLICT, "job-cancelled", NULL, "Job %s was cancelled.", id);
    return answer_by_id(request, ret, 202, id, error); /* taken up again, a moment ago */
}

/* A request that waits may look many times before it answers. */
static int look_at_job(struct request *request, struct response *ret, int64_t wait_s, bool by_end,
                       struct error *error) {
    const char *id = request->params[0];
    struct job_version job;
    uint64_t seen = hub_generation(request->api->hub, id);
    if (job_version_get(request->api->db, id, &job, error) < 0)
        return -1;
    if (!request->wait_until)
        request->wait_until = deadline_in_s((double)wait_s);
    if (job_state_ended(job.state) || clock_now_ns() >= request->wait_until || hub_draining(request->api->hub))
        return by_end ? answer_by_end(request, ret, id, job.state, error) : answer_by_id(request, ret, 200, id, error);
    *ret = (struct response){.kind = RESPONSE_WAIT, .job_id = id, .seen = seen, .fd = -1};
    return 0;
}

int job_show(struct request *request, struct response *ret, struct error *error) {
    int64_t wait_s, by_end;
    if (request_query_int(request, "wait", 0, MOST_WAIT_S, 0, &wait_s, error) < 0 ||
        request_query_int(request, "fail", 0, 1, 0, &by_end, error) < 0)
        return -1;
    return wait_s || by_end ? look_at_job(request, ret, wait_s, by_end, error)
                            : answer_by_id(request, ret, 200, request->params[0], error);
}

/* ---- moves ---- */

static int move(struct request *request, struct response *ret,
                int (*store_move)(struct db *db, const char *id, struct error *error), struct error *error) {
    if (store_move(request->api->db, request->params[0], error) < 0)
        return -1;
    return answer_by_id(request, ret, 202, request->params[0], error);
}

int job_do_cancel(struct request *request, struct response *ret, struct error *error) {
    return move(request, ret, job_cancel, error);
}

int job_do_pause(struct request *request, struct response *ret, struct error *error) {
    return move(request, ret, job_pause, error);
}

int job_do_resume(struct request *request, struct response *ret, struct error *error) {
    return move(request, ret, job_resume, error);
}

int job_do_retry(struct request *request, struct response *ret, struct error *error) {
    return move(request, ret, job_retry, error);
}

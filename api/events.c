/* SPDX-License-Identifier: Apache-2.0 */
/* events.c: following a job, or all jobs of a project; what is sent is stream.c's. */
#include "api/fields.h"
#include "api/handlers.h"
#include "api/server.h"
#include "service/store/event_store.h"
#include "service/store/job_store.h"
#include "service/store/project_store.h"

/* Where the client was: Last-Event-ID when it comes again by itself, else `after`, else `fallback`; `last` at most. */
static int read_after(const struct request *request, int64_t fallback, int64_t last, int64_t *ret,
                      struct error *error) {
    if (request_query_int(request, "after", 0, INT64_C(1) << 53, fallback, ret, error) < 0 ||
        field_event_id(request_header(request, "Last-Event-ID"), ret, error) < 0)
        return -1;
    if (*ret > last)
        *ret = last;
    return 0;
}

static void answer_stream(struct request *request, struct response *ret) {
    ret->kind = RESPONSE_EVENTS;
    ret->status = 200;
    ret->content_type = "text/event-stream";
    response_header(request, ret, "X-Accel-Buffering", "no");
}

int job_events(struct request *request, struct response *ret, struct error *error) {
    struct job_version job;
    int64_t after;
    if (hub_check(request->api->hub, error) < 0 ||
        job_version_get(request->api->db, request->params[0], &job, error) < 0 ||
        read_after(request, 0, job.last_event, &after, error) < 0)
        return -1;
    *ret =
        (struct response){.job_id = request->params[0], .after = after, .ended = job_state_ended(job.state), .fd = -1};
    answer_stream(request, ret);
    return 0;
}

/* From now on, unless the client says where it was: a project's past may be long. */
int project_events(struct request *request, struct response *ret, struct error *error) {
    const char *project_id = project_or_default(request->project_id);
    int64_t after, last;
    if (hub_check(request->api->hub, error) < 0 ||
        event_last_of_project(request->api->db, project_id, &last, error) < 0 ||
        read_after(request, last, last, &after, error) < 0)
        return -1;
    *ret = (struct response){.project_id = project_id, .after = after, .fd = -1};
    answer_stream(request, ret);
    return 0;
}

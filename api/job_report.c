/* SPDX-License-Identifier: Apache-2.0 */
/* job_report.c: a job's report, in the form that was asked for, compared to another job or to the golden set. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/auth.h"
#include "api/exchange.h"
#include "api/handlers.h"
#include "api/negotiate.h"
#include "api/report.h"
#include "api/server.h"
#include "service/store/model_store.h"

enum { MOST_REPORT = 64 << 20 };
#define DEFAULT_LIMIT 1.05

/* ---- the form ---- */

struct form {
    const char *name, *content_type;
    const char *media[3]; /* by which Accept names it, NULL-terminated */
    void (*write)(struct buf *out, const struct report *report);
};

/* The first is for those who do not care. */
static const struct form forms[] = {
    {"json", "application/json", {"application/json"}, report_write_json},
    {"html", "text/html; charset=utf-8", {"text/html"}, report_write_html},
    {"markdown", "text/markdown; charset=utf-8", {"text/markdown"}, report_write_markdown},
    {"junit", "application/xml", {"application/xml", "text/xml"}, report_write_junit},
};

static int choose_by_accept(const char *accept, const struct form **ret, struct error *error) {
    double best = 0;
    for (size_t i = 0; i < ARRAY_COUNT(forms); i++)
        for (int k = 0; forms[i].media[k]; k++) {
            double quality = negotiate_quality(accept, forms[i].media[k], strlen(forms[i].media[k]));
            if (quality > best) {
                best = quality;
                *ret = &forms[i];
            }
        }
    if (best > 0)
        return 0;
    return error_set(error, ERROR_INVALID, "not-acceptable", "Accept",
                     "A report is application/json, text/html, text/markdown or application/xml (JUnit), and Accept is "
                     "'%.100s'.",
                     accept);
}

static int choose_form(const struct request *request, const struct form **ret, struct error *error) {
    const char *name = request_query(request, "format"), *accept = request_header_list(request, "Accept");
    *ret = &forms[0];
    if (!name)
        return accept && *accept ? choose_by_accept(accept, ret, error) : 0;
    for (size_t i = 0; i < ARRAY_COUNT(forms); i++)
        if (strcmp(name, forms[i].name) == 0) {
            *ret = &forms[i];
            return 0;
        }
    return error_set(error, ERROR_INVALID, "bad-query", "format",
                     "'format' is '%.40s', but must be json, markdown, junit or html.", name);
}

/* ---- what goes into it ---- */

static int read_limit(const struct request *request, double *ret, struct error *error) {
    const char *text = request_query(request, "limit");
    char *end;
    *ret = DEFAULT_LIMIT;
    if (!text)
        return 0;
    if (!request_query(request, "compare_to"))
        return error_set(error, ERROR_INVALID, "bad-query", "limit", "'limit' means nothing without 'compare_to'.");
    *ret = strtod(text, &end);
    if (*text < '0' || *text > '9' || *end || !(*ret >= 1 && *ret <= 1000))
        return error_set(error, ERROR_INVALID, "bad-query", "limit",
                         "'limit' is '%.40s', but must be a ratio from 1 to 1000, like 1.05.", text);
    return 0;
}

static int load_golden(struct request *request, struct report_source *source, struct error *error) {
    struct golden_row *rows;
    int n;
    if (golden_now(request->api->db, request->project_id, source->job->device_key, request->arena, &rows, &n, error) <
        0)
        return -1;
    if (n == 0)
        return error_set(error, ERROR_NOT_FOUND, "no-golden", "compare_to",
                         "Nothing is golden for %.160s: PUT /v1/golden names a job whose configurations are.",
                         source->job->device_key);
    source->golden = &rows[0];
    return 0;
}

static int load_reference(struct request *request, struct report_source *source, struct error *error) {
    const char *compare_to = request_query(request, "compare_to");
    struct job_row *against;
    if (!compare_to)
        return 0;
    if (strcmp(compare_to, "golden") == 0)
        return load_golden(request, source, error);
    if (!uuid_valid(compare_to))
        return error_set(error, ERROR_INVALID, "bad-query", "compare_to",
                         "'compare_to' is '%.64s', but must be the id of a job, or golden.", compare_to);
    if (auth_owns_job(request, compare_to, error) < 0 ||
        job_get(request->api->db, compare_to, request->arena, &against, error) < 0)
        return -1;
    source->against = against;
    return 0;
}

/* A job outlives its model; then its id stands for it. */
static int load_name(struct request *request, struct report_source *source, struct error *error) {
    struct model_row *model;
    struct error missing;
    source->model_name = source->job->model_id;
    if (model_get(request->api->db, source->job->model_id, request->arena, &model, &missing) == 0) {
        source->model_name = *model->name ? model->name : source->model_name;
        return 0;
    }
    if (missing.class == ERROR_NOT_FOUND)
        return 0;
    *error = missing;
    return -1;
}

int job_report(struct request *request, struct response *ret, struct error *error) {
    const struct form *form;
    struct report_source source = {0};
    struct report report;
    struct job_row *job;
    if (choose_form(request, &form, error) < 0 || read_limit(request, &source.limit, error) < 0 ||
        job_get(request->api->db, request->params[0], request->arena, &job, error) < 0)
        return -1;
    source.job = job;
    if (load_reference(request, &source, error) < 0 || load_name(request, &source, error) < 0 ||
        report_fill(&source, request->arena, &report, error) < 0)
        return -1;
    struct buf *text = request_buf(request, MOST_REPORT);
    form->write(text, &report);
    if (buf_check(text, "the report", error) < 0)
        return -1;
    response_text(request, ret, 200, form->content_type, buf_str(text), text->len);
    response_header(request, ret, "Vary", "Accept");
    if (form->write == report_write_html)
        response_header(request, ret, "Content-Security-Policy",
                        "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
                        "frame-ancestors 'none'");
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dashboard.c: the dashboard at `/`: the files of api/dashboard/, which are part of the program. They hold nothing of
 * anybody's, so that whoever has no token yet may read them.
 */
#include <string.h>

#include "api/handlers.h"
#include "gpu/template/embed.h"
#include "service/base/sha256.h"

/* Each file's symbol and name. */
#define FILES(X)             \
    X(index, "index.html")   \
    X(style, "style.css")    \
    X(api, "api.js")         \
    X(app, "app.js")         \
    X(chart, "chart.js")     \
    X(configs, "configs.js") \
    X(devices, "devices.js") \
    X(dom, "dom.js")         \
    X(files, "files.js")     \
    X(forms, "forms.js")     \
    X(job, "job.js")         \
    X(jobs, "jobs.js")       \
    X(layers, "layers.js")   \
    X(model, "model.js")     \
    X(models, "models.js")   \
    X(new_job, "new_job.js") \
    X(sse, "sse.js")         \
    X(text, "text.js")

#define EMBED_FILE(symbol, name) EMBED(dashboard_##symbol, "api/dashboard/" name);
FILES(EMBED_FILE)

#define LIST_FILE(symbol, name) {name, dashboard_##symbol},
static const struct { const char *name, *text; } files[] = {FILES(LIST_FILE)};

static const char *type_of(const char *name) {
    const char *ending = strrchr(name, '.');
    return strcmp(ending, ".html") == 0  ? "text/html; charset=utf-8"
           : strcmp(ending, ".css") == 0 ? "text/css; charset=utf-8"
                                         : "text/javascript; charset=utf-8";
}

static int answer(struct request *request, struct response *ret, size_t file) {
    size_t len = strlen(files[file].text);
    char hex[SHA256_HEX];
    sha256_of(files[file].text, len, hex);
    response_text(request, ret, 200, type_of(files[file].name), files[file].text, len);
    ret->etag = arena_printf(request->arena, "\"%.32s\"", hex);
    return 0;
}

int dashboard_show(struct request *request, struct response *ret, struct error *error) {
    (void)error;
    return answer(request, ret, 0);
}

/* The page itself is only at `/`. */
int dashboard_file(struct request *request, struct response *ret, struct error *error) {
    for (size_t i = 1; i < ARRAY_COUNT(files); i++)
        if (strcmp(files[i].name, request->params[0]) == 0)
            return answer(request, ret, i);
    return error_set(error, ERROR_NOT_FOUND, "no-such-route", NULL, "There is nothing at %.200s.", request->path);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "service/client.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <curl/curl.h>

#include "service/base/arena.h"
#include "service/base/clock.h"
#include "service/base/file.h"
#include "service/base/json.h"
#include "service/base/utf8.h"
#include "service/base/web_url.h"
#include "service/store/uuid.h"

enum {
    MOST_ANSWER = 256 << 20,
    CONNECT_S = 15,
    STREAM_SILENT_S = 60, /* a stream has a sign of life each 15 s */
    SILENT_S = 900,       /* a large network takes a while to be understood */
};
#define PATIENCE_S 120 /* for a server that is away */
#define LONGEST_PAUSE_S 15

struct client {
    struct client_options options;
    struct arena *arena;
    char *server; /* without a slash at its end */
    CURL *curl;
};

/* One request and what comes of it. */
struct call {
    struct client *client;
    const char *path;
    const char *body; /* JSON to POST, or NULL */
    FILE *upload;     /* or this */
    int64_t upload_bytes;
    const char *key;    /* Idempotency-Key; NULL: none */
    const char *accept; /* NULL: JSON */
    struct event_reader *reader;
    int fd; /* where the bytes of a 200 go; -1: into `answer` */
    bool final;
    struct buf answer;
    int64_t received;
    int write_errno;
    bool enough; /* the reader had it */
    long status, retry_after;
    char curl_error[CURL_ERROR_SIZE];
};

int client_open(const struct client_options *options, struct client **ret, struct error *error) {
    char host[WEB_URL_HOST];
    if (web_url_check(options->server, "--server", host, error) < 0)
        return -1;
    curl_global_init(CURL_GLOBAL_DEFAULT);
    struct client *client = calloc(1, sizeof *client);
    if (!client || !(client->curl = curl_easy_init()))
        abort();
    client->options = *options;
    client->arena = arena_new(0);
    client->server = arena_strdup(client->arena, options->server);
    for (size_t len = strlen(client->server); len && client->server[len - 1] == '/'; len--)
        client->server[len - 1] = 0;
    *ret = client;
    return 0;
}

void client_close(struct client *client) {
    if (!client)
        return;
    curl_easy_cleanup(client->curl);
    arena_free(client->arena);
    free(client);
    curl_global_cleanup();
}

const char *client_server(const struct client *client) {
    return client->server;
}

const char *client_escape(struct client *client, const char *text) {
    char *escaped = curl_easy_escape(client->curl, text, 0);
    if (!escaped)
        abort();
    const char *copy = arena_strdup(client->arena, escaped);
    curl_free(escaped);
    return copy;
}

/* ---- called by libcurl ---- */

static long status_of(const struct call *call) {
    long status = 0;
    curl_easy_getinfo(call->client->curl, CURLINFO_RESPONSE_CODE, &status);
    return status;
}

static size_t take_bytes(char *bytes, size_t size, size_t count, void *data) {
    struct call *call = data;
    struct error error;
    size_t len = size * count;
    bool good = status_of(call) / 100 == 2;
    if (good && call->reader) {
        call->enough = !event_reader_add(call->reader, bytes, len);
        return call->enough ? 0 : len;
    }
    if (good && call->fd >= 0) {
        if (file_write_all(call->fd, bytes, len, &error) < 0) {
            call->write_errno = errno;
            return 0;
        }
        call->received += (int64_t)len;
        return len;
    }
    buf_append(&call->answer, bytes, len);
    return call->answer.overflowed ? 0 : len;
}

static int look_up(void *data, curl_off_t down_total, curl_off_t down, curl_off_t up_total, curl_off_t up) {
    const struct call *call = data;
    (void)down_total, (void)down, (void)up_total, (void)up;
    return !call->final && call->client->options.stop && call->client->options.stop();
}

/* ---- a request ---- */

static struct curl_slist *add_header(struct curl_slist *list, const char *name, const char *value) {
    char line[512];
    snprintf(line, sizeof line, "%s: %s", name, value);
    struct curl_slist *longer = curl_slist_append(list, line);
    if (!longer)
        abort();
    return longer;
}

static struct curl_slist *headers_of(const struct call *call) {
    struct curl_slist *list = NULL;
    char bearer[400];
    if (call->client->options.token) {
        snprintf(bearer, sizeof bearer, "Bearer %s", call->client->options.token);
        list = add_header(list, "Authorization", bearer);
    }
    list = add_header(list, "Accept", call->accept ? call->accept : "application/json");
    if (call->body)
        list = add_header(list, "Content-Type", "application/json");
    if (call->upload)
        list = add_header(list, "Content-Type", "application/octet-stream");
    if (call->key)
        list = add_header(list, "Idempotency-Key", call->key);
    if (call->reader && *call->reader->id)
        list = add_header(list, "Last-Event-ID", call->reader->id);
    return list;
}

static void set_up(struct call *call, const char *url, struct curl_slist *headers) {
    CURL *curl = call->client->curl;
    curl_easy_reset(curl); /* the connection stays */
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "warptune/" WARPTUNE_VERSION);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_S);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, call->reader ? (long)STREAM_SILENT_S : (long)SILENT_S);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_bytes);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, call);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, look_up);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, call);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, call->curl_error);
    if (call->client->options.ca)
        curl_easy_setopt(curl, CURLOPT_CAINFO, call->client->options.ca);
    if (call->body) {
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, call->body);
        curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(call->body));
    } else if (call->upload) {
        rewind(call->upload);
        curl_easy_setopt(curl, CURLOPT_POST, 1L);
        curl_easy_setopt(curl, CURLOPT_READDATA, call->upload);
        curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)call->upload_bytes);
    }
}

/* Whether the same request may be answered otherwise in a moment. */
static bool may_change(long status) {
    return status == 429 || status == 502 || status == 503 || status == 504;
}

/* The server's own words, when it has some. */
static int refused(struct call *call, struct error *error) {
    struct json_object *problem CLEANUP(json_put_p) = NULL;
    const char *type = "", *detail = NULL, *field = "";
    struct error ignored;
    if (json_parse(buf_str(&call->answer), call->answer.len, &problem, &ignored) < 0 ||
        json_read_string(problem, "type", JSON_OPTIONAL, 200, &type, &ignored) < 0 ||
        json_read_string(problem, "detail", JSON_OPTIONAL, 4000, &detail, &ignored) < 0 ||
        json_read_string(problem, "field", JSON_OPTIONAL, 200, &field, &ignored) < 0)
        detail = NULL;
    const char *code = strrchr(type, ':');
    enum error_class class = may_change(call->status) ? ERROR_BUSY : ERROR_INVALID;
    if (!detail)
        return error_set(error, class, "refused", NULL, "%s%s answered with status %ld and no reason.",
                         call->client->server, call->path, call->status);
    return error_set(error, class, code ? code + 1 : "refused", field, "The server refused (%ld%s%s): %s", call->status,
                     *field ? ", " : "", field, detail);
}

static int went_wrong(struct call *call, CURLcode code, struct error *error) {
    if (code == CURLE_ABORTED_BY_CALLBACK)
        return error_set(error, ERROR_CANCELLED, "stopped", NULL, "Stopped.");
    if (call->write_errno)
        return error_set(error, ERROR_IO, "cannot-write", NULL, "The file cannot be written: %s.",
                         strerror(call->write_errno));
    if (call->answer.overflowed)
        return buf_check(&call->answer, "the server's answer", error);
    char text[CURL_ERROR_SIZE];
    snprintf(text, sizeof text, "%s", *call->curl_error ? call->curl_error : curl_easy_strerror(code));
    utf8_scrub(text);
    bool certificate = code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE;
    return error_set(error, certificate ? ERROR_AUTH : ERROR_BUSY, "no-connection", NULL, "%s: %s.",
                     call->client->server, text);
}

/* ERROR_BUSY: another attempt may go better. */
static int attempt(struct call *call, struct error *error) {
    struct arena *arena CLEANUP(arena_free_p) = arena_new(0);
    struct curl_slist *headers = headers_of(call);
    buf_clear(&call->answer);
    call->curl_error[0] = 0;
    set_up(call, arena_printf(arena, "%s%s", call->client->server, call->path), headers);
    CURLcode code = curl_easy_perform(call->client->curl);
    curl_off_t retry_after = 0;
    curl_easy_getinfo(call->client->curl, CURLINFO_RETRY_AFTER, &retry_after);
    call->status = status_of(call);
    call->retry_after = (long)retry_after;
    curl_slist_free_all(headers);
    bool good = call->status / 100 == 2;
    bool broke_off = good && call->reader && code != CURLE_ABORTED_BY_CALLBACK; /* which a stream does in the end */
    if (code != CURLE_OK && !call->enough && !broke_off)
        return went_wrong(call, code, error);
    if (good)
        return 0;
    refused(call, error);
    if (strcmp(error->code, "idempotency-in-progress") == 0)
        error->class = ERROR_BUSY;
    return -1;
}

/* Sleeps, a second at a time at most. */
static int wait_a_while(const struct call *call, double seconds, struct error *error) {
    int64_t until = deadline_in_s(seconds);
    while (clock_now_ns() < until) {
        if (look_up((void *)call, 0, 0, 0, 0))
            return error_set(error, ERROR_CANCELLED, "stopped", NULL, "Stopped.");
        int ms = deadline_poll_ms(until);
        usleep((useconds_t)(ms > 200 ? 200 : ms) * 1000);
    }
    return 0;
}

static double pause_before(const struct call *call, double doubled) {
    double pause = call->retry_after > 0 ? (double)call->retry_after : doubled;
    return pause < LONGEST_PAUSE_S ? pause : LONGEST_PAUSE_S;
}

/* Until it is done, refused for good, or the patience is at its end; the first wait for a connection is told of. */
static int perform(struct call *call, struct error *error) {
    int64_t until = deadline_in_s(PATIENCE_S);
    bool told = false;
    double doubled = 0.5;
    while (attempt(call, error) < 0) {
        bool stays_away = error->class != ERROR_BUSY || call->received > 0;
        if (stays_away || clock_now_ns() >= until || strncmp(error->code, "quota-", 6) == 0)
            return -1;
        if (!told && strcmp(error->code, "no-connection") == 0)
            told = fprintf(stderr, "%s Trying again for %d s.\n", error->text, PATIENCE_S) > 0;
        if (wait_a_while(call, pause_before(call, doubled), error) < 0)
            return -1;
        doubled *= 2;
    }
    return 0;
}

/* ---- what others ask for ---- */

static struct call call_new(struct client *client, const char *path) {
    struct call call = {.client = client, .path = path, .fd = -1};
    buf_init(&call.answer, MOST_ANSWER);
    return call;
}

static int answer_json(struct call *call, struct json_object **ret, struct error *error) {
    int status = perform(call, error);
    if (status == 0 && json_parse(buf_str(&call->answer), call->answer.len, ret, error) < 0)
        status = error_prefix(error, "%s%s", call->client->server, call->path);
    buf_release(&call->answer);
    return status;
}

int client_get(struct client *client, const char *path, struct json_object **ret, struct error *error) {
    struct call call = call_new(client, path);
    return answer_json(&call, ret, error);
}

int client_post(struct client *client, const char *path, struct json_object *body, bool final, struct json_object **ret,
                struct error *error) {
    char key[UUID_TEXT];
    struct call call = call_new(client, path);
    uuid_make(key);
    call.body = json_text(body, NULL);
    call.key = key;
    call.final = final;
    return answer_json(&call, ret, error);
}

static int cannot_open(const char *file, struct error *error) {
    return error_set(error, errno == ENOENT ? ERROR_NOT_FOUND : ERROR_IO, "cannot-open", NULL, "%s: %s.", file,
                     strerror(errno));
}

int client_upload(struct client *client, const char *path, const char *file, struct json_object **ret,
                  struct error *error) {
    struct call call = call_new(client, path);
    struct stat about;
    call.upload = fopen(file, "rbe");
    if (!call.upload)
        return cannot_open(file, error);
    int status;
    if (fstat(fileno(call.upload), &about) < 0 || !S_ISREG(about.st_mode)) {
        status = error_set(error, ERROR_IO, "no-file", NULL, "%s is no regular file.", file);
    } else {
        call.upload_bytes = about.st_size;
        status = answer_json(&call, ret, error);
    }
    fclose(call.upload);
    return status;
}

int client_download(struct client *client, const char *path, const char *file, int64_t *ret_bytes,
                    struct error *error) {
    struct arena *arena CLEANUP(arena_free_p) = arena_new(0);
    char *part = arena_printf(arena, "%s.part-%d", file, (int)getpid());
    struct call call = call_new(client, path);
    call.accept = "*/*";
    call.fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (call.fd < 0)
        return cannot_open(part, error);
    int status = perform(&call, error);
    if (status == 0 && (fsync(call.fd) < 0 || rename(part, file) < 0))
        status = error_set(error, ERROR_IO, "cannot-write", NULL, "%s: %s.", file, strerror(errno));
    close(call.fd);
    if (status < 0)
        unlink(part);
    buf_release(&call.answer);
    *ret_bytes = call.received;
    return status;
}

int client_follow(struct client *client, const char *path, struct event_reader *reader, struct error *error) {
    struct call call = call_new(client, path);
    call.accept = "text/event-stream";
    call.reader = reader;
    int status = 0;
    while (status == 0 && !call.enough) {
        event_reader_restart(reader);
        status = perform(&call, error);
        if (status == 0 && !call.enough)
            status = wait_a_while(&call, 1, error);
    }
    buf_release(&call.answer);
    return status;
}

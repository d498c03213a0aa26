/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client.h: a client of a Warptune server, over libcurl: calls with JSON answers, downloads, a job's events.
 *
 * A server that is away, or says 503 or 429, is asked again for a while; POSTs carry an Idempotency-Key, so that none
 * is done twice. What the server refuses is an error with its own code, field and text. One thread uses a client.
 */
#ifndef WARPTUNE_CLIENT_H
#define WARPTUNE_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "service/base/attr.h"
#include "service/base/error.h"
#include "service/event_reader.h"

struct client;
struct json_object;

struct client_options {
    const char *server; /* http://HOST:PORT */
    const char *token;  /* NULL: none */
    const char *ca;     /* file of certificates to trust instead of the system's; NULL */
    bool (*stop)(void); /* asked about once a second; true: ERROR_CANCELLED. NULL: never */
};

/* ERROR_INVALID when the URL is none. */
int client_open(const struct client_options *options, struct client **ret, struct error *error) MUST_CHECK;
void client_close(struct client *client); /* NULL-safe */
const char *client_server(const struct client *client);

/* *ret is the caller's. Paths begin with "/v1". */
int client_get(struct client *client, const char *path, struct json_object **ret, struct error *error) MUST_CHECK;
/* `final`: is not stopped, so that it is known whether it was done. */
int client_post(struct client *client, const char *path, struct json_object *body, bool final, struct json_object **ret,
                struct error *error) MUST_CHECK;
int client_upload(struct client *client, const char *path, const char *file, struct json_object **ret,
                  struct error *error) MUST_CHECK;
/* The file is whole or not there. */
int client_download(struct client *client, const char *path, const char *file, int64_t *ret_bytes,
                    struct error *error) MUST_CHECK;
/*
 * Gives a stream's events to the reader until it has enough; a stream that breaks off is taken up where it was.
 * ERROR_BUSY when the server stays away.
 */
int client_follow(struct client *client, const char *path, struct event_reader *reader, struct error *error) MUST_CHECK;

/* A text for a URL's query or path, as curl_easy_escape makes it; the client frees it when it is closed. */
const char *client_escape(struct client *client, const char *text);

#endif

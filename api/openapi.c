/* SPDX-License-Identifier: Apache-2.0 */
#include "api/openapi.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/handlers.h"
#include "api/server.h"
#include "service/base/json.h"
#include "service/base/sha256.h"

/* ---- the pieces together ---- */

/* Members of `from` go into `into`; objects that both have are merged, anything else that both have is a mistake. */
static int merge(struct json_object *into, struct json_object *from, const char *piece, struct error *error) {
    json_object_object_foreach(from, name, value) {
        struct json_object *there;
        if (!json_object_object_get_ex(into, name, &there)) {
            json_add(into, name, json_object_get(value));
            continue;
        }
        if (!json_object_is_type(there, json_type_object) || !json_object_is_type(value, json_type_object))
            return error_set(error, ERROR_INTERNAL, "openapi", name, "%s says again what '%s' is.", piece, name);
        if (merge(there, value, piece, error) < 0)
            return -1;
    }
    return 0;
}

static int add_piece(struct json_object *document, const struct openapi_piece *piece, struct error *error) {
    struct json_object *fragment CLEANUP(json_put_p) = NULL;
    if (json_parse(piece->text, strlen(piece->text), &fragment, error) < 0)
        return error_prefix(error, "%s: ", piece->name);
    return merge(document, fragment, piece->name, error);
}

/* ---- what the table of routes says ---- */

static struct json_object *member(struct json_object *object, const char *name) {
    struct json_object *value = NULL;
    return object && json_object_object_get_ex(object, name, &value) ? value : NULL;
}

static void respond(struct json_object *responses, const char *status, const char *name) {
    char reference[64];
    if (member(responses, status))
        return;
    snprintf(reference, sizeof reference, "#/components/responses/%s", name);
    struct json_object *response = json_object_new_object();
    json_add_string(response, "$ref", reference);
    json_add(responses, status, response);
}

static void take_key(struct json_object *operation) {
    struct json_object *parameters = member(operation, "parameters"), *parameter = json_object_new_object();
    if (!parameters) {
        parameters = json_object_new_array();
        json_add(operation, "parameters", parameters);
    }
    json_add_string(parameter, "$ref", "#/components/parameters/idempotency_key");
    json_object_array_add(parameters, parameter);
}

static void complete(struct json_object *operation, const struct route *route) {
    struct json_object *responses = member(operation, "responses");
    json_add_string(operation, "summary", route->summary);
    if (!responses)
        return;
    respond(responses, "400", "BadRequest");
    if (strncmp(route->pattern, "/v1/", 4) == 0)
        respond(responses, "401", "Unauthorized");
    if (strncmp(route->pattern, "/v1/", 4) == 0 || strcmp(route->method, "GET") != 0)
        respond(responses, "403", "Forbidden");
    if (strcmp(route->method, "POST") == 0) {
        take_key(operation);
        respond(responses, "409", "Conflict");
        respond(responses, "422", "KeyReused");
    }
    if (strchr(route->pattern, '{'))
        respond(responses, "404", "NotFound");
    if (!route->makes || *route->makes)
        respond(responses, "406", "NotAcceptable");
    if (route->body != BODY_NONE) {
        respond(responses, "411", "LengthRequired");
        respond(responses, "413", "BodyTooLarge");
        respond(responses, "415", "UnsupportedMediaType");
        respond(responses, "507", "NoRoom");
    }
    respond(responses, "500", "InternalError");
    respond(responses, "503", "Unavailable");
}

static void complete_all(struct json_object *document) {
    struct json_object *paths = member(document, "paths");
    for (const struct route *route = routes; route->method; route++) {
        char method[16] = "";
        for (size_t i = 0; route->method[i] && i + 1 < sizeof method; i++)
            method[i] = (char)tolower((unsigned char)route->method[i]);
        struct json_object *operation = member(member(paths, route->pattern), method);
        if (operation)
            complete(operation, route);
    }
}

int openapi_make(struct json_object **ret, struct error *error) {
    struct json_object *document = json_object_new_object();
    for (const struct openapi_piece *piece = openapi_pieces; piece->name; piece++)
        if (add_piece(document, piece, error) < 0) {
            json_object_put(document);
            return -1;
        }
    struct json_object *info = member(document, "info");
    if (info)
        json_add_string(info, "version", WARPTUNE_VERSION);
    complete_all(document);
    *ret = document;
    return 0;
}

/* ---- served ---- */

int openapi_new(struct openapi **ret, struct error *error) {
    struct json_object *document CLEANUP(json_put_p) = NULL;
    char hex[SHA256_HEX];
    if (openapi_make(&document, error) < 0)
        return -1;
    struct openapi *openapi = calloc(1, sizeof *openapi);
    if (!openapi)
        abort();
    openapi->text = strdup(json_text(document, &openapi->len));
    if (!openapi->text)
        abort();
    sha256_of(openapi->text, openapi->len, hex);
    snprintf(openapi->etag, sizeof openapi->etag, "\"%.32s\"", hex);
    *ret = openapi;
    return 0;
}

void openapi_free(struct openapi *openapi) {
    if (!openapi)
        return;
    free(openapi->text);
    free(openapi);
}

int openapi_show(struct request *request, struct response *ret, struct error *error) {
    const struct openapi *openapi = request->api->openapi;
    (void)error;
    response_text(request, ret, 200, "application/json", openapi->text, openapi->len);
    ret->etag = openapi->etag;
    return 0;
}

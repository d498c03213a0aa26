/* SPDX-License-Identifier: Apache-2.0 */
/* The OpenAPI document against the table of routes: neither says what the other does not. */
#include <criterion/criterion.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "api/http.h"
#include "api/openapi.h"
#include "service/base/json.h"

static struct json_object *document;

static void make(void) {
    struct error error = {0};
    cr_assert_eq(openapi_make(&document, &error), 0, "%s", error.text);
}

static void drop(void) {
    json_object_put(document);
}

TestSuite(openapi, .init = make, .fini = drop);

static struct json_object *member(struct json_object *object, const char *name) {
    struct json_object *value = NULL;
    return object && json_object_object_get_ex(object, name, &value) ? value : NULL;
}

static const char *text_of(struct json_object *object, const char *name) {
    struct json_object *value = member(object, name);
    return value ? json_object_get_string(value) : "";
}

/* Where "#/components/…" points; the object itself when it is no reference. */
static struct json_object *resolve(struct json_object *object) {
    const char *at = text_of(object, "$ref");
    if (!*at)
        return object;
    cr_assert_eq(strncmp(at, "#/", 2), 0, "%s", at);
    struct json_object *found = document;
    for (at += 2; *at && found; at += strcspn(at, "/"), at += *at == '/') {
        char name[100] = "";
        memcpy(name, at, strcspn(at, "/"));
        found = member(found, name);
    }
    cr_assert_not_null(found, "%s points nowhere", text_of(object, "$ref"));
    return found;
}

static struct json_object *operation_of(const struct route *route) {
    char method[16] = "";
    for (size_t i = 0; route->method[i]; i++)
        method[i] = (char)tolower((unsigned char)route->method[i]);
    return member(member(member(document, "paths"), route->pattern), method);
}

static bool has_word(const char *words, const char *word) {
    size_t len = strlen(word);
    for (const char *at = words; at && *at; at += strcspn(at, " "), at += *at == ' ')
        if (strcspn(at, " ") == len && memcmp(at, word, len) == 0)
            return true;
    return false;
}

static int count_words(const char *words) {
    int n = 0;
    for (const char *at = words; at && *at; at += strcspn(at, " "), at += *at == ' ')
        n++;
    return n;
}

/* How many parameters of that kind the list has; each must be in `words`, or in the path in braces. */
static int count_parameters(struct json_object *list, const char *in, const struct route *route) {
    int n = 0;
    for (size_t i = 0; list && i < json_object_array_length(list); i++) {
        struct json_object *parameter = resolve(json_object_array_get_idx(list, i));
        const char *name = text_of(parameter, "name");
        char braced[100];
        cr_expect_not_null(member(parameter, "schema"), "%s has no schema", name);
        if (strcmp(text_of(parameter, "in"), in) != 0)
            continue;
        snprintf(braced, sizeof braced, "{%s}", name);
        if (strcmp(in, "query") == 0)
            cr_expect(has_word(route->queries, name), "%s %s has no query '%s'", route->method, route->pattern, name);
        else
            cr_expect(strstr(route->pattern, braced), "%s has no %s", route->pattern, braced);
        n++;
    }
    return n;
}

static int count_braces(const char *pattern) {
    int n = 0;
    for (; *pattern; pattern++)
        n += *pattern == '{';
    return n;
}

Test(openapi, each_route_is_in_the_document_with_its_parameters) {
    for (const struct route *route = routes; route->method; route++) {
        struct json_object *item = member(member(document, "paths"), route->pattern), *operation = operation_of(route);
        cr_assert_not_null(operation, "%s %s is not in api/openapi/", route->method, route->pattern);
        struct json_object *shared = member(item, "parameters"), *own = member(operation, "parameters");
        cr_expect_eq(count_parameters(shared, "query", route) + count_parameters(own, "query", route),
                     count_words(route->queries), "%s %s: queries", route->method, route->pattern);
        cr_expect_eq(count_parameters(shared, "path", route) + count_parameters(own, "path", route),
                     count_braces(route->pattern), "%s %s: path", route->method, route->pattern);
        cr_expect_str_eq(text_of(operation, "summary"), route->summary);
        cr_expect(*text_of(operation, "operationId"), "%s %s", route->method, route->pattern);
    }
}

static bool is_routed(const char *path, const char *method) {
    for (const struct route *route = routes; route->method; route++)
        if (strcmp(route->pattern, path) == 0 && strcasecmp(route->method, method) == 0)
            return true;
    return false;
}

Test(openapi, the_document_has_nothing_that_is_no_route) {
    json_object_object_foreach(member(document, "paths"), path, item) {
        json_object_object_foreach(item, method, operation) {
            (void)operation;
            cr_expect(strcmp(method, "parameters") == 0 || is_routed(path, method), "%s %s", method, path);
        }
    }
}

Test(openapi, operation_ids_are_unique) {
    for (const struct route *a = routes; a->method; a++)
        for (const struct route *b = a + 1; b->method; b++)
            cr_expect_str_neq(text_of(operation_of(a), "operationId"), text_of(operation_of(b), "operationId"));
}

/* The media types of all its good answers are those that the table says, and the other way round. */
static void check_types(const struct route *route, struct json_object *responses) {
    const char *makes = route->makes ? route->makes : "application/json";
    bool seen[8] = {false};
    json_object_object_foreach(responses, status, response) {
        struct json_object *content = member(resolve(response), "content");
        if (status[0] != '2' || !content)
            continue;
        json_object_object_foreach(content, type, media) {
            cr_expect_not_null(member(media, "schema"), "%s %s: %s", route->method, route->pattern, type);
            cr_expect(has_word(makes, type), "%s %s answers %s, which routes.c does not say", route->method,
                      route->pattern, type);
            int place = 0;
            for (const char *at = makes; *at && strncmp(at, type, strlen(type)) != 0; place++)
                at += strcspn(at, " "), at += *at == ' ';
            seen[place & 7] = true;
        }
    }
    for (int i = 0; i < count_words(makes); i++)
        cr_expect(seen[i], "%s %s: type %d of '%s' is not in the document", route->method, route->pattern, i, makes);
}

Test(openapi, answers_have_the_media_types_of_the_table) {
    for (const struct route *route = routes; route->method; route++) {
        struct json_object *responses = member(operation_of(route), "responses");
        int good = 0;
        cr_assert_not_null(responses, "%s %s", route->method, route->pattern);
        json_object_object_foreach(responses, status, response) {
            cr_expect(*text_of(resolve(response), "description"), "%s %s: %s", route->method, route->pattern, status);
            cr_expect(strlen(status) == 3 && strspn(status, "0123456789") == 3, "%s", status);
            good += status[0] == '2';
        }
        cr_expect(good > 0, "%s %s has no good answer", route->method, route->pattern);
        check_types(route, responses);
    }
}

Test(openapi, bodies_are_where_the_table_has_them) {
    for (const struct route *route = routes; route->method; route++) {
        struct json_object *content = member(member(operation_of(route), "requestBody"), "content");
        cr_expect_eq(content != NULL, route->body != BODY_NONE, "%s %s", route->method, route->pattern);
        if (route->body == BODY_JSON)
            cr_expect_not_null(member(content, "application/json"), "%s %s", route->method, route->pattern);
    }
}

/* Statuses that come with the kind of the route: by whoever adds one, without writing them down. */
Test(openapi, statuses_of_the_server_itself_are_declared) {
    for (const struct route *route = routes; route->method; route++) {
        struct json_object *responses = member(operation_of(route), "responses");
        cr_expect(member(responses, "400") && member(responses, "500") && member(responses, "503"), "%s",
                  route->pattern);
        if (route->body != BODY_NONE)
            cr_expect(member(responses, "411") && member(responses, "413") && member(responses, "415"), "%s",
                      route->pattern);
        if (strcmp(route->method, "GET") != 0)
            cr_expect_not_null(member(responses, "403"), "%s", route->pattern);
        if (strchr(route->pattern, '{'))
            cr_expect_not_null(member(responses, "404"), "%s", route->pattern);
    }
}

static void check_references(struct json_object *node) {
    if (json_object_is_type(node, json_type_array)) {
        for (size_t i = 0; i < json_object_array_length(node); i++)
            check_references(json_object_array_get_idx(node, i));
    } else if (json_object_is_type(node, json_type_object)) {
        resolve(node);
        json_object_object_foreach(node, name, value) {
            (void)name;
            check_references(value);
        }
    }
}

Test(openapi, every_reference_points_somewhere) {
    check_references(document);
}

Test(openapi, every_schema_is_used) {
    const char *text = json_text(document, NULL);
    json_object_object_foreach(member(member(document, "components"), "schemas"), name, schema) {
        char reference[160];
        (void)schema;
        snprintf(reference, sizeof reference, "\"#/components/schemas/%s\"", name);
        if (strcmp(name, "TrialRecord") != 0) /* of lines of a text: only its name is said */
            cr_expect(strstr(text, reference), "nothing refers to %s", name);
    }
}

Test(openapi, it_is_served_with_a_tag_that_follows_its_text) {
    struct openapi *one, *other;
    struct error error = {0};
    cr_assert_eq(openapi_new(&one, &error), 0, "%s", error.text);
    cr_assert_eq(openapi_new(&other, &error), 0, "%s", error.text);
    cr_expect_str_eq(one->text, other->text);
    cr_expect_str_eq(one->etag, other->etag);
    cr_expect(one->etag[0] == '"' && strlen(one->etag) == 34, "%s", one->etag);
    cr_expect_eq(one->len, strlen(one->text));
    openapi_free(one);
    openapi_free(other);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "service/base/log.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "service/base/json.h"

/* Standard error goes into a file from the first line on; each test runs in a process of its own. */
static FILE *captured;

static void capture(void) {
    captured = tmpfile();
    cr_assert_not_null(captured);
    dup2(fileno(captured), STDERR_FILENO);
}

TestSuite(log, .init = capture);

/* The next line, which must be JSON, in a buffer of the caller. */
static struct json_object *next_line(void) {
    static char line[64 * 1024];
    struct json_object *object = NULL;
    struct error error = {0};
    fflush(captured);
    if (!fgets(line, sizeof line, captured))
        return NULL;
    cr_assert_eq(json_parse(line, strlen(line), &object, &error), 0, "%s: %s", error.text, line);
    return object;
}

static const char *field(struct json_object *object, const char *name) {
    const char *text = "(absent)";
    cr_assert_eq(json_read_string(object, name, JSON_OPTIONAL, 1 << 20, &text, NULL), 0);
    return text;
}

Test(log, a_line_is_an_object_with_time_level_and_message) {
    log_init(LOG_INFO);
    log_line(LOG_WARN, "lease of task %d lost", 7);
    rewind(captured);
    CLEANUP(json_put_p) struct json_object *line = next_line();
    cr_assert_str_eq(field(line, "level"), "warn");
    cr_assert_str_eq(field(line, "message"), "lease of task 7 lost");
    cr_assert_eq(strlen(field(line, "time")), strlen("2026-01-02T03:04:05.678Z"));
    cr_assert_null(next_line());
}

Test(log, a_message_may_have_fields_of_its_own) {
    struct log_field fields[] = {{"path", "/v1/\"\n\xff", 0}, {"status", NULL, 404}, {"ms", NULL, 0.25}};
    log_init(LOG_INFO);
    log_context("request", "r1");
    log_fields(LOG_INFO, "request", fields, 3);
    log_fields(LOG_DEBUG, "dropped", fields, 3);
    rewind(captured);
    CLEANUP(json_put_p) struct json_object *line = next_line();
    double ms = 0;
    int64_t status = 0;
    cr_assert_str_eq(field(line, "message"), "request");
    cr_assert_str_eq(field(line, "request"), "r1");
    cr_assert_str_eq(field(line, "path"), "/v1/\"\n?");
    cr_assert_eq(json_read_int(line, "status", JSON_REQUIRED, 0, 1000, &status, NULL), 0);
    cr_assert_eq(json_read_double(line, "ms", JSON_REQUIRED, 0, 1, &ms, NULL), 0);
    cr_assert_eq(status, 404);
    cr_assert_eq(ms, 0.25);
    cr_assert_null(next_line());
}

Test(log, lines_below_the_level_are_dropped) {
    struct error error = {.class = ERROR_IO};
    log_init(LOG_ERROR);
    log_line(LOG_WARN, "no");
    log_error(LOG_INFO, "no", &error);
    log_line(LOG_ERROR, "yes");
    rewind(captured);
    CLEANUP(json_put_p) struct json_object *line = next_line();
    cr_assert_str_eq(field(line, "message"), "yes");
}

Test(log, hostile_bytes_stay_inside_one_valid_line) {
    log_line(LOG_INFO, "%s", "a\n{\"level\":\"error\"}\r\t\x01\x7F\xFF\xC0\x80\xED\xA0\x80 \\ z");
    rewind(captured);
    CLEANUP(json_put_p) struct json_object *line = next_line();
    cr_assert(strstr(field(line, "message"), "a\n{\"level\":\"error\"}\r\t\x01\x7F"));
    cr_assert(strstr(field(line, "message"), " \\ z"));
    cr_assert_null(next_line());
}

Test(log, the_longest_line_of_escapes_is_still_whole) {
    char bad[4000], key[] = "key0";
    memset(bad, 1, sizeof bad - 1);
    bad[sizeof bad - 1] = '\0';
    for (; key[3] < '6'; key[3]++)
        log_context(key, bad);
    struct error error;
    error_set(&error, ERROR_INVALID, bad, bad, "%s", bad);
    log_error(LOG_ERROR, bad, &error);
    rewind(captured);
    CLEANUP(json_put_p) struct json_object *line = next_line();
    cr_assert_str_eq(field(line, "class"), "invalid");
    cr_assert_str_neq(field(line, "key3"), "(absent)");
    cr_assert_str_eq(field(line, "key4"), "(absent)");
}

Test(log, an_error_is_logged_with_class_code_and_field) {
    struct error error;
    error_set(&error, ERROR_NOT_FOUND, "no-model", "model", "There is no such model.");
    log_error(LOG_ERROR, "import", &error);
    rewind(captured);
    CLEANUP(json_put_p) struct json_object *line = next_line();
    cr_assert_str_eq(field(line, "message"), "import: There is no such model.");
    cr_assert_str_eq(field(line, "class"), "not_found");
    cr_assert_str_eq(field(line, "code"), "no-model");
    cr_assert_str_eq(field(line, "field"), "model");
}

Test(log, context_is_added_replaced_and_removed) {
    log_context("request", "r1");
    log_context("job", "j1");
    log_context("request", "r2");
    log_line(LOG_INFO, "one");
    log_context("request", NULL);
    log_context("never-set", NULL);
    log_line(LOG_INFO, "two");
    rewind(captured);
    CLEANUP(json_put_p) struct json_object *one = next_line(), *two = next_line();
    cr_assert_str_eq(field(one, "request"), "r2");
    cr_assert_str_eq(field(one, "job"), "j1");
    cr_assert_str_eq(field(two, "request"), "(absent)");
    cr_assert_str_eq(field(two, "job"), "j1");
}

static void *log_from_thread(void *data) {
    (void)data;
    log_line(LOG_INFO, "from the thread");
    return NULL;
}

Test(log, context_belongs_to_its_thread) {
    pthread_t thread;
    log_context("job", "j1");
    cr_assert_eq(pthread_create(&thread, NULL, log_from_thread, NULL), 0);
    pthread_join(thread, NULL);
    rewind(captured);
    CLEANUP(json_put_p) struct json_object *line = next_line();
    cr_assert_str_eq(field(line, "job"), "(absent)");
}

static void *log_many(void *data) {
    for (int i = 0; i < 200; i++)
        log_line(LOG_INFO, "%s %d: %0200d", (const char *)data, i, 0);
    return NULL;
}

Test(log, lines_of_many_threads_do_not_mix) {
    pthread_t threads[4];
    char *names[4] = {"a", "b", "c", "d"};
    int count = 0;
    for (int i = 0; i < 4; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, log_many, names[i]), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    rewind(captured);
    for (struct json_object *line; (line = next_line()); count++)
        json_object_put(line);
    cr_assert_eq(count, 800);
}

Test(log, levels_are_parsed_by_name) {
    enum log_level level = LOG_ERROR;
    struct error error;
    cr_assert_eq(log_level_parse("debug", &level, &error), 0);
    cr_assert_eq(level, LOG_DEBUG);
    cr_assert_eq(log_level_parse("loud", &level, &error), -1);
    cr_assert_eq(error.class, ERROR_INVALID);
    cr_assert_eq(level, LOG_DEBUG);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/pg_fixture.h"

#include "api/handlers.h"
#include "api/server.h"
#include "service/base/json.h"
#include "service/store/config_store.h"

#define DENSE(rows) "dense(f32:row:1x64, f32:row:" #rows "x64) -> f32:row:1x" #rows
#define HERE "cpu/A CPU/x86-64-v3/4"
#define THERE "cpu/B CPU/x86-64-v3/8"

static void put(struct fixture *f, const char *workload, const char *device_key, const char *template, int version,
                double cost_s) {
    struct error error;
    struct config_row config = {.workload = workload,
                                .device_key = device_key,
                                .template = template,
                                .version = version,
                                .entity = "[]",
                                .cost_s = cost_s,
                                .baseline_s = INFINITY,
                                .provenance = "{}"};
    OK(config_put(f->db, &config, NULL, &error));
}

/* The answer's `match`, and the class of devices and workload of what was found ("" for nothing). */
struct answer {
    char match[32], workload[100], device_key[64], note[300];
};

static void copy(struct json_object *object, const char *field, char *ret, size_t size) {
    struct json_object *value = NULL;
    json_object_object_get_ex(object, field, &value);
    snprintf(ret, size, "%s", value ? json_object_get_string(value) : "");
}

static struct answer lookup(struct fixture *f, const char *workload, const char *device) {
    struct api api = {.db = f->db};
    struct arena *arena = arena_new(0);
    struct request request = {.api = &api, .arena = arena, .queries = {{"workload", workload}, {"device", device}}};
    struct response response = {0};
    struct json_object *object CLEANUP(json_put_p) = NULL, *config = NULL;
    struct answer answer = {0};
    struct error error;
    request.n_queries = 2;
    OK(config_lookup(&request, &response, &error));
    OK(json_parse(response.text, response.len, &object, &error));
    copy(object, "match", answer.match, sizeof answer.match);
    copy(object, "note", answer.note, sizeof answer.note);
    if (json_object_object_get_ex(object, "config", &config) && config) {
        copy(config, "workload", answer.workload, sizeof answer.workload);
        copy(config, "device_key", answer.device_key, sizeof answer.device_key);
    }
    arena_free(arena);
    return answer;
}

static void expect(struct fixture *f, const char *workload, const char *device, const char *match,
                   const char *found_workload, const char *found_device) {
    struct answer answer = lookup(f, workload, device);
    cr_expect_str_eq(answer.match, match, "%s on %s: %s", workload, device, answer.match);
    cr_expect_str_eq(answer.workload, found_workload, "%s", answer.match);
    cr_expect_str_eq(answer.device_key, found_device, "%s", answer.match);
    /* What is not exactly what was asked for says so in words as well. */
    cr_expect_eq(*answer.note == 0, strcmp(match, "exact") == 0 || strcmp(match, "none") == 0);
}

Test(config_lookup, says_how_well_it_matches) {
    struct fixture f = fixture_open();
    expect(&f, DENSE(10), HERE, "none", "", "");
    put(&f, DENSE(10), THERE, "plain.cpu", 1, 1e-5);
    put(&f, DENSE(10), "cpu/C CPU/x86-64-v3/2", "plain.cpu", 1, 2e-5);
    expect(&f, DENSE(10), HERE, "other-device", DENSE(10), THERE);
    expect(&f, DENSE(10), "cuda/NVIDIA T4/sm_75/40", "none", "", "");
    put(&f, DENSE(1000), HERE, "plain.cpu", 1, 1e-5);
    put(&f, DENSE(12), HERE, "plain.cpu", 1, 1e-5);
    expect(&f, DENSE(10), HERE, "near", DENSE(12), HERE);
    put(&f, DENSE(10), HERE, "plain.cpu", 1, 1e-5);
    expect(&f, DENSE(10), HERE, "exact", DENSE(10), HERE);
    fixture_close(&f);
}

Test(config_lookup, what_its_template_outgrew_is_stale_and_no_neighbour) {
    struct fixture f = fixture_open();
    put(&f, DENSE(10), HERE, "plain.cpu", 0, 1e-5);
    expect(&f, DENSE(10), HERE, "stale", DENSE(10), HERE);
    expect(&f, DENSE(11), HERE, "none", "", "");
    expect(&f, DENSE(10), THERE, "none", "", "");
    put(&f, DENSE(20), HERE, "gone.cpu", 1, 1e-5);
    expect(&f, DENSE(20), HERE, "stale", DENSE(20), HERE);
    expect(&f, DENSE(20), THERE, "none", "", "");
    fixture_close(&f);
}

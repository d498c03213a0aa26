/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "api/report_text.h"
#include "service/base/json.h"

#define RESULT(p50)                                                                                     \
    "{\"tuned_p50_us\": " p50 ", \"tuned_p90_us\": 110, \"tuned_p99_us\": 120, \"tuned_mean_us\": 105," \
    "\"baseline_p50_us\": 300, \"relative_error\": 1e-6, \"batch\": 2, \"samples_per_s\": 19047.6}"

#define DEVICE "cpu/test/4"

static struct task_row task_of(int number, const char *workload, double best_us) {
    return (struct task_row){.number = number,
                             .workload = workload,
                             .name = workload,
                             .count = number + 1,
                             .flops = 1000000,
                             .state = isfinite(best_us) ? JOB_SUCCEEDED : JOB_FAILED,
                             .trials_done = 7,
                             .errors = {7},
                             .best_template = isfinite(best_us) ? "conv2d.cpu" : NULL,
                             .best_entity = isfinite(best_us) ? "[[\"tile\",\"ot\",4]]" : NULL,
                             .best_s = best_us / 1e6,
                             .best_spread_s = best_us / 1e7,
                             .baseline_s = 30e-6,
                             .floor_s = 2e-6,
                             .search_s = 1.5,
                             .stop_reason = "trials"};
}

static struct job_row job_of(struct task_row *tasks, int n, const char *result) {
    return (struct job_row){.id = "01900000-0000-7000-8000-000000000001",
                            .model_id = "01900000-0000-7000-8000-00000000000a",
                            .state = JOB_SUCCEEDED,
                            .device_key = DEVICE,
                            .result = result,
                            .tasks = tasks,
                            .n_tasks = n,
                            .trials_done = 14,
                            .elapsed_s = 3,
                            .finished_us = 1796095440123456};
}

/* Fills it or ends the test. */
static struct report fill(const struct report_source *source, struct arena *arena) {
    struct report report;
    struct error error;
    cr_assert_eq(report_fill(source, arena, &report, &error), 0, "%s", error.text);
    return report;
}

static void refuse(const struct report_source *source, const char *code, const char *words) {
    struct arena *arena = arena_new(0);
    struct report report;
    struct error error;
    cr_assert_eq(report_fill(source, arena, &report, &error), -1);
    cr_expect_str_eq(error.code, code);
    cr_expect_eq(error.class, ERROR_CONFLICT);
    cr_expect_not_null(strstr(error.text, words), "%s", error.text);
    arena_free(arena);
}

typedef void report_writer(struct buf *out, const struct report *report);

static char *written(report_writer *write, const struct report *report, struct arena *arena) {
    struct buf out = BUF_INIT(1 << 20);
    struct error error;
    write(&out, report);
    cr_assert_eq(buf_check(&out, "it", &error), 0);
    char *text = arena_strdup(arena, buf_str(&out));
    buf_release(&out);
    return text;
}

static int count(const char *text, const char *what) {
    int n = 0;
    for (const char *at = text; (at = strstr(at, what)); at += strlen(what))
        n++;
    return n;
}

static void has(const char *text, const char *what) {
    cr_expect_not_null(strstr(text, what), "%s is missing in: %.3000s", what, text);
}

static void has_not(const char *text, const char *what) {
    cr_expect_null(strstr(text, what), "%s is in: %.3000s", what, text);
}

/* ---- figures ---- */

Test(report, figures_come_from_the_rows) {
    struct arena *arena = arena_new(0);
    struct task_row tasks[] = {task_of(0, "a", 10), task_of(1, "b", 20)};
    struct job_row job = job_of(tasks, 2, RESULT("100"));
    struct report report = fill(&(struct report_source){.job = &job, .model_name = "net"}, arena);
    cr_expect_eq(report.network.p50_us, 100);
    cr_expect_eq(report.network.p99_us, 120);
    cr_expect_float_eq(report.network.speedup, 3, 1e-9);
    cr_expect_eq(report.network.batch, 2);
    cr_expect_float_eq(report.network.layers_us, 10 + 2 * 20, 1e-9);
    cr_expect_float_eq(report.network.layers_floor_us, 3 * 2, 1e-9);
    cr_expect_float_eq(report.layers[1].ours_us, 20, 1e-9);
    cr_expect_float_eq(report.layers[1].speedup, 1.5, 1e-9);
    cr_expect_float_eq(report.layers[1].floor_ratio, 10, 1e-9);
    cr_expect_float_eq(report.layers[1].share, 0.8, 1e-9);
    cr_expect_eq(report.layers[1].verdict, REPORT_NOT_COMPARED);
    cr_expect_null(report.reference.job_id);
    arena_free(arena);
}

Test(report, what_is_not_known_is_left_open) {
    struct arena *arena = arena_new(0);
    struct task_row tasks[] = {task_of(0, "a", INFINITY), task_of(1, "b", 20)};
    tasks[1].baseline_s = tasks[1].floor_s = INFINITY;
    struct job_row job = job_of(tasks, 2, "{\"tuned_p50_us\": 100, \"baseline_p50_us\": null}");
    struct report report = fill(&(struct report_source){.job = &job, .model_name = "net"}, arena);
    cr_expect_eq(report.n_no_best, 1);
    cr_expect_eq(report.layers[0].verdict, REPORT_NO_BEST);
    cr_expect_eq(report.layers[1].speedup, INFINITY);
    cr_expect_eq(report.layers[1].share, INFINITY, "a sum with a hole is none");
    cr_expect_eq(report.network.speedup, INFINITY);
    const char *json = written(report_write_json, &report, arena);
    has(json, "\"p99_us\":null");
    has(json, "\"batch\":null");
    has(json, "\"baseline_us\":null");
    has(json, "\"template\":null,\"index\":null,\"knobs\":null");
    has(json, "\"comparison\":null");
    has(written(report_write_markdown, &report, arena), "| 20.00 µs ± 2.000 µs | – | – | – |");
    has(written(report_write_html, &report, arena), "aria-label=\"tuned 20.00 µs, untuned –, floor –\"");
    for (int i = 0; i < 3; i++) {
        report_writer *const writers[] = {report_write_markdown, report_write_junit, report_write_html};
        has_not(written(writers[i], &report, arena), "inf");
        has_not(written(writers[i], &report, arena), "nan");
    }
    arena_free(arena);
}

Test(report, a_job_without_a_result_has_none) {
    struct task_row tasks[] = {task_of(0, "a", 10)};
    struct job_row good = job_of(tasks, 1, RESULT("100")), job = job_of(tasks, 1, NULL);
    job.state = JOB_RUNNING;
    refuse(&(struct report_source){.job = &job, .model_name = "net"}, "job-not-finished", "running");
    refuse(&(struct report_source){.job = &good, .model_name = "net", .against = &job, .limit = 1.05},
           "job-not-finished", "running");
    job.state = JOB_CANCELLED;
    refuse(&(struct report_source){.job = &job, .model_name = "net"}, "job-without-result", "cancelled");
    job.state = JOB_FAILED;
    job.error_text = "The GPU fell off.";
    refuse(&(struct report_source){.job = &job, .model_name = "net"}, "job-without-result", "The GPU fell off.");
}

/* ---- comparing ---- */

Test(report, a_ratio_above_the_limit_is_a_regression) {
    struct arena *arena = arena_new(0);
    struct task_row ours[] = {task_of(0, "slower", 12), task_of(1, "same", 10.4), task_of(2, "faster", 8),
                              task_of(3, "new", 5), task_of(4, "none", INFINITY)};
    struct task_row theirs[] = {task_of(0, "same", 10), task_of(1, "slower", 10), task_of(2, "faster", 10),
                                task_of(3, "gone", 10), task_of(4, "none", 10)};
    struct job_row job = job_of(ours, 5, RESULT("100")), other = job_of(theirs, 5, RESULT("99"));
    struct report_source source = {.job = &job, .model_name = "net", .against = &other, .limit = 1.05};
    struct report report = fill(&source, arena);
    static const enum report_verdict verdicts[] = {REPORT_REGRESSION, REPORT_SAME, REPORT_FASTER, REPORT_NEW,
                                                   REPORT_NO_BEST};
    for (int i = 0; i < 5; i++)
        cr_expect_eq(report.layers[i].verdict, verdicts[i], "%s: %s", ours[i].name,
                     report_verdict_name(report.layers[i].verdict));
    cr_expect_float_eq(report.layers[0].ratio, 1.2, 1e-9);
    cr_expect_eq(report.layers[3].ratio, INFINITY);
    cr_expect_eq(report.network.verdict, REPORT_SAME);
    cr_expect_eq(report.n_regressions, 1);
    cr_expect_eq(report.reference.n_missing, 1);
    cr_expect_float_eq(report.reference.layers_ratio, (12 + 2 * 10.4 + 3 * 8) / 60, 1e-9);
    source.limit = 1.001;
    cr_expect_eq(fill(&source, arena).network.verdict, REPORT_REGRESSION);
    cr_expect_eq(fill(&source, arena).n_regressions, 3);
    arena_free(arena);
}

Test(report, times_of_another_class_of_devices_do_not_compare) {
    struct task_row tasks[] = {task_of(0, "a", 10)};
    struct job_row job = job_of(tasks, 1, RESULT("100")), other = job;
    other.device_key = "cpu/other/8";
    refuse(&(struct report_source){.job = &job, .model_name = "net", .against = &other, .limit = 1.05}, "other-device",
           "cpu/other/8");
}

Test(report, the_whole_compares_only_with_the_same_network_and_batch) {
    struct arena *arena = arena_new(0);
    struct task_row tasks[] = {task_of(0, "a", 10)};
    struct job_row job = job_of(tasks, 1, RESULT("100"));
    struct golden_config config = {.workload = "a", .cost_s = 10e-6};
    struct golden_row golden = {.number = 3,
                                .device_key = DEVICE,
                                .job_id = "01900000-0000-7000-8000-000000000002",
                                .model_id = "01900000-0000-7000-8000-00000000000a",
                                .result = RESULT("50"),
                                .configs = &config,
                                .n_configs = 1};
    struct report_source source = {.job = &job, .model_name = "net", .golden = &golden, .limit = 1.05};
    struct report report = fill(&source, arena);
    cr_expect_eq(report.network.ratio, 2);
    cr_expect_eq(report.n_regressions, 1);
    has(written(report_write_json, &report, arena), "\"golden\":3");
    has(written(report_write_markdown, &report, arena), "golden set 3 (job 01900000-0000-7000-8000-000000000002)");
    golden.result = "{\"tuned_p50_us\": 50, \"batch\": 1}";
    cr_expect_eq(fill(&source, arena).network.verdict, REPORT_NEW);
    golden.result = RESULT("50");
    golden.model_id[0] = '1';
    cr_expect_eq(fill(&source, arena).network.verdict, REPORT_NEW);
    cr_expect_eq(fill(&source, arena).n_regressions, 0);
    arena_free(arena);
}

/* ---- the forms ---- */

/* Every tag is closed in order, and no & or < stands for itself. */
static void expect_well_formed(const char *xml) {
    const char *open[32];
    int depth = 0;
    for (const char *at = xml; *at; at++) {
        if (*at == '&')
            cr_assert(at[1] == '#' && strcspn(at, ";") < 7, "%.40s", at);
        if (*at != '<' || at[1] == '?')
            continue;
        size_t len = strcspn(at + 1, " >/");
        const char *end = strchr(at, '>');
        cr_assert_not_null(end);
        if (at[1] == '/') {
            cr_assert_gt(depth, 0, "%.40s", at);
            len = (size_t)(end - at - 2);
            depth--;
            cr_assert(strncmp(open[depth], at + 2, len) == 0, "%.40s closes %.40s", at, open[depth]);
        } else if (end[-1] != '/') {
            cr_assert_lt(depth, 32);
            open[depth++] = at + 1;
        }
        cr_assert_eq(memchr(at + 1, '<', (size_t)(end - at - 1)), NULL, "%.40s", at);
    }
    cr_expect_eq(depth, 0);
}

/* A compared report of a network and layers with names that mean something to every format. */
static struct report hostile(struct arena *arena, struct task_row ours[2], struct job_row jobs[2]) {
    ours[0] = task_of(0, "a|b`c</code><script>alert(\"&\")</script>\n| x", 12);
    ours[1] = task_of(1, "@team ]]> \x01 \xef\xbf\xbf", INFINITY);
    ours[1].errors[3] = 2;
    struct task_row *theirs = arena_alloc(arena, sizeof *theirs);
    *theirs = ours[0];
    theirs->best_s = 10e-6;
    jobs[0] = job_of(ours, 2, RESULT("100"));
    jobs[1] = job_of(theirs, 1, RESULT("100"));
    return fill(&(struct report_source){.job = &jobs[0], .model_name = "<b>&'\"", .against = &jobs[1], .limit = 1.05},
                arena);
}

Test(report, junit_has_a_test_for_each_layer_and_says_why_it_failed) {
    struct arena *arena = arena_new(0);
    struct task_row ours[2];
    struct job_row jobs[2];
    struct report report = hostile(arena, ours, jobs);
    const char *xml = written(report_write_junit, &report, arena);
    expect_well_formed(xml);
    cr_expect_eq(count(xml, "<testcase"), 3);
    cr_expect_eq(count(xml, "<failure"), 2);
    has(xml, "tests=\"3\" failures=\"2\"");
    has(xml, "<failure type=\"regression\" message=\"12.00 µs where job 01900000-0000-7000-8000-000000000001 has "
             "10.00 µs: 1.200×, above the limit of 1.05×\"/>");
    has(xml, "<failure type=\"no_best\" message=\"Every trial failed: compile_device 2\"/>");
    has(xml, "name=\"&#60;b&#62;&#38;&#39;&#34;\"");
    has(xml, "&#10;| x\" time=\"1.500000\"");
    cr_expect_null(memchr(xml, 1, strlen(xml)), "a character that XML cannot have");
    has_not(xml, "\xef\xbf\xbf");
    arena_free(arena);
}

Test(report, html_lets_no_name_be_markup) {
    struct arena *arena = arena_new(0);
    struct task_row ours[2];
    struct job_row jobs[2];
    struct report report = hostile(arena, ours, jobs);
    const char *html = written(report_write_html, &report, arena);
    has_not(html, "<script");
    has(html, "&#60;script&#62;");
    has_not(html, "<b>");
    has(html, "<html lang=\"en\">");
    has(html, "<title>&#60;b&#62;");
    cr_expect_eq(count(html, "<svg class=\"bars\" role=\"img\""), 2);
    has(html, "<rect class=\"ours\" y=\"0\" width=\"40.00%\"");
    has(html, "<rect class=\"base\" y=\"13\" width=\"100.00%\"");
    has(html, "1.200× regression");
    arena_free(arena);
}

Test(report, markdown_keeps_names_inside_their_cells) {
    struct arena *arena = arena_new(0);
    struct task_row ours[2];
    struct job_row jobs[2];
    struct report report = hostile(arena, ours, jobs);
    const char *markdown = written(report_write_markdown, &report, arena);
    has(markdown, "<code>a&#124;b&#96;c&#60;/code&#62;&#60;script&#62;alert(&#34;&#38;&#34;)&#60;/script&#62; &#124; "
                  "x</code> ×1 |");
    has(markdown, "<code>&#64;team ");
    has(markdown, "1 regression against job");
    has(markdown, ":x: 1.200×");
    has(markdown, ":warning: every trial failed");
    /* Each row of the layers has as many cells as their head. */
    const char *row = strstr(markdown, "| | layer |");
    cr_assert_not_null(row);
    for (int i = 0; i < 4; i++) {
        int cells = 0;
        for (; *row != '\n'; row++)
            cells += *row == '|';
        cr_expect_eq(cells, 11, "row %d", i);
        row++;
    }
    arena_free(arena);
}

Test(report, json_lists_the_regressions) {
    struct arena *arena = arena_new(0);
    struct task_row ours[2];
    struct job_row jobs[2];
    struct error error;
    struct json_object *object, *comparison, *regressions;
    struct report report = hostile(arena, ours, jobs);
    ours[0].served = "{\"job_id\": \"x\"}";
    const char *json = written(report_write_json, &report, arena);
    cr_assert_eq(json_parse(json, strlen(json), &object, &error), 0, "%s", error.text);
    cr_assert(json_object_object_get_ex(object, "comparison", &comparison));
    cr_assert(json_object_object_get_ex(comparison, "regressions", &regressions));
    cr_expect_eq(json_object_array_length(regressions), 1);
    has(json, "\"served_by\":{\"job_id\": \"x\"}");
    has(json, "\"verdict\":\"no_best\"");
    has(json, "\"errors\":{\"none\":7,\"compile_device\":2}");
    json_object_put(object);
    arena_free(arena);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "scheduler/job_options.h"
#include "service/base/json.h"

static struct json_object *parse(const char *text) {
    struct json_object *object;
    struct error error = {0};
    cr_assert_eq(json_parse(text, strlen(text), &object, &error), 0, "%s", error.text);
    return object;
}

static void expect_refused(const char *text, const char *field) {
    struct json_object *body = parse(text);
    struct job_options options;
    struct error error = {0};
    cr_expect_eq(job_options_read(body, &options, &error), -1, "%s was accepted", text);
    cr_expect_str_eq(error.field, field, "%s: field %s, expected %s", text, error.field, field);
    json_object_put(body);
}

Test(job_options, only_the_model_is_required) {
    struct json_object *body = parse("{\"model_id\": \"m\"}");
    struct job_options options;
    struct error error = {0};
    cr_assert_eq(job_options_read(body, &options, &error), 0, "%s", error.text);
    cr_assert_str_eq(options.model_id, "m");
    cr_assert_str_eq(options.device, "auto");
    cr_assert_eq(options.precision, PRECISION_FP32);
    cr_assert_eq(options.layout, LAYOUT_NHWC);
    cr_assert_eq(options.trials, 100);
    cr_assert_eq(options.feature, FEATURE_ITERVAR);
    cr_assert_eq(options.loss, LOSS_REG);
    cr_assert_str_eq(options.template, "");
    cr_assert_eq(options.reuse, REUSE_KNOWLEDGE);
    json_object_put(body);
}

Test(job_options, reads_back_what_it_writes) {
    struct json_object *body =
        parse("{\"model_id\": \"m\", \"device\": \"cpu\", \"layout\": \"nchw\", \"batch\": 4, \"priority\": -3,"
              "\"precision\": \"fp16\","
              "\"tuner\": {\"name\": \"gridsearch\", \"trials\": 7, \"early_stopping\": 5, \"seed\": 11,"
              "\"feature\": \"curve\", \"loss\": \"rank-binary\", \"diversity_filter_ratio\": 1.5, \"template\": "
              "\"plain.cpu\"}, \"reuse\": false,"
              "\"measure\": {\"number\": 2, \"repeat\": 5, \"min_repeat_ms\": 1.5, \"timeout_s\": 3},"
              "\"budget_s\": 60, \"key\": \"lab\", \"labels\": {\"ci\": \"yes\"}}");
    struct job_options first, second;
    struct error error = {0};
    cr_assert_eq(job_options_read(body, &first, &error), 0, "%s", error.text);
    struct json_object *written = job_options_json(&first);
    cr_assert_eq(job_options_read(written, &second, &error), 0, "%s", error.text);
    cr_assert_eq(second.precision, PRECISION_FP16);
    cr_assert_eq(second.layout, LAYOUT_ROW);
    cr_assert_eq(second.batch, 4);
    cr_assert_eq(second.priority, -3);
    cr_assert_eq(second.tuner, &tuner_gridsearch);
    cr_assert_eq(second.early_stopping, 5);
    cr_assert_eq(second.seed, 11);
    cr_assert_eq(second.feature, FEATURE_CURVE);
    cr_assert_eq(second.loss, LOSS_RANK_BINARY);
    cr_assert_float_eq(second.diversity, 1.5, 1e-12);
    cr_assert_str_eq(second.template, "plain.cpu");
    cr_assert_not(second.reuse);
    cr_assert_eq(second.measure.repeat, 5);
    cr_assert_float_eq(second.measure.min_repeat_ms, 1.5, 1e-12);
    cr_assert_str_eq(second.key, "lab");
    cr_assert_eq(json_object_object_length(second.labels), 1);
    json_object_put(written);
    json_object_put(body);
}

Test(job_options, names_the_field_at_fault) {
    expect_refused("{}", "model_id");
    expect_refused("{\"model_id\": 3}", "model_id");
    expect_refused("{\"model_id\": \"m\", \"device\": \"tpu\"}", "device");
    expect_refused("{\"model_id\": \"m\", \"precision\": \"f16\"}", "precision");
    expect_refused("{\"model_id\": \"m\", \"precision\": 16}", "precision");
    expect_refused("{\"model_id\": \"m\", \"precision\": \"fp16\", \"tuner\": {\"template\": \"conv2d_direct.cpu\"}}",
                   "tuner.template");
    expect_refused("{\"model_id\": \"m\", \"tuner\": {\"trials\": 0}}", "tuner.trials");
    expect_refused("{\"model_id\": \"m\", \"tuner\": {\"name\": \"magic\"}}", "tuner.name");
    expect_refused("{\"model_id\": \"m\", \"tuner\": {\"colour\": 1}}", "tuner.colour");
    expect_refused("{\"model_id\": \"m\", \"tuner\": {\"feature\": \"pixels\"}}", "tuner.feature");
    expect_refused("{\"model_id\": \"m\", \"tuner\": {\"loss\": 1}}", "tuner.loss");
    expect_refused("{\"model_id\": \"m\", \"tuner\": {\"template\": \"conv9d.cpu\"}}", "tuner.template");
    expect_refused("{\"model_id\": \"m\", \"tuner\": {\"diversity_filter_ratio\": 0.5}}",
                   "tuner.diversity_filter_ratio");
    expect_refused("{\"model_id\": \"m\", \"reuse\": 1}", "reuse");
    expect_refused("{\"model_id\": \"m\", \"measure\": {\"repeat\": 1000}}", "measure.repeat");
    expect_refused("{\"model_id\": \"m\", \"labels\": {\"a\": 1}}", "labels");
    expect_refused("{\"model_id\": \"m\", \"budget_s\": -1}", "budget_s");
    expect_refused("{\"model_id\": \"m\", \"webhook\": \"http://x\"}", "webhook");
}

Test(job_options, a_webhooks_url_is_written_its_secret_is_not) {
    struct json_object *body = parse("{\"model_id\": \"m\", \"webhook_url\": \"https://example.com/a?b\","
                                     "\"webhook_secret\": \"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"}");
    struct job_options first, second;
    struct error error = {0};
    cr_assert_eq(job_options_read(body, &first, &error), 0, "%s", error.text);
    cr_assert_str_eq(first.webhook_secret, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
    struct json_object *written = job_options_json(&first);
    cr_assert(!strstr(json_text(written, NULL), "whsec_"));
    cr_assert_eq(job_options_read(written, &second, &error), 0, "%s", error.text);
    cr_assert_str_eq(second.webhook_url, "https://example.com/a?b");
    cr_assert_null(second.webhook_secret);
    json_object_put(written);
    json_object_put(body);
    expect_refused("{\"model_id\": \"m\", \"webhook_url\": \"example.com\"}", "webhook_url");
    expect_refused("{\"model_id\": \"m\", \"webhook_url\": null}", "webhook_url");
    expect_refused("{\"model_id\": \"m\", \"webhook_url\": \"http://x\", \"webhook_secret\": \"x\"}", "webhook_secret");
    expect_refused("{\"model_id\": \"m\", \"webhook_secret\": \"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"}",
                   "webhook_url");
}

static enum reuse_kind reuse_of(const char *text) {
    struct json_object *body = parse(text), *written;
    struct job_options options, again;
    struct error error = {0};
    cr_assert_eq(job_options_read(body, &options, &error), 0, "%s", error.text);
    written = job_options_json(&options);
    cr_assert_eq(job_options_read(written, &again, &error), 0, "%s", error.text);
    cr_expect_eq(again.reuse, options.reuse, "%s comes back as another", text);
    json_object_put(written);
    json_object_put(body);
    return options.reuse;
}

Test(job_options, reuse_is_true_false_or_exact) {
    cr_expect_eq(reuse_of("{\"model_id\": \"m\", \"reuse\": true}"), REUSE_KNOWLEDGE);
    cr_expect_eq(reuse_of("{\"model_id\": \"m\", \"reuse\": false}"), REUSE_NOTHING);
    cr_expect_eq(reuse_of("{\"model_id\": \"m\", \"reuse\": \"exact\"}"), REUSE_EXACT);
    expect_refused("{\"model_id\": \"m\", \"reuse\": \"near\"}", "reuse");
    expect_refused("{\"model_id\": \"m\", \"reuse\": null}", "reuse");
}

Test(job_options, cudnn_is_allowed_unless_it_is_not) {
    struct json_object *body = parse("{\"model_id\": \"m\"}");
    struct job_options options;
    struct error error = {0};
    cr_assert_eq(job_options_read(body, &options, &error), 0, "%s", error.text);
    cr_expect(options.allow_cudnn);
    options.allow_cudnn = false;
    struct json_object *written = job_options_json(&options);
    options.allow_cudnn = true;
    cr_assert_eq(job_options_read(written, &options, &error), 0, "%s", error.text);
    cr_expect_not(options.allow_cudnn);
    json_object_put(written);
    json_object_put(body);
    expect_refused("{\"model_id\": \"m\", \"allow_cudnn\": 1}", "allow_cudnn");
    expect_refused("{\"model_id\": \"m\", \"allow_cudnn\": false, \"tuner\": {\"template\": \"cudnn.cuda\"}}",
                   "allow_cudnn");
}

Test(job_options, a_wrong_name_is_answered_with_the_right_ones) {
    struct json_object *body = parse("{\"model_id\": \"m\", \"tuner\": {\"template\": \"conv9d.cpu\"}}");
    struct job_options options;
    struct error error = {0};
    cr_assert_eq(job_options_read(body, &options, &error), -1);
    cr_expect_not_null(strstr(error.text, "conv9d.cpu"));
    for (int i = 0; template_builtin[i]; i++)
        cr_expect_not_null(strstr(error.text, template_builtin[i]->name), "%s", error.text);
    json_object_put(body);
}

Test(job_options, a_template_for_another_precision_is_answered_with_those_for_this_one) {
    struct json_object *body =
        parse("{\"model_id\": \"m\", \"precision\": \"fp16\", \"tuner\": {\"template\": \"conv2d_simt.cuda\"}}");
    struct job_options options;
    struct error error = {0};
    cr_assert_eq(job_options_read(body, &options, &error), -1);
    cr_expect_str_eq(error.code, "wrong-precision");
    cr_expect_not_null(strstr(error.text, "'conv2d_simt.cuda' does not serve fp16"), "%s", error.text);
    cr_expect_not_null(strstr(error.text, "plain.cpu, plain.cuda"), "%s", error.text);
    cr_expect_null(strstr(error.text, "conv2d_direct.cpu"), "%s", error.text);
    json_object_put(body);
}

/* f32's templates may be named for tf32, and the tensor cores' for each precision but fp32. */
Test(job_options, a_template_is_named_for_each_precision_that_it_serves) {
    static const struct {
        const char *precision, *template;
        bool served;
    } cases[] = {
        {"fp32", "conv2d_mma.cuda", false},   {"fp16", "conv2d_mma.cuda", true},  {"bf16", "conv2d_mma.cuda", true},
        {"tf32", "conv2d_mma.cuda", true},    {"tf32", "conv2d_simt.cuda", true}, {"bf16", "conv2d_simt.cuda", false},
        {"bf16", "conv2d_direct.cpu", false}, {"bf16", "plain.cpu", true},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        char text[256];
        snprintf(text, sizeof text, "{\"model_id\": \"m\", \"precision\": \"%s\", \"tuner\": {\"template\": \"%s\"}}",
                 cases[i].precision, cases[i].template);
        struct json_object *body = parse(text);
        struct job_options options;
        struct error error = {0};
        cr_expect_eq(job_options_read(body, &options, &error) == 0, cases[i].served, "%s", text);
        cr_expect(cases[i].served || strcmp(error.code, "wrong-precision") == 0, "%s: %s", text, error.text);
        json_object_put(body);
    }
}

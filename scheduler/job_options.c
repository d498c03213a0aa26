/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/job_options.h"

#include <stdio.h>
#include <string.h>

#include "service/base/json.h"
#include "service/base/web_url.h"
#include "service/base/webhook_sign.h"

static const char *const body_fields[] = {"model_id",    "device",         "precision",   "layout", "batch", "tuner",
                                          "measure",     "budget_s",       "priority",    "reuse",  "key",   "labels",
                                          "webhook_url", "webhook_secret", "allow_cudnn", NULL};
static const char *const tuner_fields[] = {"name", "trials",   "early_stopping",         "seed", "feature",
                                           "loss", "template", "diversity_filter_ratio", NULL};
static const char *const measure_fields[] = {"number",     "repeat", "min_repeat_ms", "timeout_s", "build_timeout_s",
                                             "cooldown_s", NULL};

#define DEFAULT_TUNER (&tuner_auto)
#define DEFAULT_TRIALS 100

/* Puts the outer object's name before the field at fault: "trials" becomes "tuner.trials". */
static int nested(const char *outer, struct error *error) {
    char field[sizeof error->field];
    snprintf(field, sizeof field, "%s.%.100s", outer, error->field);
    memcpy(error->field, field, sizeof field);
    return -1;
}

/* A text that must be one of `allowed`; *ret_index keeps its value when the field is absent. */
static int read_choice(struct json_object *object, const char *field, const char *const *allowed, int *ret_index,
                       struct error *error) {
    const char *text = allowed[*ret_index];
    if (json_read_string(object, field, JSON_OPTIONAL, 64, &text, error) < 0)
        return -1;
    char list[200] = "";
    for (int i = 0; allowed[i]; i++) {
        if (strcmp(allowed[i], text) == 0) {
            *ret_index = i;
            return 0;
        }
        size_t len = strlen(list);
        snprintf(list + len, sizeof list - len, "%s%s", i ? ", " : "", allowed[i]);
    }
    return error_set(error, ERROR_INVALID, "bad-value", field, "'%s' is '%.60s', but must be one of: %s.", field, text,
                     list);
}

enum { MOST_NAMES = 700 };

/* The templates for some of these types. */
static void list_templates(unsigned dtypes, char ret[MOST_NAMES]) {
    size_t len = 0;
    ret[0] = '\0';
    for (int i = 0; template_builtin[i] && len + 1 < MOST_NAMES; i++)
        if (template_builtin[i]->dtypes & dtypes)
            len += (size_t)snprintf(ret + len, MOST_NAMES - len, "%s%s", len ? ", " : "", template_builtin[i]->name);
}

/* A template may be named that serves none of the model's tasks; but there must be one of that name. */
static int check_template(const char *name, struct error *error) {
    if (!*name || template_find(template_builtin, name))
        return 0;
    char names[MOST_NAMES];
    list_templates(~0U, names);
    return error_set(error, ERROR_INVALID, "unknown-template", "template",
                     "There is no template '%.60s'. Choose one of: %s.", name, names);
}

/* One that cannot serve any task, whatever the model, would be an option without effect. */
static int check_template_precision(const struct job_options *options, struct error *error) {
    const struct template *named = *options->template ? template_find(template_builtin, options->template) : NULL;
    unsigned dtypes = DTYPE_BIT(precision_dtype(options->precision));
    dtypes |= options->precision == PRECISION_TF32 ? TF32_BIT : 0;
    if (!named || named->dtypes & dtypes)
        return 0;
    char names[MOST_NAMES];
    list_templates(dtypes, names);
    return error_set(error, ERROR_INVALID, "wrong-precision", "tuner.template",
                     "The template '%s' does not serve %s. Choose one of: %s.", named->name,
                     precision_name(options->precision), names);
}

/* To name a library's template and to forbid the library contradict each other. */
static int check_template_library(const struct job_options *options, struct error *error) {
    const struct template *named = *options->template ? template_find(template_builtin, options->template) : NULL;
    if (options->allow_cudnn || !named || !named->library)
        return 0;
    return error_set(error, ERROR_INVALID, "bad-value", "allow_cudnn",
                     "The template '%s' needs %s, which 'allow_cudnn' forbids.", named->name, named->library);
}

static int read_model_choices(struct json_object *tuner, struct job_options *options, struct error *error) {
    const char *const features[] = {feature_name(FEATURE_ITERVAR), feature_name(FEATURE_KNOB),
                                    feature_name(FEATURE_CURVE), NULL};
    const char *const losses[] = {loss_name(LOSS_REG), loss_name(LOSS_RANK), loss_name(LOSS_RANK_BINARY), NULL};
    int feature = (int)options->feature, loss = (int)options->loss;
    if (read_choice(tuner, "feature", features, &feature, error) < 0 ||
        read_choice(tuner, "loss", losses, &loss, error) < 0)
        return -1;
    options->feature = (enum feature_kind)feature;
    options->loss = (enum loss_kind)loss;
    return 0;
}

static int read_diversity(struct json_object *tuner, double *ret, struct error *error) {
    static const char field[] = "diversity_filter_ratio";
    if (json_read_double(tuner, field, JSON_OPTIONAL, 0, 100, ret, error) < 0)
        return -1;
    if (*ret > 0 && *ret <= 1)
        return error_set(error, ERROR_INVALID, "bad-value", field, "'%s' is %g, but must be 0 (off) or above 1.", field,
                         *ret);
    return 0;
}

static int read_tuner(struct json_object *tuner, struct job_options *options, struct error *error) {
    const char *name = options->tuner->name;
    if (json_only_fields(tuner, tuner_fields, error) < 0 ||
        json_read_string(tuner, "name", JSON_OPTIONAL, 40, &name, error) < 0 ||
        json_read_int(tuner, "trials", JSON_OPTIONAL, 1, 1000000, &options->trials, error) < 0 ||
        json_read_int(tuner, "early_stopping", JSON_OPTIONAL, 0, 1000000, &options->early_stopping, error) < 0 ||
        json_read_int(tuner, "seed", JSON_OPTIONAL, 0, INT64_MAX, &options->seed, error) < 0 ||
        json_read_string(tuner, "template", JSON_OPTIONAL, 60, &options->template, error) < 0 ||
        read_model_choices(tuner, options, error) < 0 || read_diversity(tuner, &options->diversity, error) < 0 ||
        check_template(options->template, error) < 0)
        return nested("tuner", error);
    return tuner_find(name, &options->tuner, error);
}

static int read_measure(struct json_object *object, struct measure_options *measure, struct error *error) {
    int64_t number = measure->number, repeat = measure->repeat;
    if (json_only_fields(object, measure_fields, error) < 0 ||
        json_read_int(object, "number", JSON_OPTIONAL, 0, 100000, &number, error) < 0 ||
        json_read_int(object, "repeat", JSON_OPTIONAL, 1, TRIAL_MAX_COSTS, &repeat, error) < 0 ||
        json_read_double(object, "min_repeat_ms", JSON_OPTIONAL, 0, 10000, &measure->min_repeat_ms, error) < 0 ||
        json_read_double(object, "timeout_s", JSON_OPTIONAL, 0.1, 600, &measure->timeout_s, error) < 0 ||
        json_read_double(object, "build_timeout_s", JSON_OPTIONAL, 0.1, 600, &measure->build_timeout_s, error) < 0 ||
        json_read_double(object, "cooldown_s", JSON_OPTIONAL, 0, 60, &measure->cooldown_s, error) < 0)
        return nested("measure", error);
    measure->number = (int)number;
    measure->repeat = (int)repeat;
    return 0;
}

static int check_labels(struct json_object *labels, struct error *error) {
    if (json_object_object_length(labels) > 32)
        return error_set(error, ERROR_INVALID, "too-many-labels", "labels", "A job may carry at most 32 labels.");
    json_object_object_foreach(labels, name, value) {
        if (!json_object_is_type(value, json_type_string) || strlen(name) > 63 ||
            json_object_get_string_len(value) > 255)
            return error_set(error, ERROR_INVALID, "bad-label", "labels",
                             "Label '%.63s' must be a text of at most 255 bytes, under a name of at most 63.", name);
    }
    return 0;
}

/* false, true or "exact". */
static int read_reuse(struct json_object *body, enum reuse_kind *ret, struct error *error) {
    struct json_object *value;
    if (!json_object_object_get_ex(body, "reuse", &value))
        return 0;
    if (json_object_is_type(value, json_type_boolean))
        *ret = json_object_get_boolean(value) ? REUSE_KNOWLEDGE : REUSE_NOTHING;
    else if (json_object_is_type(value, json_type_string) && strcmp(json_object_get_string(value), "exact") == 0)
        *ret = REUSE_EXACT;
    else
        return error_set(error, ERROR_INVALID, "bad-value", "reuse", "'reuse' must be true, false or \"exact\".");
    return 0;
}

static int read_webhook(struct json_object *body, struct job_options *options, struct error *error) {
    char host[WEB_URL_HOST];
    if (json_read_string(body, "webhook_url", JSON_OPTIONAL, WEB_URL_MOST, &options->webhook_url, error) < 0 ||
        json_read_string(body, "webhook_secret", JSON_OPTIONAL, WEBHOOK_SECRET_TEXT, &options->webhook_secret, error) <
            0)
        return -1;
    if (options->webhook_secret && !options->webhook_url)
        return error_set(error, ERROR_INVALID, "missing-field", "webhook_url",
                         "'webhook_secret' is of use only with 'webhook_url'.");
    if (options->webhook_secret && webhook_secret_check(options->webhook_secret, error) < 0)
        return -1;
    return options->webhook_url ? web_url_check(options->webhook_url, "webhook_url", host, error) : 0;
}

int job_options_read(struct json_object *body, struct job_options *ret, struct error *error) {
    static const char *const devices[] = {"auto", "cpu", "cuda", NULL};
    static const char *const layouts[] = {"auto", "nhwc", "nchw", NULL};
    struct job_options options = {.tuner = DEFAULT_TUNER,
                                  .trials = DEFAULT_TRIALS,
                                  .template = "",
                                  .allow_cudnn = true,
                                  .reuse = REUSE_KNOWLEDGE,
                                  .measure = measure_defaults,
                                  .key = ""};
    struct json_object *tuner = NULL, *measure = NULL;
    const char *precision = precision_name(PRECISION_FP32);
    int device = 0, layout = 0;
    if (json_only_fields(body, body_fields, error) < 0 ||
        json_read_string(body, "model_id", JSON_REQUIRED, 64, &options.model_id, error) < 0 ||
        read_choice(body, "device", devices, &device, error) < 0 ||
        json_read_string(body, "precision", JSON_OPTIONAL, 64, &precision, error) < 0 ||
        precision_parse(precision, "bad-value", &options.precision, error) < 0 ||
        read_choice(body, "layout", layouts, &layout, error) < 0 ||
        json_read_int(body, "batch", JSON_OPTIONAL, 0, 65536, &options.batch, error) < 0 ||
        json_read_double(body, "budget_s", JSON_OPTIONAL, 0, 1e7, &options.budget_s, error) < 0 ||
        json_read_int(body, "priority", JSON_OPTIONAL, -100, 100, &options.priority, error) < 0 ||
        read_reuse(body, &options.reuse, error) < 0 ||
        json_read_bool(body, "allow_cudnn", JSON_OPTIONAL, &options.allow_cudnn, error) < 0 ||
        json_read_string(body, "key", JSON_OPTIONAL, 64, &options.key, error) < 0 ||
        json_read_object(body, "tuner", JSON_OPTIONAL, &tuner, error) < 0 ||
        json_read_object(body, "measure", JSON_OPTIONAL, &measure, error) < 0 ||
        json_read_object(body, "labels", JSON_OPTIONAL, &options.labels, error) < 0 ||
        read_webhook(body, &options, error) < 0)
        return -1;
    if ((tuner && read_tuner(tuner, &options, error) < 0) || check_template_precision(&options, error) < 0 ||
        check_template_library(&options, error) < 0 ||
        (measure && read_measure(measure, &options.measure, error) < 0) ||
        (options.labels && check_labels(options.labels, error) < 0))
        return -1;
    options.device = devices[device];
    options.layout = strcmp(layouts[layout], "nchw") == 0 ? LAYOUT_ROW : LAYOUT_NHWC;
    *ret = options;
    return 0;
}

struct json_object *job_options_json(const struct job_options *options) {
    struct json_object *body = json_object_new_object(), *tuner = json_object_new_object(),
                       *measure = json_object_new_object();
    json_add_string(body, "model_id", options->model_id);
    json_add_string(body, "device", options->device);
    json_add_string(body, "precision", precision_name(options->precision));
    json_add_string(body, "layout", options->layout == LAYOUT_ROW ? "nchw" : "nhwc");
    json_add_int(body, "batch", options->batch);
    json_add_string(tuner, "name", options->tuner->name);
    json_add_int(tuner, "trials", options->trials);
    json_add_int(tuner, "early_stopping", options->early_stopping);
    json_add_int(tuner, "seed", options->seed);
    json_add_string(tuner, "feature", feature_name(options->feature));
    json_add_string(tuner, "loss", loss_name(options->loss));
    json_add_double(tuner, "diversity_filter_ratio", options->diversity);
    json_add_string(tuner, "template", options->template);
    json_add(body, "tuner", tuner);
    json_add_int(measure, "number", options->measure.number);
    json_add_int(measure, "repeat", options->measure.repeat);
    json_add_double(measure, "min_repeat_ms", options->measure.min_repeat_ms);
    json_add_double(measure, "timeout_s", options->measure.timeout_s);
    json_add_double(measure, "build_timeout_s", options->measure.build_timeout_s);
    json_add_double(measure, "cooldown_s", options->measure.cooldown_s);
    json_add(body, "measure", measure);
    json_add_double(body, "budget_s", options->budget_s);
    json_add_int(body, "priority", options->priority);
    if (options->reuse == REUSE_EXACT)
        json_add_string(body, "reuse", "exact");
    else
        json_add_bool(body, "reuse", options->reuse == REUSE_KNOWLEDGE);
    json_add_bool(body, "allow_cudnn", options->allow_cudnn);
    json_add_string(body, "key", options->key);
    if (options->webhook_url)
        json_add_string(body, "webhook_url", options->webhook_url);
    json_add(body, "labels", options->labels ? json_object_get(options->labels) : json_object_new_object());
    return body;
}

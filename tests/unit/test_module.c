/* SPDX-License-Identifier: Apache-2.0 */
/* Modules for the CPU: compiled here, written, loaded and run. */
#include "gpu/module/module_compile.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "gpu/device/device.h"
#include "gpu/module/runtime/format.h"
#include "model_files.h"
#include "onnx_build.h"
#include "own_child.h"
#include "service/base/child.h"
#include "service/base/clock.h"
#include "service/base/file.h"
#include "service/base/json.h"

static struct error error;
static char dir[] = "/tmp/warptune-test-module-XXXXXX"; /* each test runs in a process of its own */

static void make_dir(void) {
    own_child_allow();
    cr_assert_not_null(mkdtemp(dir));
}

static void remove_dir(void) {
    (void)!file_remove_tree(dir, &error);
}

TestSuite(module, .init = make_dir, .fini = remove_dir);

static const char *in_dir(const char *name, char path[PATH_MAX]) {
    snprintf(path, PATH_MAX, "%s/%s", dir, name);
    return path;
}

/* ---- every shared network ---- */

struct tally {
    struct model_place place;
    bool generated_only;
    int checked;
};

static void check_network(void *data, const char *name) {
    struct tally *tally = data;
    double difference = 0, limit = model_limit(&tally->place, name);
    if ((tally->generated_only && model_tolerance(name) > 1e-4) || !model_fits(&tally->place, name))
        return;
    int rc = model_check(&tally->place, name, &difference, &error);
    cr_expect(rc == 0 && difference <= limit, "%s: %s (relative error %g)", name, rc < 0 ? error.text : "differs",
              difference);
    tally->checked++;
}

static struct target host_target(void) {
    struct device_info info;
    cr_assert_eq(device_cpu.describe(0, &info, &error), 0, "%s", error.text);
    return info.target;
}

static void check_networks(enum layout layout, enum precision precision, bool generated_only) {
    char folder[MODEL_MAX_FOLDER];
    if (!model_folder(folder))
        return;
    struct tally tally = {{folder, dir, host_target(), layout, template_builtin, precision}, generated_only, 0};
    model_each(folder, check_network, &tally);
    cr_expect_gt(tally.checked, 0);
}

Test(module, every_network_channels_last_gives_the_expected_outputs) {
    check_networks(LAYOUT_NHWC, PRECISION_FP32, false);
}

Test(module, every_generated_network_in_rows_gives_the_expected_outputs) {
    check_networks(LAYOUT_ROW, PRECISION_FP32, true);
}

Test(module, every_generated_network_in_fp16_gives_the_expected_outputs) {
    check_networks(LAYOUT_NHWC, PRECISION_FP16, true);
}

Test(module, every_generated_network_in_bf16_gives_the_expected_outputs) {
    check_networks(LAYOUT_NHWC, PRECISION_BF16, true);
}

/* ---- a network of our own: relu(conv(x) + b) + k × x, flattened, and the input itself ---- */

enum { C = 3, H = 4, W = 5, ELEMENTS = C * H * W };

static void write_model(const char *path) {
    struct model model = model_new(13);
    static const float weights[C * C] = {1, 2, 0, 0, 1, -1, 3, 0, 1}, bias[C] = {-1, 0.5f, -20};
    struct tensor w = {DIMS(C, C, 1, 1), .floats = weights}, b = {DIMS(C), .floats = bias};
    struct tensor k = {DIMS(C, 1, 1), FLOATS(0.25f, 0.25f, 0.25f)}, flat = LIST(1, -1);
    size_t len;
    INPUT(&model, "x", 1, C, H, W);
    model_output(&model, "flat");
    model_output(&model, "same");
    model_constant(&model, "w", &w);
    model_constant(&model, "b", &b);
    model_constant(&model, "k", &k);
    model_constant(&model, "minus", &flat);
    model_node(&model, "Conv", "conv", "x w b", "c", NULL);
    model_node(&model, "Relu", "relu", "c", "r", NULL);
    model_node(&model, "Mul", "scale", "x k", "s", NULL);
    model_node(&model, "Add", "add", "r s", "a", NULL);
    model_node(&model, "Reshape", "flatten", "a minus", "flat", NULL);
    model_node(&model, "Identity", "id", "x", "same", NULL);
    void *bytes = model_bytes(&model, &len);
    cr_assert_eq(file_write(path, bytes, len, &error), 0, "%s", error.text);
    free(bytes);
    model_done(&model);
}

static void expect(const float *x, float *ret) {
    static const float weights[C][C] = {{1, 2, 0}, {0, 1, -1}, {3, 0, 1}}, bias[C] = {-1, 0.5f, -20};
    for (int k = 0; k < C; k++) {
        for (int i = 0; i < H * W; i++) {
            float sum = bias[k];
            for (int c = 0; c < C; c++)
                sum += weights[k][c] * x[c * H * W + i];
            ret[k * H * W + i] = (sum > 0 ? sum : 0) + 0.25f * x[k * H * W + i];
        }
    }
}

static struct module_request request_of(char paths[4][PATH_MAX]) {
    return (struct module_request){.model_path = in_dir("model.onnx", paths[0]),
                                   .target = host_target(),
                                   .layout = LAYOUT_NHWC,
                                   .cache_dir = in_dir("code", paths[1]),
                                   .so_path = in_dir("module.so", paths[2]),
                                   .tar_path = in_dir("module.tar", paths[3]),
                                   .build_timeout_s = 300};
}

/* Writes model.onnx, module.so and module.tar into the folder; the manifest, which the caller releases. */
static struct json_object *compile_own(void) {
    char paths[4][PATH_MAX];
    struct module_request request = request_of(paths);
    struct buf text = BUF_INIT(1 << 20);
    struct json_object *manifest;
    write_model(request.model_path);
    cr_assert_eq(module_compile_here(&request, template_builtin, &text, &error), 0, "%s", error.text);
    cr_assert_eq(json_parse(text.data, text.len, &manifest, &error), 0, "%s", error.text);
    buf_release(&text);
    return manifest;
}

static struct module *open_own(void) {
    char path[PATH_MAX];
    struct module *module;
    cr_assert_eq(module_open(in_dir("module.so", path), 0, &module, &error), 0, "%s", error.text);
    return module;
}

/* Runs it on numbers of this seed and looks at both outputs. */
static void run_own(struct module *module, uint64_t seed) {
    float x[ELEMENTS], expected[ELEMENTS], flat[ELEMENTS], same[ELEMENTS];
    module_fill_random(x, ELEMENTS, seed);
    expect(x, expected);
    cr_assert_eq(module_set_input(module, 0, x, sizeof x, &error), 0, "%s", error.text);
    cr_assert_eq(module_run(module, &error), 0, "%s", error.text);
    cr_assert_eq(module_get_output(module, 0, flat, sizeof flat, &error), 0, "%s", error.text);
    cr_assert_eq(module_get_output(module, 1, same, sizeof same, &error), 0, "%s", error.text);
    cr_assert_lt(module_error(flat, expected, ELEMENTS), 1e-6);
    cr_assert_eq(memcmp(same, x, sizeof x), 0);
}

Test(module, inputs_and_outputs_are_described_as_the_user_sees_them) {
    const struct warptune_tensor *tensors;
    json_object_put(compile_own());
    struct module *module = open_own();
    cr_assert_eq(module_inputs(module, &tensors), 1);
    cr_assert_str_eq(tensors[0].name, "x");
    cr_assert_str_eq(tensors[0].dtype, "f32");
    cr_assert(tensors[0].rank == 4 && tensors[0].dim[1] == C && tensors[0].dim[3] == W);
    cr_assert_eq(tensors[0].bytes, ELEMENTS * sizeof(float));
    cr_assert_eq(module_outputs(module, &tensors), 2);
    cr_assert_str_eq(tensors[0].name, "flat");
    cr_assert(tensors[0].rank == 2 && tensors[0].dim[1] == ELEMENTS);
    cr_assert(tensors[1].rank == 4);
    run_own(module, 1);
    module_close(module);
}

Test(module, two_handles_live_side_by_side) {
    json_object_put(compile_own());
    struct module *one = open_own(), *two = open_own();
    run_own(one, 1);
    run_own(two, 2);
    run_own(one, 3);
    module_close(one);
    run_own(two, 4);
    module_close(two);
}

Test(module, a_wrong_index_or_size_is_an_error_and_the_handle_goes_on) {
    float x[ELEMENTS];
    json_object_put(compile_own());
    struct module *module = open_own();
    cr_assert_eq(module_set_input(module, 1, x, sizeof x, &error), -1);
    cr_assert_eq(module_set_input(module, 0, x, sizeof x - 4, &error), -1);
    cr_assert_not_null(strstr(error.text, "x, has 240 bytes"), "%s", error.text);
    cr_assert_eq(module_get_output(module, -1, x, sizeof x, &error), -1);
    run_own(module, 1);
    module_close(module);
}

Test(module, timing_gives_a_time_for_each_run) {
    double seconds[5] = {-1, -1, -1, -1, -1};
    json_object_put(compile_own());
    struct module *module = open_own();
    cr_assert_eq(module_time(module, 5, seconds, &error), 0, "%s", error.text);
    for (int i = 0; i < 5; i++)
        cr_assert_geq(seconds[i], 0);
    module_close(module);
}

/* ---- what is written ---- */

Test(module, the_manifest_lists_what_the_module_holds) {
    struct json_object *manifest = compile_own(), *list;
    const char *text;
    int64_t bytes;
    struct stat st;
    char path[PATH_MAX];
    cr_assert_eq(json_read_string(manifest, "model_sha256", JSON_REQUIRED, 64, &text, &error), 0);
    cr_assert_eq(strlen(text), 64);
    cr_assert_eq(json_read_array(manifest, "outputs", JSON_REQUIRED, &list, &error), 0);
    cr_assert_eq(json_object_array_length(list), 2);
    cr_assert_eq(json_read_array(manifest, "workloads", JSON_REQUIRED, &list, &error), 0);
    struct json_object *first = json_object_array_get_idx(list, 0);
    cr_assert_eq(json_read_string(first, "template", JSON_REQUIRED, 64, &text, &error), 0);
    cr_assert_not_null(template_find(template_builtin, text));
    cr_assert_eq(json_read_int(manifest, "module_bytes", JSON_REQUIRED, 1, INT64_MAX, &bytes, &error), 0);
    cr_assert_eq(stat(in_dir("module.so", path), &st), 0);
    cr_assert_eq(st.st_size, bytes);
    json_object_put(manifest);
}

static int shell(const char *command, struct buf *output) {
    const char *argv[] = {"/bin/sh", "-c", command, NULL};
    struct child_options options = {.argv = argv, .dir = dir, .stderr_fd = -1};
    int status;
    cr_assert_eq(child_run(&options, NULL, 0, deadline_in_s(120), output, &status, &error), 0, "%s", error.text);
    return status;
}

Test(module, the_tar_file_holds_the_module_its_kernels_and_weights) {
    struct buf output = BUF_INIT(1 << 16);
    json_object_put(compile_own());
    cr_assert_eq(shell("mkdir t && cd t && tar xf ../module.tar && cmp module.so ../module.so && ls . *", &output), 0,
                 "%s", buf_str(&output));
    static const char *const names[] = {"manifest.json", "warptune_module.h", "kernels:", ".so\n", "000.c", "weights:"};
    for (size_t i = 0; i < ARRAY_COUNT(names); i++)
        cr_assert_not_null(strstr(output.data, names[i]), "%s lacks %s", output.data, names[i]);
    buf_release(&output);
}

Test(module, equal_elements_are_stored_once) {
    struct model model = model_new(13);
    struct tensor shape = LIST(1 << 24), one = {DIMS(1), FLOATS(2)};
    struct buf manifest = BUF_INIT(1 << 20);
    char paths[4][PATH_MAX];
    struct stat st;
    size_t len;
    INPUT(&model, "x", 1 << 24);
    model_output(&model, "y");
    model_constant(&model, "shape", &shape);
    model_node(&model, "ConstantOfShape", "k", "shape", "k", (const struct attr[]){{"value", 4, .t = &one}, {NULL}});
    model_node(&model, "Mul", "mul", "x k", "y", NULL);
    void *bytes = model_bytes(&model, &len);
    struct module_request request = request_of(paths);
    cr_assert_eq(file_write(request.model_path, bytes, len, &error), 0);
    cr_assert_eq(module_compile_here(&request, template_builtin, &manifest, &error), 0, "%s", error.text);
    cr_assert_eq(stat(request.so_path, &st), 0);
    cr_assert_lt(st.st_size, 1 << 20);
    struct module *module = open_own();
    float *x = malloc(sizeof(float) << 24);
    module_fill_ramp(x, 1 << 24);
    cr_assert_eq(module_set_input(module, 0, x, sizeof(float) << 24, &error), 0);
    cr_assert_eq(module_run(module, &error), 0);
    cr_assert_eq(module_get_output(module, 0, x, sizeof(float) << 24, &error), 0);
    cr_assert_float_eq(x[1 << 23], 1.0f, 1e-6);
    cr_assert_float_eq(x[(1 << 24) - 1], 2.0f, 1e-6);
    free(x);
    module_close(module);
    buf_release(&manifest);
    free(bytes);
    model_done(&model);
}

/* ---- damage ---- */

/* Opens what `change` makes of the file; the error's text. */
static const char *open_damaged(void (*change)(char *data, size_t *len, size_t at), size_t at) {
    struct buf file = BUF_INIT(1 << 26);
    char path[PATH_MAX];
    struct module *module = NULL;
    cr_assert_eq(file_read(in_dir("module.so", path), 1 << 26, &file, &error), 0, "%s", error.text);
    change(file.data, &file.len, at);
    cr_assert_eq(file_write(in_dir("damaged.so", path), file.data, file.len, &error), 0);
    cr_assert_eq(module_open(path, 0, &module, &error), -1, "damage at %zu went unseen", at);
    /* the weights are looked at by the module itself */
    cr_assert(error.class == ERROR_INVALID || error.class == ERROR_DEVICE);
    buf_release(&file);
    return error.text;
}

static void cut(char *data, size_t *len, size_t at) {
    (void)data;
    *len = at;
}

static void flip(char *data, size_t *len, size_t at) {
    data[at % *len] ^= 0x20;
}

Test(module, a_file_that_was_cut_off_is_refused) {
    struct stat st;
    char path[PATH_MAX];
    json_object_put(compile_own());
    cr_assert_eq(stat(in_dir("module.so", path), &st), 0);
    size_t len = (size_t)st.st_size;
    const size_t lengths[] = {0, 1, 63, 64, 5000, len / 2, len - 64, len - 1};
    for (size_t i = 0; i < ARRAY_COUNT(lengths); i++)
        cr_assert_not_null(strstr(open_damaged(cut, lengths[i]), "not a module"), "%s", error.text);
}

Test(module, a_file_with_a_changed_byte_before_its_constants_is_refused) {
    struct buf file = BUF_INIT(1 << 26);
    struct format_footer footer;
    char path[PATH_MAX];
    json_object_put(compile_own());
    cr_assert_eq(file_read(in_dir("module.so", path), 1 << 26, &file, &error), 0);
    memcpy(&footer, file.data + file.len - sizeof footer, sizeof footer);
    const size_t places[] = {0,
                             100,
                             footer.payload_offset,
                             footer.payload_offset + 20,
                             footer.front_bytes - 1,
                             file.len - 64,
                             file.len - 50,
                             file.len - 30};
    for (size_t i = 0; i < ARRAY_COUNT(places); i++)
        cr_assert_not_null(strstr(open_damaged(flip, places[i]), "not a module"), "%s", error.text);
    buf_release(&file);
}

Test(module, a_file_with_a_changed_weight_is_refused) {
    struct buf file = BUF_INIT(1 << 26);
    struct format_footer footer;
    char path[PATH_MAX];
    json_object_put(compile_own());
    cr_assert_eq(file_read(in_dir("module.so", path), 1 << 26, &file, &error), 0);
    memcpy(&footer, file.data + file.len - sizeof footer, sizeof footer);
    /* The first constant begins on the next boundary of a page. */
    size_t constants = (footer.front_bytes + FORMAT_PAGE - 1) / FORMAT_PAGE * FORMAT_PAGE;
    cr_assert_lt(constants, file.len - sizeof footer);
    cr_assert_not_null(strstr(open_damaged(flip, constants), "weights"), "%s", error.text);
    buf_release(&file);
}

Test(module, what_is_no_module_is_refused) {
    struct module *module;
    cr_assert_eq(module_open("/bin/sh", 0, &module, &error), -1);
    cr_assert_eq(error.class, ERROR_INVALID);
    cr_assert_eq(module_open("/no/such/file.so", 0, &module, &error), -1);
    cr_assert_eq(error.class, ERROR_NOT_FOUND);
}

/* ---- a user's program, which has nothing of ours but the tar file ---- */

static const char user_program[] =
    "#include <dlfcn.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include \"warptune_module.h\"\n"
    "int main(int argc, char **argv) {\n"
    "    char text[200] = \"\";\n"
    "    float x[60], y[60];\n"
    "    void *lib = dlopen(argv[argc - 1], RTLD_NOW);\n"
    "    if (!lib) { puts(dlerror()); return 1; }\n"
    "    __typeof__(warptune_module_open) *open = (__typeof__(open))dlsym(lib, \"warptune_module_open\");\n"
    "    __typeof__(warptune_module_run) *run = (__typeof__(run))dlsym(lib, \"warptune_module_run\");\n"
    "    __typeof__(warptune_module_close) *close = (__typeof__(close))dlsym(lib, \"warptune_module_close\");\n"
    "    __typeof__(warptune_module_set_input) *set = (__typeof__(set))dlsym(lib, \"warptune_module_set_input\");\n"
    "    __typeof__(warptune_module_get_output) *get = (__typeof__(get))dlsym(lib, \"warptune_module_get_output\");\n"
    "    struct warptune_module *m = open(0, text, sizeof text);\n"
    "    if (!m) { puts(text); return 2; }\n"
    "    for (int i = 0; i < 60; i++) x[i] = (float)i;\n"
    "    if (set(m, 0, x, sizeof x) || run(m) || get(m, 0, y, sizeof y)) return 3;\n"
    "    printf(\"%g %g\\n\", y[0], y[59]);\n"
    "    close(m);\n"
    "    return dlclose(lib);\n"
    "}\n";

Test(module, a_program_that_links_libc_alone_can_use_it) {
    struct buf output = BUF_INIT(1 << 16);
    char path[PATH_MAX];
    float x[ELEMENTS], expected[ELEMENTS];
    json_object_put(compile_own());
    cr_assert_eq(file_write(in_dir("user.c", path), user_program, strlen(user_program), &error), 0);
    cr_assert_eq(shell("tar xf module.tar && cc -o user user.c && ./user ./module.so", &output), 0, "%s",
                 buf_str(&output));
    double first, last;
    cr_assert_eq(sscanf(output.data, "%lf %lf", &first, &last), 2, "%s", output.data);
    for (int i = 0; i < ELEMENTS; i++)
        x[i] = (float)i;
    expect(x, expected);
    cr_assert_float_eq(first, expected[0], 1e-3);
    cr_assert_float_eq(last, expected[ELEMENTS - 1], 1e-3);
    buf_release(&output);
}

/* ---- in children ---- */

Test(module, compiling_and_judging_work_in_children) {
    char paths[4][PATH_MAX], baseline[PATH_MAX];
    struct module_request request = request_of(paths);
    struct buf manifest = BUF_INIT(1 << 20);
    struct module_evaluation evaluation;
    write_model(request.model_path);
    cr_assert_eq(module_compile(&request, deadline_in_s(300), NULL, NULL, &manifest, &error), 0, "%s", error.text);
    request.so_path = in_dir("baseline.so", baseline);
    request.layout = LAYOUT_ROW;
    cr_assert_eq(module_compile(&request, deadline_in_s(300), NULL, NULL, &manifest, &error), 0, "%s", error.text);
    cr_assert_not_null(strstr(buf_str(&manifest), "\"row\""));
    char tuned[PATH_MAX];
    struct module_evaluate_request judge = {.model_path = request.model_path,
                                            .module_path = in_dir("module.so", tuned),
                                            .baseline_path = baseline,
                                            .seconds = 0.01};
    cr_assert_eq(module_evaluate(&judge, deadline_in_s(300), &evaluation, &error), 0, "%s", error.text);
    cr_assert_lt(evaluation.error, 1e-5);
    cr_assert_geq(evaluation.tuned.runs, 10);
    cr_assert_leq(evaluation.baseline.min_us, evaluation.baseline.p50_us);
    cr_assert_leq(evaluation.baseline.p50_us, evaluation.baseline.p99_us);
    buf_release(&manifest);
}

Test(module, the_childs_own_error_comes_back) {
    char paths[4][PATH_MAX];
    struct module_request request = request_of(paths);
    struct buf manifest = BUF_INIT(1 << 20);
    cr_assert_eq(file_write(request.model_path, "nonsense", 8, &error), 0);
    cr_assert_eq(module_compile(&request, deadline_in_s(60), NULL, NULL, &manifest, &error), -1);
    cr_assert_eq(error.class, ERROR_INVALID, "%s", error.text);
    cr_assert_eq(access(request.so_path, F_OK), -1);
}

static bool at_once(void *data) {
    (void)data;
    return true;
}

Test(module, compiling_stops_when_asked) {
    char paths[4][PATH_MAX], program[PATH_MAX];
    struct module_request request = request_of(paths);
    struct buf manifest = BUF_INIT(1 << 20);
    static const char sleeper[] = "#!/bin/sh\nexec sleep 100\n";
    write_model(request.model_path);
    cr_assert_eq(file_write(in_dir("sleeper", program), sleeper, strlen(sleeper), &error), 0);
    cr_assert_eq(chmod(program, 0700), 0);
    request.program = program;
    cr_assert_eq(module_compile(&request, deadline_in_s(60), at_once, NULL, &manifest, &error), -1);
    cr_assert_eq(error.class, ERROR_CANCELLED, "%s", error.text);
}

/* ---- figures ---- */

Test(module, percentiles_are_of_the_nearest_rank) {
    double seconds[100];
    for (int i = 0; i < 100; i++)
        seconds[i] = (100 - i) * 1e-6;
    struct module_latency latency = module_latency(seconds, 100);
    cr_assert_float_eq(latency.p50_us, 50, 1e-6);
    cr_assert_float_eq(latency.p90_us, 90, 1e-6);
    cr_assert_float_eq(latency.p99_us, 99, 1e-6);
    cr_assert_float_eq(latency.min_us, 1, 1e-6);
    cr_assert_float_eq(latency.mean_us, 50.5, 1e-6);
    cr_assert_eq(latency.runs, 100);
}

Test(module, an_error_is_relative_to_the_largest_number_expected) {
    const float expected[] = {1, -4, 2}, close_by[] = {1, -4, 2.2f}, no_number[] = {1, NAN, 2};
    cr_assert_float_eq(module_error(close_by, expected, 3), 0.05, 1e-6);
    cr_assert_eq(module_error(expected, expected, 3), 0);
    cr_assert(isinf(module_error(no_number, expected, 3)));
    cr_assert(isinf(module_error(expected, no_number, 3)));
}

Test(module, a_ramp_goes_from_0_to_almost_1) {
    float ramp[4];
    module_fill_ramp(ramp, 4);
    cr_assert(ramp[0] == 0 && ramp[1] == 0.25f && ramp[3] == 0.75f);
}

static int serve(const char *role) {
    return strcmp(role, "compile") == 0 ? compile_child_main(template_builtin) : evaluate_child_main();
}
OWN_CHILD(serve)

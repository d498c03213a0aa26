/* SPDX-License-Identifier: Apache-2.0 */
/* cuDNN's plans without a GPU: their numbers and names, the template, what of it a search and a module get. */
#include <criterion/criterion.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#include "gpu/device/cudnn_backend.h"
#include "gpu/device/device.h"
#include "gpu/template/builtin.h"
#include "scheduler/domains.h"
#include "scheduler/libraries.h"
#include "service/base/json.h"
#include "service/model/fuse.h"
#include "tests/unit/cuda_on_cpu.h"
#include "tests/unit/model_files.h"

/* ---- NVIDIA's header ---- */

#if __has_include(<cudnn_graph.h>)
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#include <cudnn_graph.h>
#define NUMBER_IS_OURS(name, value) _Static_assert((int)CUDNN_##name == DNN_##name, #name);
DNN_NUMBERS(NUMBER_IS_OURS)
#define PARAMETERS_ARE_OURS(name, version, parameters)                                      \
    _Static_assert(__builtin_types_compatible_p(__typeof__(&name), unsigned(*) parameters), \
                   #name " has other parameters in NVIDIA's header");
CUDA_CUDNN_TABLE(PARAMETERS_ARE_OURS)
#endif

/* ---- the line that names a plan ---- */

static const struct cudnn_conv conv = {.type = CUDNN_F16,
                                       .nhwc = true,
                                       .x = {1, 64, 56, 56},
                                       .w = {128, 64, 3, 3},
                                       .y = {1, 128, 28, 28},
                                       .stride = {2, 2},
                                       .dilation = {1, 1},
                                       .pad = {1, 1, 0, 1},
                                       .bias = CUDNN_F32,
                                       .residual = true,
                                       .act = CUDNN_RELU,
                                       .upper = 6};

Test(cudnn, a_plan_is_named_by_one_line) {
    char entry[CUDNN_ENTRY_MAX];
    struct cudnn_conv back;
    int plan = 0, version = 0;
    cudnn_entry_print(&conv, 3, 91900, entry);
    cr_expect_str_eq(entry, "cudnn 91900 f16 nhwc x=1x64x56x56 w=128x64x3x3 y=1x128x28x28 stride=2x2 dilation=1x1 "
                            "pad=1x1x0x1 bias=f32 residual=1 act=relu:0:6 plan=3");
    cr_assert(cudnn_is_entry(entry) && cudnn_entry_parse(entry, &back, &plan, &version));
    cr_expect(plan == 3 && version == 91900);
    cr_expect_eq(memcmp(&back, &conv, sizeof conv), 0);
    cr_expect_eq(cudnn_conv_args(&conv), 5);
}

Test(cudnn, the_longest_line_has_room) {
    struct cudnn_conv large = conv;
    char entry[CUDNN_ENTRY_MAX];
    int plan, version;
    for (int i = 0; i < 4; i++)
        large.x[i] = large.w[i] = large.y[i] = large.pad[i] = INT_MAX;
    for (int i = 0; i < 2; i++)
        large.stride[i] = large.dilation[i] = INT_MAX;
    large.upper = INFINITY;
    large.slope = 0.123456789F;
    cudnn_entry_print(&large, INT_MAX, INT_MAX, entry);
    cr_assert(cudnn_entry_parse(entry, &large, &plan, &version), "%s", entry);
    cr_expect(isinf(large.upper) && large.slope == 0.123456789F && plan == INT_MAX);
}

Test(cudnn, other_lines_are_no_plans) {
    static const char *const wrong[] = {
        "conv2d_mma",
        "cudnn_turn_16",
        "cudnn 0 f16",
        "cudnn 0 f64 nhwc x=1x1x1x1 w=1x1x1x1 y=1x1x1x1 stride=1x1 dilation=1x1 pad=0x0x0x0 bias=no residual=0 "
        "act=none:0:0 plan=0",
        "cudnn 0 f16 nwhc x=1x1x1x1 w=1x1x1x1 y=1x1x1x1 stride=1x1 dilation=1x1 pad=0x0x0x0 bias=no residual=0 "
        "act=none:0:0 plan=0",
        "cudnn 0 f16 nhwc x=0x1x1x1 w=1x1x1x1 y=1x1x1x1 stride=1x1 dilation=1x1 pad=0x0x0x0 bias=no residual=0 "
        "act=none:0:0 plan=0",
        "cudnn 0 f16 nhwc x=1x1x1x1 w=1x1x1x1 y=1x1x1x1 stride=1x1 dilation=1x1 pad=0x0x0x0 bias=no residual=2 "
        "act=none:0:0 plan=0",
        "cudnn 0 f16 nhwc x=1x1x1x1 w=1x1x1x1 y=1x1x1x1 stride=1x1 dilation=1x1 pad=0x0x0x0 bias=no residual=0 "
        "act=gelu:0:0 plan=0",
        "cudnn 0 f16 nhwc x=1x1x1x1 w=1x1x1x1 y=1x1x1x1 stride=1x1 dilation=1x1 pad=0x0x0x0 bias=no residual=0 "
        "act=none:0:0 plan=-1",
        "cudnn 0 f16 nhwc x=1x1x1x1 w=1x1x1x1 y=1x1x1x1 stride=1x1 dilation=1x1 pad=0x0x0x0 bias=no residual=0 "
        "act=none:0:0 plan=0 and more",
    };
    struct cudnn_conv back;
    int plan, version;
    for (size_t i = 0; i < ARRAY_COUNT(wrong); i++)
        cr_expect_not(cudnn_entry_parse(wrong[i], &back, &plan, &version), "%s", wrong[i]);
}

/* ---- the library ---- */

/* Here without a GPU: it opens, or says in a sentence why not. */
Test(cudnn, opens_or_says_why_not) {
    struct cudnn *cudnn = NULL;
    char reason[400] = "";
    if (cudnn_open(&cudnn, reason, sizeof reason) < 0)
        cr_assert(strstr(reason, "cuDNN") || strstr(reason, "libcudnn"), "%s", reason);
    cudnn_close(cudnn);
}

Test(cudnn, a_chosen_library_is_the_only_one_tried) {
    char reason[400] = "";
    int version;
    setenv("WARPTUNE_CUDNN", "/nowhere/libcudnn.so.9", 1);
    cr_assert_eq(cudnn_version(&version, reason, sizeof reason), -1);
    cr_assert(strstr(reason, "/nowhere/libcudnn.so.9"), "%s", reason);
    setenv("WARPTUNE_CUDNN", "libm.so.6", 1);
    cr_assert_eq(cudnn_version(&version, reason, sizeof reason), -1);
    cr_assert(strstr(reason, "cudnnGetProperty"), "%s", reason);
}

/* ---- the template ---- */

#define ATTR(s, p, g) " {stride=" s "x" s ", dilation=1x1, pad=" p "x" p "x" p "x" p ", groups=" g "}"
#define HALF_CONV                                                                                \
    "conv2d(f16:nhwc:1x64x56x56, f16:row:128x64x3x3, f32:row:128) -> f16:nhwc:1x128x28x28" ATTR( \
        "2", "1", "1") " bias act=clip:0:6"
#define FLOAT_CONV "conv2d(f32:row:2x24x15x15, f32:row:40x24x3x3) -> f32:row:2x40x8x8" ATTR("2", "1", "1")
#define DEPTHWISE \
    "conv2d(f16:nhwc:1x64x56x56, f16:row:64x1x3x3, f32:row:64) -> f16:nhwc:1x64x56x56" ATTR("1", "1", "64") " bias"
#define DENSE "dense(f16:row:8x512, f16:row:1000x512, f32:row:1000, f16:row:8x1000) -> f16:row:8x1000 bias residual"

struct subject {
    struct arena *arena;
    struct target target;
    struct workload *workload;
    struct space *space;
};

static struct subject subject_of(const char *key) {
    struct subject s = {.arena = arena_new(0)};
    struct error error = {0};
    cr_assert_eq(target_of_arch("sm_90a", &s.target, &error), 0, "%s", error.text);
    cr_assert_eq(workload_parse(key, s.arena, &s.workload, &error), 0, "%s: %s", key, error.text);
    return s;
}

static struct program *program_of(struct subject *s, int64_t plan, int64_t bias, struct cudnn_conv *ret) {
    struct program *program = NULL;
    struct error error = {0};
    int number, version;
    cr_assert(cudnn_cuda.serves(s->workload, &s->target));
    s->space = cudnn_cuda.space(s->workload, &s->target, s->arena);
    const int64_t digit[SPACE_MAX_KNOBS] = {plan, bias};
    cr_assert_eq(
        cudnn_cuda.render(s->workload, &s->target, s->space, space_index(s->space, digit), s->arena, &program, &error),
        0, "%s", error.text);
    cr_assert(cudnn_entry_parse(program->run[0].entry, ret, &number, &version), "%s", program->run[0].entry);
    cr_expect(number == plan && version == 0);
    cr_expect_eq(program->run[0].n_args, cudnn_conv_args(ret));
    return program;
}

static void expect_args(const struct launch *launch, const struct arg *args, int n) {
    cr_assert_eq(launch->n_args, n);
    for (int i = 0; i < n; i++)
        cr_expect(launch->args[i].kind == args[i].kind && launch->args[i].index == args[i].index, "argument %d", i);
}

Test(cudnn, weights_of_nhwc_are_turned_once) {
    struct subject s = subject_of(HALF_CONV);
    struct cudnn_conv c;
    struct program *program = program_of(&s, 5, 0, &c);
    const struct arg args[] = {{ARG_IN, 0}, {ARG_PREPARED, 0}, {ARG_IN, 2}, {ARG_OUT, 0}};
    expect_args(&program->run[0], args, 4);
    cr_expect(program->n_prepare == 1 && program->prepared_bytes[0] == 2 * 128 * 64 * 9);
    cr_expect(c.type == CUDNN_F16 && c.nhwc && c.bias == CUDNN_F32 && c.act == CUDNN_RELU && c.upper == 6);
    cr_expect(c.stride[1] == 2 && c.pad[3] == 1 && c.y[2] == 28);
    arena_free(s.arena);
}

Test(cudnn, the_bias_goes_in_as_it_is_or_in_halves) {
    struct subject s = subject_of(HALF_CONV);
    struct cudnn_conv c;
    struct program *program = program_of(&s, 0, 1, &c);
    const struct arg args[] = {{ARG_IN, 0}, {ARG_PREPARED, 0}, {ARG_PREPARED, 1}, {ARG_OUT, 0}};
    expect_args(&program->run[0], args, 4);
    cr_expect(program->n_prepare == 2 && program->prepared_bytes[1] == 2 * 128);
    cr_expect_eq(c.bias, CUDNN_F16);
    arena_free(s.arena);
}

Test(cudnn, what_lies_right_already_is_not_turned) {
    static const char *const keys[] = {FLOAT_CONV, DEPTHWISE, DENSE};
    for (size_t i = 0; i < ARRAY_COUNT(keys); i++) {
        struct subject s = subject_of(keys[i]);
        struct cudnn_conv c;
        struct program *program = program_of(&s, 0, 0, &c);
        cr_expect_eq(program->n_prepare, 0, "%s", keys[i]);
        cr_expect(program->run[0].args[1].kind == ARG_IN && program->run[0].args[1].index == 1, "%s", keys[i]);
        arena_free(s.arena);
    }
}

Test(cudnn, a_dense_layer_is_a_convolution_of_one_pixel) {
    struct subject s = subject_of(DENSE);
    struct cudnn_conv c;
    const int x[] = {8, 512, 1, 1}, w[] = {1000, 512, 1, 1}, y[] = {8, 1000, 1, 1};
    program_of(&s, 0, 0, &c);
    cr_expect(memcmp(c.x, x, sizeof x) == 0 && memcmp(c.w, w, sizeof w) == 0 && memcmp(c.y, y, sizeof y) == 0);
    cr_expect(c.residual && c.bias == CUDNN_F32);
    arena_free(s.arena);
}

Test(cudnn, serves_what_cudnn_can_say) {
    static const char *const others[] = {
        "conv2d(f32:nhwc:1x8x8x8, f32:row:8x8x1x1) -> f32:nhwc:1x8x8x8" ATTR("1", "0", "1") " act=hard-swish",
        "conv2d(f32:nhwc:1x8x8x8, f32:row:8x8x1x1) -> f32:nhwc:1x8x8x8" ATTR("1", "0", "1") " act=clip:-1:1",
        "conv2d(f32:nhwc:1x8x8x8, f32:row:8x8x1x1) -> f32:row:1x8x8x8" ATTR("1", "0", "1"),
        "unary(f32:row:1x8) -> f32:row:1x8 act=relu",
    };
    for (size_t i = 0; i < ARRAY_COUNT(others); i++) {
        struct subject s = subject_of(others[i]);
        cr_expect_not(cudnn_cuda.serves(s.workload, &s.target), "%s", others[i]);
        arena_free(s.arena);
    }
    struct subject s = subject_of(HALF_CONV);
    snprintf(s.target.arch, sizeof s.target.arch, "sm_70");
    cr_expect_not(cudnn_cuda.serves(s.workload, &s.target), "cuDNN 9 has no Volta");
    arena_free(s.arena);
}

Test(cudnn, the_kernel_turns_weights) {
    enum { K = 3, C = 5, TAPS = 9, N = K * C * TAPS };
    static float from[N], to[N + 1];
    struct buf source CLEANUP(buf_release) = BUF_INIT(1 << 16);
    struct subject s = subject_of("conv2d(f32:nhwc:1x5x8x8, f32:row:3x5x3x3) -> f32:nhwc:1x3x8x8" ATTR("1", "1", "1"));
    struct cudnn_conv c;
    struct program *program = program_of(&s, 0, 0, &c);
    struct host_code code;
    buf_printf(&source, "#define asm(...)\n%s", program->source); /* of another kernel, and PTX */
    if (!host_compile(buf_str(&source), &code))
        cr_skip_test("clang is not here to compile with");
    for (int i = 0; i < N; i++)
        from[i] = (float)i;
    to[N] = -1;
    const struct launch *launch = &program->prepare[0];
    cr_assert(launch->n_args == 5 && launch->args[2].index == N);
    host.args[0] = from;
    host.args[1] = to;
    for (int a = 2; a < 5; a++)
        host.args[a] = (void *)(intptr_t)launch->args[a].index;
    host_launch(&code, launch);
    for (int k = 0; k < K; k++)
        for (int e = 0; e < C; e++)
            for (int t = 0; t < TAPS; t++)
                cr_assert_eq(to[(k * TAPS + t) * C + e], from[(k * C + e) * TAPS + t]);
    cr_expect_eq(to[N], -1);
    dlclose(code.library);
    arena_free(s.arena);
}

Test(cudnn, nvrtc_takes_the_source) {
    struct subject s = subject_of(HALF_CONV);
    struct cudnn_conv c;
    struct buf code CLEANUP(buf_release) = BUF_INIT(1 << 24), log CLEANUP(buf_release) = BUF_INIT(1 << 20);
    struct program *program = program_of(&s, 0, 0, &c);
    struct error error = {0};
    char id[128];
    if (device_cuda.compiler_id(&s.target, id, &error) < 0)
        cr_skip_test("NVRTC is not here");
    cr_expect_eq(device_cuda.compile(&s.target, program->source, deadline_in_s(60), &code, &log, &error), 0, "%s",
                 error.text);
    arena_free(s.arena);
}

/* ---- the search ---- */

static int domains(struct subject *s, bool libraries, struct domain **ret) {
    struct error error = {0};
    int n = 0;
    cr_assert_eq(domains_of(s->workload, &s->target, "", libraries, s->arena, ret, &n, &error), 0, "%s", error.text);
    return n;
}

Test(cudnn, is_a_candidate_where_a_library_may_be_and_never_the_first) {
    static const char *const keys[] = {HALF_CONV, FLOAT_CONV, DEPTHWISE, DENSE};
    for (size_t i = 0; i < ARRAY_COUNT(keys); i++) {
        struct subject s = subject_of(keys[i]);
        struct domain *with, *without;
        int n = domains(&s, true, &with), own = domains(&s, false, &without);
        cr_assert_eq(n, own + 1, "%s", keys[i]);
        cr_expect_eq(with[n - 1].template, &cudnn_cuda);
        cr_expect_eq(with[0].template, without[0].template);
        for (int d = 0; d < own; d++)
            cr_expect_null(without[d].template->library);
        cr_expect_null(template_for(template_builtin, s.workload, &s.target)->library, "no fallback");
        arena_free(s.arena);
    }
}

Test(cudnn, its_first_proposals_come_before_all_others_and_the_rest_behind) {
    struct subject s = subject_of(HALF_CONV);
    const struct template *own = template_for(template_builtin, s.workload, &s.target);
    struct space *theirs = cudnn_cuda.space(s.workload, &s.target, s.arena),
                 *ours = own->space(s.workload, &s.target, s.arena);
    double least = INFINITY, most = 0;
    cr_assert_not_null(own->estimate);
    for (int64_t i = 0; i < ours->size; i++) {
        double seconds = own->estimate(s.workload, &s.target, ours, i);
        least = fmin(least, seconds);
        most = isfinite(seconds) ? fmax(most, seconds) : most;
    }
    for (int64_t i = 0; i < theirs->size; i++) {
        double seconds = cudnn_cuda.estimate(s.workload, &s.target, theirs, i);
        cr_expect(space_value(theirs, i, "plan", 0) < 2 ? seconds < least : seconds > most, "%lld", (long long)i);
    }
    arena_free(s.arena);
}

Test(cudnn, a_record_holds_for_its_own_version_alone) {
    struct json_object *provenance CLEANUP(json_put_p) = json_object_new_object();
    char reason[400];
    int version;
    libraries_note(&conv2d_simt_cuda, provenance);
    cr_expect_str_eq(json_text(provenance, NULL), "{}");
    cr_expect(libraries_same(&conv2d_simt_cuda, "{}"));
    cr_expect_not(libraries_same(&cudnn_cuda, "{}"));
    cr_expect_not(libraries_same(&cudnn_cuda, "{\"cudnn_version\":1}"));
    libraries_note(&cudnn_cuda, provenance);
    cr_expect_eq(libraries_same(&cudnn_cuda, json_text(provenance, NULL)),
                 cudnn_version(&version, reason, sizeof reason) == 0);
}

Test(cudnn, is_wanted_where_it_is_allowed_and_here) {
    struct subject s = subject_of(HALF_CONV);
    struct job_options options = {.allow_cudnn = true};
    char reason[400];
    int version;
    cr_expect_eq(libraries_wanted(&s.target, &options), cudnn_version(&version, reason, sizeof reason) == 0);
    setenv("WARPTUNE_CUDNN", "/nowhere/libcudnn.so.9", 1);
    cr_expect_not(libraries_wanted(&s.target, &options));
    unsetenv("WARPTUNE_CUDNN");
    options.allow_cudnn = false;
    cr_expect_not(libraries_wanted(&s.target, &options));
    options.allow_cudnn = true;
    memcpy(s.target.kind, "cpu", sizeof "cpu");
    cr_expect_not(libraries_wanted(&s.target, &options));
    arena_free(s.arena);
}

/* ---- the module ---- */

/* A network of the shared folder with cuDNN's first plan for each of its convolutions; 1 without the folder. */
static int compile_with_plans(const char *work, struct arena *arena, struct buf *ret_manifest, struct error *error) {
    char folder[MODEL_MAX_FOLDER];
    struct module_request request = {.cache_dir = work, .layout = LAYOUT_NHWC, .build_timeout_s = 60};
    struct onnx_options options = {0};
    struct file_map map;
    struct graph *graph;
    struct workload_use *uses;
    int n;
    if (!model_folder(folder))
        return 1;
    request.model_path = arena_printf(arena, "%s/odd_dilated.onnx", folder);
    request.so_path = arena_printf(arena, "%s/module.so", work);
    if (target_of_arch("sm_90a", &request.target, error) < 0 || file_map(request.model_path, &map, error) < 0)
        return -1;
    if (onnx_import(map.data, map.len, &options, arena, &graph, error) < 0 || graph_fuse(graph, error) < 0)
        return -1;
    workload_list(graph, LAYOUT_NHWC, arena, &uses, &n);
    struct plan_choice *choices = arena_array(arena, (size_t)n, sizeof *choices);
    for (int i = 0; i < n; i++)
        choices[i] = (struct plan_choice){uses[i].key, "cudnn.cuda", 0};
    file_unmap(&map);
    request.choices = choices;
    request.n_choices = n;
    return module_compile_here(&request, template_builtin, ret_manifest, error);
}

/* How often the text is in the file. */
static int count_in_file(const char *path, const char *text) {
    struct buf file CLEANUP(buf_release) = BUF_INIT(1 << 26);
    struct error error = {0};
    int n = 0;
    cr_assert_eq(file_read(path, 1 << 26, &file, &error), 0, "%s", error.text);
    const char *at = file.data, *end = file.data + file.len;
    while ((at = memmem(at, (size_t)(end - at), text, strlen(text)))) {
        at += strlen(text);
        n++;
    }
    return n;
}

Test(cudnn, a_module_names_the_version_that_its_plans_belong_to) {
    struct arena *arena CLEANUP(arena_free_p) = arena_new(0);
    struct buf manifest CLEANUP(buf_release) = BUF_INIT(1 << 26);
    struct error error = {0};
    char work[] = "/tmp/warptune-cudnn-XXXXXX", reason[400], text[64], id[128];
    struct target target;
    int version;
    cr_assert_not_null(mkdtemp(work));
    cr_assert_eq(target_of_arch("sm_90a", &target, &error), 0);
    if (device_cuda.compiler_id(&target, id, &error) < 0)
        cr_skip_test("NVRTC is not here");
    int rc = compile_with_plans(work, arena, &manifest, &error);
    if (rc == 0 && cudnn_version(&version, reason, sizeof reason) == 0) {
        snprintf(text, sizeof text, "cudnn %d f32 nhwc x=", version);
        cr_expect_gt(count_in_file(arena_printf(arena, "%s/module.so", work), text), 0);
        snprintf(text, sizeof text, "\"cudnn_version\":%d", version);
        cr_expect_not_null(strstr(buf_str(&manifest), text), "%s", buf_str(&manifest));
    } else if (rc < 0) {
        cr_expect_str_eq(error.code, "no-cudnn", "%s", error.text);
    }
    setenv("WARPTUNE_CUDNN", "/nowhere/libcudnn.so.9", 1);
    if (rc != 1) {
        cr_expect_eq(compile_with_plans(work, arena, &manifest, &error), -1);
        cr_expect_str_eq(error.code, "no-cudnn", "%s", error.text);
    }
    cr_expect_eq(file_remove_tree(work, &error), 0, "%s", error.text);
}

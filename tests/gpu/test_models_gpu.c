/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_models_gpu.c: every network of a folder, compiled for a device, gives the expected outputs. A plain program, for
 * GPU hosts have no test framework.
 *
 * usage: test_models_gpu FOLDER [cuda|cpu]     with the device number 0
 */
#include <stdbool.h>

#include "gpu/device/device.h"
#include "service/base/clock.h"
#include "service/base/file.h"
#include "tests/unit/model_files.h"

struct tally {
    struct model_place place;
    int passed, failed;
};

static void check(void *data, const char *name) {
    struct tally *tally = data;
    struct error error;
    double difference = 0, limit = model_limit(&tally->place, name);
    if (!model_fits(&tally->place, name))
        return;
    int64_t begin = clock_now_ns();
    int rc = model_check(&tally->place, name, &difference, &error);
    double seconds = (double)(clock_now_ns() - begin) / NS_PER_S;
    bool passed = rc == 0 && difference <= limit;
    *(passed ? &tally->passed : &tally->failed) += 1;
    printf("%s %-24s %s %-4s %5.1f s  ", passed ? "pass" : "FAIL", name, precision_name(tally->place.precision),
           layout_name(tally->place.layout), seconds);
    if (rc < 0)
        printf("%s\n", error.text);
    else
        printf("relative error %.2g of %.0e\n", difference, limit);
    fflush(stdout);
}

int main(int argc, char **argv) {
    struct error error;
    struct device_info info;
    char work[] = "/tmp/warptune-models-XXXXXX";
    const struct device_class *class = device_class_find(argc > 2 ? argv[2] : "cuda");
    if (argc < 2 || !class) {
        fprintf(stderr, "usage: test_models_gpu FOLDER [cuda|cpu]\n");
        return 2;
    }
    if (class->count(&error) == 0 || class->describe(0, &info, &error) < 0) {
        fprintf(stderr, "No device: %s\n", error.text);
        return 2;
    }
    if (!mkdtemp(work)) {
        perror(work);
        return 2;
    }
    struct tally tally = {.place = {argv[1], work, info.target, LAYOUT_NHWC, template_builtin, PRECISION_FP32}};
    printf("%s, %s\n", info.name, info.key);
    for (int kind = 0; kind < 2 * PRECISION_COUNT; kind++) {
        tally.place.layout = kind % 2 ? LAYOUT_NHWC : LAYOUT_ROW;
        tally.place.precision = (enum precision)(kind / 2);
        if (model_each(argv[1], check, &tally) == 0)
            fprintf(stderr, "There is no network in %s.\n", argv[1]);
    }
    (void)!file_remove_tree(work, &error);
    printf("%d passed, %d failed\n", tally.passed, tally.failed);
    return tally.failed || !tally.passed ? 1 : 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_json.c: any bytes at all into json_parse, then what it took out again.
 *
 *     clang -std=c17 -g -O1 -D_GNU_SOURCE -I. -fsanitize=fuzzer,address,undefined tests/fuzz/fuzz_json.c \
 *         service/base/{arena,buf,error,json,json_scan,utf8}.c -ljson-c -lm -o fuzz_json
 *     ./fuzz_json tests/fuzz/corpus/json
 *
 * Beyond not crashing: json-c takes whatever the strict scan has taken, and its compact text is taken again and gives
 * the same text.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "service/base/json.h"
#include "service/base/json_scan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(int condition, const char *what) {
    if (condition)
        return;
    fprintf(stderr, "broken promise: %s\n", what);
    abort();
}

static void check_error(const struct error *error) {
    demand(error->class == ERROR_INVALID, "a refused text is ERROR_INVALID");
    demand(error->code[0] && error->text[0], "an error has a code and a text");
}

static void check_round_trip(struct json_object *object) {
    size_t len, again_len;
    struct error error;
    struct json_object *again;
    const char *text = json_text(object, &len);
    demand(json_parse(text, len, &again, &error) == 0, "what is written is taken again");
    const char *again_text = json_text(again, &again_len);
    demand(len == again_len && memcmp(text, again_text, len) == 0, "and gives the same text");
    json_object_put(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct error error;
    struct json_object *object;
    int scanned = json_scan((const char *)data, size, &error);
    int parsed = json_parse((const char *)data, size, &object, &error);
    demand(scanned == parsed, "json-c takes what the scan takes");
    if (parsed < 0) {
        check_error(&error);
        return 0;
    }
    check_round_trip(object);
    json_object_put(object);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * own_child.h: a test program that is also the program whose children it tests: `TEST child ROLE` does what
 * `warptune child ROLE` does. The program's main is defined here, by OWN_CHILD.
 */
#ifndef WARPTUNE_TESTS_OWN_CHILD_H
#define WARPTUNE_TESTS_OWN_CHILD_H

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

/* Call at the begin of a test that starts children: Criterion's own mark in the environment is not for them. */
static inline void own_child_allow(void) {
    unsetenv("BXFI_MAP");
}

/* `serve(role)` gives the exit status. */
#define OWN_CHILD(serve)                                                                            \
    int main(int argc, char **argv) {                                                               \
        if (argc > 2 && strcmp(argv[1], "child") == 0)                                              \
            return serve(argv[2]);                                                                  \
        struct criterion_test_set *tests = criterion_initialize();                                  \
        int failed = criterion_handle_args(argc, argv, true) ? !criterion_run_all_tests(tests) : 0; \
        criterion_finalize(tests);                                                                  \
        return failed;                                                                              \
    }

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_submit: clients that submit jobs and do not give up: a request that fails is sent again under the same
 * Idempotency-Key until it is answered.
 *
 * usage: bench_submit URL MODEL N CLIENTS      the ids of the jobs on standard output, a line each as they are
 *                                              acknowledged; at the end `seconds S repeated R` on standard error
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <curl/curl.h>

#include "service/base/clock.h"

static char url[300], body[300];
static int wanted;
static atomic_int next_job, repeated;

struct answer {
    char text[64]; /* its beginning: {"id":"…" */
    size_t len;
};

static size_t take(char *bytes, size_t size, size_t count, void *data) {
    struct answer *answer = data;
    size_t len = size * count, room = sizeof answer->text - 1 - answer->len;
    memcpy(answer->text + answer->len, bytes, len < room ? len : room);
    answer->len += len < room ? len : room;
    return len;
}

/* Whether the answer says that the job is there. */
static bool send_once(CURL *handle, int job) {
    struct answer answer = {0};
    char key[80];
    long status = 0;
    snprintf(key, sizeof key, "Idempotency-Key: bench-%d-%d", (int)getpid(), job);
    struct curl_slist *headers = curl_slist_append(curl_slist_append(NULL, "Content-Type: application/json"), key);
    curl_easy_setopt(handle, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(handle, CURLOPT_WRITEDATA, &answer);
    CURLcode code = curl_easy_perform(handle);
    curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &status);
    curl_slist_free_all(headers);
    bool done = code == CURLE_OK && status == 202 && strncmp(answer.text, "{\"id\":\"", 7) == 0;
    if (done)
        printf("%.36s\n", answer.text + 7);
    return done;
}

static void *client(void *data) {
    (void)data;
    CURL *handle = curl_easy_init();
    curl_easy_setopt(handle, CURLOPT_URL, url);
    curl_easy_setopt(handle, CURLOPT_POSTFIELDS, body);
    curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, take);
    curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(handle, CURLOPT_TIMEOUT, 10L);
    for (int job; (job = atomic_fetch_add(&next_job, 1)) < wanted;)
        while (!send_once(handle, job)) {
            atomic_fetch_add(&repeated, 1);
            nanosleep(&(struct timespec){0, 50000000}, NULL);
        }
    curl_easy_cleanup(handle);
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 5)
        return 2;
    snprintf(url, sizeof url, "%.200s/v1/jobs", argv[1]);
    snprintf(body, sizeof body, "{\"model_id\": \"%.64s\"}", argv[2]);
    wanted = (int)strtol(argv[3], NULL, 10);
    int n = (int)strtol(argv[4], NULL, 10);
    pthread_t *threads = calloc((size_t)n, sizeof *threads);
    setvbuf(stdout, NULL, _IOLBF, 0);
    curl_global_init(CURL_GLOBAL_DEFAULT);
    int64_t began = clock_now_ns();
    for (int i = 0; i < n; i++)
        if (!threads || pthread_create(&threads[i], NULL, client, NULL) != 0)
            return 1;
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    fprintf(stderr, "seconds %.2f repeated %d\n", (double)(clock_now_ns() - began) / NS_PER_S, atomic_load(&repeated));
    curl_global_cleanup();
    free(threads);
    return 0;
}

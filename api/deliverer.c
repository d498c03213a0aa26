/* SPDX-License-Identifier: Apache-2.0 */
#include "api/deliverer.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include <curl/curl.h>

#include "api/transfer.h"
#include "service/base/clock.h"
#include "service/base/log.h"
#include "service/base/rng.h"

enum { MOST_AT_ONCE = 64, LOOK_EVERY_S = 1 };
#define LEASE_S 30.0 /* twice a transfer's limit */

struct deliverer {
    struct deliverer_config config;
    CURLM *multi;
    struct rng rng;
    struct transfer *transfers[MOST_AT_ONCE]; /* those under way; the thread's alone */
    int n_transfers;
    pthread_t thread;
    atomic_bool stopping;
};

/* ---- beginning ---- */

static void begin(struct deliverer *deliverer, const struct webhook_delivery *delivery) {
    struct transfer *transfer;
    struct error error;
    if (transfer_new(delivery, deliverer->config.allow_private, &transfer, &error) < 0) {
        log_error(LOG_ERROR, "a webhook's delivery", &error); /* its lease ends, and another has a try */
        return;
    }
    curl_multi_add_handle(deliverer->multi, transfer_handle(transfer));
    deliverer->transfers[deliverer->n_transfers++] = transfer;
}

/* Whether there may be more than we had room for. */
static bool take_due(struct deliverer *deliverer) {
    struct arena *arena CLEANUP(arena_free_p) = arena_new(0);
    struct webhook_delivery *deliveries;
    struct error error;
    int room = MOST_AT_ONCE - deliverer->n_transfers, n;
    if (webhook_claim(deliverer->config.db, room, LEASE_S, arena, &deliveries, &n, &error) < 0) {
        log_error(LOG_WARN, "looking for webhooks' deliveries", &error);
        return false;
    }
    for (int i = 0; i < n; i++)
        begin(deliverer, &deliveries[i]);
    return n == room;
}

/* ---- ending ---- */

static void note_end(const struct webhook_lease *lease, const char *what, const struct webhook_attempt *attempt) {
    log_context("job", lease->job_id);
    log_line(LOG_WARN, "delivery %s of the webhook %s: status %d, %s", lease->id, what, attempt->status,
             attempt->error ? attempt->error : "-");
    log_context("job", NULL);
}

static int record(struct deliverer *deliverer, const struct webhook_lease *lease, const struct webhook_attempt *attempt,
                  struct error *error) {
    struct db *db = deliverer->config.db;
    if (attempt->status / 100 == 2)
        return webhook_delivered(db, lease, attempt, error);
    if (attempt->status == 410) {
        note_end(lease, "ends it", attempt);
        return webhook_gone(db, lease, attempt, error);
    }
    double retry_s = backoff_wait_s(&deliverer->config.backoff, lease->attempts, rng_unit(&deliverer->rng));
    if (!isfinite(retry_s))
        note_end(lease, "is given up", attempt);
    return webhook_failed(db, lease, attempt, retry_s, error);
}

static void drop(struct deliverer *deliverer, int index) {
    struct transfer *transfer = deliverer->transfers[index];
    curl_multi_remove_handle(deliverer->multi, transfer_handle(transfer));
    deliverer->transfers[index] = deliverer->transfers[--deliverer->n_transfers];
    transfer_free(transfer);
}

static void end(struct deliverer *deliverer, CURL *handle, CURLcode code) {
    struct webhook_attempt attempt;
    struct error error;
    int index = 0;
    while (transfer_handle(deliverer->transfers[index]) != handle)
        index++;
    const struct webhook_lease *lease = transfer_result(deliverer->transfers[index], code, &attempt);
    if (record(deliverer, lease, &attempt, &error) < 0)
        log_error(LOG_WARN, "recording a webhook's delivery", &error);
    drop(deliverer, index);
}

static void take_ended(struct deliverer *deliverer) {
    CURLMsg *message;
    int left;
    while ((message = curl_multi_info_read(deliverer->multi, &left)))
        if (message->msg == CURLMSG_DONE)
            end(deliverer, message->easy_handle, message->data.result);
}

/* ---- the thread ---- */

static void *deliverer_main(void *data) {
    struct deliverer *deliverer = data;
    int64_t next_look = 0;
    while (!atomic_load(&deliverer->stopping)) {
        int running;
        if (clock_now_ns() >= next_look && deliverer->n_transfers < MOST_AT_ONCE)
            next_look = take_due(deliverer) ? 0 : deadline_in_s(LOOK_EVERY_S);
        curl_multi_perform(deliverer->multi, &running);
        take_ended(deliverer);
        bool full = deliverer->n_transfers == MOST_AT_ONCE;
        curl_multi_poll(deliverer->multi, NULL, 0, full ? LOOK_EVERY_S * 1000 : deadline_poll_ms(next_look), NULL);
    }
    while (deliverer->n_transfers > 0) {
        struct error error;
        if (webhook_put_back(deliverer->config.db, transfer_lease(deliverer->transfers[0]), &error) < 0)
            log_error(LOG_WARN, "putting a webhook's delivery back", &error);
        drop(deliverer, 0);
    }
    return NULL;
}

int deliverer_start(const struct deliverer_config *config, struct deliverer **ret, struct error *error) {
    struct deliverer *deliverer = calloc(1, sizeof *deliverer);
    uint64_t seed;
    if (!deliverer || getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed)
        abort();
    deliverer->config = *config;
    rng_seed(&deliverer->rng, seed);
    curl_global_init(CURL_GLOBAL_DEFAULT);
    deliverer->multi = curl_multi_init();
    int code = deliverer->multi ? pthread_create(&deliverer->thread, NULL, deliverer_main, deliverer) : ENOMEM;
    if (code != 0) {
        curl_multi_cleanup(deliverer->multi);
        free(deliverer);
        return error_set(error, ERROR_INTERNAL, "no-threads", NULL, "No thread could be made for webhooks: %s.",
                         strerror(code));
    }
    *ret = deliverer;
    return 0;
}

void deliverer_stop(struct deliverer *deliverer) {
    if (!deliverer)
        return;
    atomic_store(&deliverer->stopping, true);
    curl_multi_wakeup(deliverer->multi);
    pthread_join(deliverer->thread, NULL);
    curl_multi_cleanup(deliverer->multi);
    curl_global_cleanup();
    free(deliverer);
}

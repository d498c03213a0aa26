/* SPDX-License-Identifier: Apache-2.0 */
#include "service/base/queue.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdint.h>

#include "service/base/clock.h"

static void *item(intptr_t n) {
    return (void *)n;
}

Test(queue, gives_back_in_the_order_it_took) {
    struct queue *queue = queue_new(3);
    struct error error;
    void *out;
    for (intptr_t i = 0; i < 20; i++) {
        cr_assert_eq(queue_push(queue, item(2 * i), 0, &error), 0);
        cr_assert_eq(queue_push(queue, item(2 * i + 1), 0, &error), 0);
        cr_assert_eq(queue_pop(queue, 0, &out, &error), 0);
        cr_assert_eq(out, item(2 * i));
        cr_assert_eq(queue_pop(queue, 0, &out, &error), 0);
        cr_assert_eq(out, item(2 * i + 1));
    }
    queue_free(queue);
}

Test(queue, full_and_empty_are_timeouts_at_the_deadline) {
    struct queue *queue = queue_new(1);
    struct error error;
    void *out = item(7);
    cr_assert_eq(queue_pop(queue, deadline_in_s(0.01), &out, &error), -1);
    cr_assert_eq(error.class, ERROR_TIMEOUT);
    cr_assert_eq(out, item(7), "set only on success");
    cr_assert_eq(queue_push(queue, NULL, 0, &error), 0);
    cr_assert_eq(queue_push(queue, NULL, deadline_in_s(0.01), &error), -1);
    cr_assert_eq(error.class, ERROR_TIMEOUT);
    queue_free(queue);
}

Test(queue, closed_takes_nothing_but_gives_what_it_has) {
    struct queue *queue = queue_new(2);
    struct error error;
    void *out;
    cr_assert_eq(queue_push(queue, item(1), DEADLINE_NEVER, &error), 0);
    queue_close(queue);
    cr_assert_eq(queue_push(queue, item(2), DEADLINE_NEVER, &error), -1);
    cr_assert_eq(error.class, ERROR_CANCELLED);
    cr_assert_eq(queue_pop(queue, DEADLINE_NEVER, &out, &error), 0);
    cr_assert_eq(out, item(1));
    cr_assert_eq(queue_pop(queue, DEADLINE_NEVER, &out, &error), -1);
    cr_assert_eq(error.class, ERROR_CANCELLED);
    queue_free(queue);
}

static void *pop_for_ever(void *data) {
    struct error error = {0};
    void *out;
    intptr_t sum = 0;
    while (queue_pop(data, DEADLINE_NEVER, &out, &error) == 0)
        sum += (intptr_t)out;
    return item(error.class == ERROR_CANCELLED ? sum : -1);
}

Test(queue, close_wakes_everybody_who_waits) {
    struct queue *queue = queue_new(1);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, pop_for_ever, queue), 0);
    queue_close(queue);
    for (int i = 0; i < 4; i++) {
        void *sum;
        pthread_join(threads[i], &sum);
        cr_assert_eq(sum, item(0));
    }
    queue_free(queue);
}

static void *push_many(void *data) {
    struct error error;
    for (intptr_t i = 1; i <= 2000; i++)
        if (queue_push(data, item(i), DEADLINE_NEVER, &error) < 0)
            return item(1);
    return item(0);
}

Test(queue, loses_and_doubles_nothing_between_many_threads) {
    struct queue *queue = queue_new(3);
    pthread_t producers[3], consumers[3];
    intptr_t total = 0;
    void *result;
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(pthread_create(&consumers[i], NULL, pop_for_ever, queue), 0);
        cr_assert_eq(pthread_create(&producers[i], NULL, push_many, queue), 0);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(producers[i], &result);
        cr_assert_eq(result, item(0));
    }
    queue_close(queue);
    for (int i = 0; i < 3; i++) {
        pthread_join(consumers[i], &result);
        total += (intptr_t)result;
    }
    cr_assert_eq(total, 3 * 2000 * 2001 / 2);
    queue_free(queue);
}

Test(queue, free_takes_null) {
    queue_free(NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "api/queue_metrics.h"

#include <criterion/criterion.h>
#include <string.h>

Test(queue_metrics, buckets_are_added_up_and_end_with_all) {
    struct queue_wait of[] = {
        {.kind = WORK_TUNE, .device_kind = "cuda", .counts = {3, 0, 2, 1}, .total_s = 1234.5},
        {.kind = WORK_PLAN, .device_kind = "cpu", .counts = {1}, .total_s = 0.001},
    };
    struct queue_waits waits = {.bounds_s = {0.05, 0.5, 86400}, .n_bounds = 3, .of = of, .n = 2};
    struct buf out = BUF_INIT(1 << 16);
    queue_metrics_write(&out, &waits);
    const char *begin = strstr(buf_str(&out), " histogram\n");
    cr_assert_not_null(begin, "%s", buf_str(&out));
    cr_expect_str_eq(begin + strlen(" histogram\n"),
                     "warptune_queue_wait_seconds_bucket{work=\"tune\",device=\"cuda\",le=\"0.05\"} 3\n"
                     "warptune_queue_wait_seconds_bucket{work=\"tune\",device=\"cuda\",le=\"0.5\"} 3\n"
                     "warptune_queue_wait_seconds_bucket{work=\"tune\",device=\"cuda\",le=\"86400\"} 5\n"
                     "warptune_queue_wait_seconds_bucket{work=\"tune\",device=\"cuda\",le=\"+Inf\"} 6\n"
                     "warptune_queue_wait_seconds_sum{work=\"tune\",device=\"cuda\"} 1234.500000\n"
                     "warptune_queue_wait_seconds_count{work=\"tune\",device=\"cuda\"} 6\n"
                     "warptune_queue_wait_seconds_bucket{work=\"plan\",device=\"cpu\",le=\"0.05\"} 1\n"
                     "warptune_queue_wait_seconds_bucket{work=\"plan\",device=\"cpu\",le=\"0.5\"} 1\n"
                     "warptune_queue_wait_seconds_bucket{work=\"plan\",device=\"cpu\",le=\"86400\"} 1\n"
                     "warptune_queue_wait_seconds_bucket{work=\"plan\",device=\"cpu\",le=\"+Inf\"} 1\n"
                     "warptune_queue_wait_seconds_sum{work=\"plan\",device=\"cpu\"} 0.001000\n"
                     "warptune_queue_wait_seconds_count{work=\"plan\",device=\"cpu\"} 1\n");
    buf_release(&out);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/pg_fixture.h"

#include "service/store/worker_store.h"

static struct worker_row make(struct worker_device *devices, int n) {
    struct worker_row worker = {
        .host = "host", .version = "0.1.0", .label = "lab", .pid = 42, .devices = devices, .n_devices = n};
    uuid_make(worker.id);
    return worker;
}

static int list(struct fixture *f, struct worker_row **ret) {
    struct error error;
    int count;
    OK(worker_list(f->db, f->arena, ret, &count, &error));
    return count;
}

Test(worker, it_is_listed_with_its_devices) {
    struct fixture f = fixture_open();
    struct error error;
    struct worker_device devices[] = {{.kind = "cpu", .ordinal = 0, .key = FIXTURE_DEVICE, .info = "{\"cores\":4}"},
                                      {.kind = "cuda", .ordinal = 1, .key = "cuda/x", .info = "{}", .state = "{}"}};
    struct worker_row worker = make(devices, 2), *got;
    OK(worker_register(f.db, &worker, &error));
    OK(worker_register(f.db, &worker, &error));
    cr_assert_eq(list(&f, &got), 1);
    cr_expect_str_eq(got->id, worker.id);
    cr_expect_str_eq(got->host, "host");
    cr_expect_str_eq(got->label, "lab");
    cr_expect_eq(got->pid, 42);
    cr_expect_lt(got->silent_s, 3600);
    cr_assert_eq(got->n_devices, 2);
    cr_expect_str_eq(got->devices[0].kind, "cpu");
    cr_expect_str_eq(got->devices[0].info, "{\"cores\":4}");
    cr_expect_null(got->devices[0].state);
    cr_expect_str_eq(got->devices[0].job_id, "");
    cr_expect_null(got->devices[0].work);
    cr_expect_eq(got->devices[1].ordinal, 1);
    fixture_close(&f);
}

Test(worker, one_without_devices_is_listed_too) {
    struct fixture f = fixture_open();
    struct error error;
    struct worker_device device = {.kind = "cpu", .key = "k", .info = "{}"};
    struct worker_row bare = make(NULL, 0), other = make(&device, 1), *got;
    OK(worker_register(f.db, &bare, &error));
    OK(worker_register(f.db, &other, &error));
    cr_assert_eq(list(&f, &got), 2);
    cr_expect_eq(got[0].n_devices + got[1].n_devices, 1);
    fixture_close(&f);
}

Test(worker, a_heartbeat_brings_its_devices_states) {
    struct fixture f = fixture_open();
    struct error error;
    struct worker_device device = {.kind = "cpu", .key = FIXTURE_DEVICE, .info = "{}"};
    struct worker_row worker = make(&device, 1), *got;
    OK(worker_register(f.db, &worker, &error));
    fixture_sql(f.url, "UPDATE worker_heartbeats SET seen_at = now() - interval '1 hour'");
    device.state = "{\"temperature_c\":50}";
    device.counters = "{\"busy_s\":1}";
    OK(worker_heartbeat(f.db, &worker, &error));
    cr_assert_eq(list(&f, &got), 1);
    cr_expect_str_eq(got->devices[0].state, device.state);
    cr_expect_str_eq(got->devices[0].counters, device.counters);
    cr_expect_lt(got->silent_s, 1800);
    fixture_close(&f);
}

Test(worker, what_its_device_does_is_told) {
    struct fixture f = fixture_open();
    struct error error;
    char job[UUID_TEXT];
    struct work_item item;
    bool found;
    struct worker_device devices[] = {{.kind = "cpu", .ordinal = 0, .key = FIXTURE_DEVICE, .info = "{}"},
                                      {.kind = "cpu", .ordinal = 1, .key = FIXTURE_DEVICE, .info = "{}"}};
    struct worker_row worker = make(devices, 2), *got;
    OK(worker_register(f.db, &worker, &error));
    fixture_job(&f, fixture_model(&f, "network")->id, job);
    fixture_plan(&f, 1);
    struct claimant claimant = {worker.id, "cpu", 1, FIXTURE_DEVICE, NULL, 60};
    OK(queue_claim(f.db, &claimant, &item, &found, &error));
    cr_assert(found);
    cr_assert_eq(list(&f, &got), 1);
    cr_expect_str_eq(got->devices[0].job_id, "");
    cr_expect_str_eq(got->devices[1].job_id, job);
    cr_expect_str_eq(got->devices[1].work, "tune");
    cr_expect_eq(got->devices[1].task, 0);
    cr_expect_gt(got->devices[1].lease_until_us, got->seen_us);
    fixture_close(&f);
}

Test(worker, a_silent_one_is_removed_and_told_to_register_again) {
    struct fixture f = fixture_open();
    struct error error;
    int removed;
    struct worker_row worker = make(NULL, 0), *got;
    OK(worker_register(f.db, &worker, &error));
    OK(worker_expire(f.db, 60, &removed, &error));
    cr_expect_eq(removed, 0);
    fixture_sql(f.url, "UPDATE worker_heartbeats SET seen_at = now() - interval '2 minutes'");
    OK(worker_expire(f.db, 60, &removed, &error));
    cr_expect_eq(removed, 1);
    FAILS(worker_heartbeat(f.db, &worker, &error), "no-such-worker");
    OK(worker_register(f.db, &worker, &error));
    fixture_sql(f.url, "UPDATE worker_heartbeats SET seen_at = now() + interval '1 day'"); /* and the clock set back */
    list(&f, &got);
    cr_expect_eq(got->silent_s, 0);
    OK(worker_expire(f.db, 60, &removed, &error));
    cr_expect_eq(removed, 1);
    OK(worker_register(f.db, &worker, &error));
    OK(worker_remove(f.db, worker.id, &error));
    cr_expect_eq(list(&f, &got), 0);
    fixture_close(&f);
}

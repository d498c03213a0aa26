/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/measure/steady.h"

#include <criterion/criterion.h>

#include "gpu/device/cuda_others.h"
#include "gpu/measure/measure.h"
#include "service/base/json.h"

/* A state of an H200 at work, alone. */
static const struct device_state calm = {1980, 3201, 45, 300, 80, 1 << 20, 0, 0};

static unsigned judge(struct device_state before, struct device_state after) {
    return steady_judge(&before, &after, 1980);
}

Test(steady, a_calm_device_is_steady) {
    cr_assert_eq(judge(calm, calm), 0);
}

Test(steady, heat_power_and_hardware_throttle) {
    static const int reasons[] = {THROTTLE_POWER_CAP, THROTTLE_HARDWARE, THROTTLE_THERMAL, THROTTLE_HARDWARE_THERMAL,
                                  THROTTLE_POWER_BRAKE};
    for (size_t i = 0; i < ARRAY_COUNT(reasons); i++) {
        struct device_state held = calm;
        held.throttle_reasons = reasons[i] | THROTTLE_SETTING;
        cr_assert_eq(judge(held, calm), TRIAL_THROTTLED, "reason %#x before", (unsigned)reasons[i]);
        cr_assert_eq(judge(calm, held), TRIAL_THROTTLED, "reason %#x after", (unsigned)reasons[i]);
    }
}

Test(steady, an_idle_device_and_clocks_that_were_set_do_not) {
    struct device_state idle = calm, set = calm;
    idle.throttle_reasons = THROTTLE_IDLE;
    idle.sm_clock_mhz = 345;
    set.throttle_reasons = THROTTLE_SETTING;
    cr_assert_eq(judge(idle, calm), 0);
    cr_assert_eq(judge(idle, idle), 0);
    cr_assert_eq(judge(set, set), 0);
}

Test(steady, a_clock_that_fell_under_load_is_throttling) {
    struct device_state slow = calm;
    slow.sm_clock_mhz = 1700;
    cr_assert_eq(judge(calm, slow), 0);
    slow.sm_clock_mhz = 1600;
    cr_assert_eq(judge(calm, slow), TRIAL_THROTTLED);
    cr_assert_eq(judge(slow, calm), 0); /* it rose with the load */
    cr_assert_eq(steady_judge(&calm, &slow, 1600), 0);
}

Test(steady, another_process_shares) {
    struct device_state shared = calm;
    shared.other_processes = 1;
    cr_assert_eq(judge(shared, calm), TRIAL_SHARED);
    cr_assert_eq(judge(calm, shared), TRIAL_SHARED);
    shared.throttle_reasons = THROTTLE_THERMAL;
    cr_assert_eq(judge(calm, shared), TRIAL_SHARED | TRIAL_THROTTLED);
}

Test(steady, what_is_not_known_disturbs_nothing) {
    cr_assert_eq(judge(device_state_unknown, device_state_unknown), 0);
    cr_assert_eq(judge(calm, device_state_unknown), 0);
}

Test(steady, the_top_clock_is_the_highest_seen) {
    struct steady steady = {0};
    struct device_state state = calm;
    steady_note(&steady, &device_state_unknown);
    cr_assert_eq(steady.top_clock_mhz, 0);
    steady_note(&steady, &state);
    state.sm_clock_mhz = 1500;
    steady_note(&steady, &state);
    cr_assert_eq(steady.top_clock_mhz, 1980);
}

Test(steady, patience_is_short_while_the_disturbance_goes_on) {
    struct steady steady = {0};
    cr_assert_eq(steady_patience(&steady), 3);
    steady.restless = true;
    cr_assert_eq(steady_patience(&steady), 1);
    cr_assert_gt(steady_pause_s(2), steady_pause_s(1));
    cr_assert_lt(steady_pause_s(3), 0.2);
}

/* ---- a state in a message ---- */

Test(steady, a_state_survives_its_journey) {
    struct device_state back;
    struct error error = {0};
    struct json_object *object = device_state_to_json(&calm);
    cr_assert_eq(device_state_from_json(object, &back, &error), 0, "%s", error.text);
    struct json_object *again = device_state_to_json(&back);
    cr_assert_eq(json_object_object_length(object), 8);
    cr_assert(json_object_equal(object, again), "%s", json_text(again, NULL));
    cr_assert_eq(back.sm_clock_mhz, 1980);
    json_object_put(object);
    json_object_put(again);
    object = device_state_to_json(&device_state_unknown);
    cr_assert_eq(json_object_object_length(object), 0);
    cr_assert_eq(device_state_from_json(object, &back, &error), 0, "%s", error.text);
    cr_assert_eq(back.sm_clock_mhz, -1);
    cr_assert_eq(back.memory_used_bytes, -1);
    cr_assert_eq(back.throttle_reasons, -1);
    json_add_string(object, "power_w", "much");
    cr_assert_eq(device_state_from_json(object, &back, &error), -1);
    json_object_put(object);
}

/* ---- whose processes they are ---- */

Test(others, our_own_number_is_ours_alone) {
    struct pid_list before = {1, {50}}, after = {3, {50, 77, 100}};
    struct pid_list own = own_processes(&before, &after, 100);
    cr_assert_eq(own.n, 1);
    cr_assert_eq(own.pid[0], 100);
    cr_assert_eq(count_others(&after, &own), 2);
}

/* In a container we are 12, and the driver says 90412. */
Test(others, under_a_foreign_number_what_appeared_with_us_is_ours) {
    struct pid_list before = {1, {90001}}, after = {2, {90001, 90412}}, later = {2, {90412, 90555}};
    struct pid_list own = own_processes(&before, &after, 12);
    cr_assert_eq(count_others(&after, &own), 1);
    cr_assert_eq(count_others(&later, &own), 1);
    cr_assert_eq(count_others(&(struct pid_list){1, {90412}}, &own), 0);
    cr_assert_eq(count_others(&(struct pid_list){0}, &own), 0);
}

/* Another process of the host's that happens to have our number in the container was there before us. */
Test(others, an_equal_number_that_was_there_before_is_not_ours) {
    struct pid_list before = {1, {12}}, after = {2, {12, 90412}};
    struct pid_list own = own_processes(&before, &after, 12);
    cr_assert_eq(own.n, 1);
    cr_assert_eq(own.pid[0], 90412);
    cr_assert_eq(count_others(&after, &own), 1);
}

Test(others, an_unknown_list_leaves_the_count_unknown) {
    struct pid_list none = {0}, unknown = {.n = -1};
    struct pid_list own = own_processes(&unknown, &none, 1);
    cr_assert_eq(count_others(&none, &own), -1);
    own = own_processes(&none, &none, 1);
    cr_assert_eq(count_others(&unknown, &own), -1);
    cr_assert_eq(count_others(&none, &own), 0);
}

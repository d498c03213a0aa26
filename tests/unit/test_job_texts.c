/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/pg_fixture.h"

#include "api/job_json.h"
#include "api/job_texts.h"

struct setup {
    struct fixture f;
    struct job_texts *texts;
    char id[UUID_TEXT];
    struct buf out;
};

static struct setup setup_new(void) {
    struct setup setup = {.f = fixture_open(), .texts = job_texts_new(), .out = BUF_INIT(1 << 20)};
    struct model_row *model = fixture_model(&setup.f, "network");
    fixture_job(&setup.f, model->id, setup.id);
    fixture_plan(&setup.f, 3);
    return setup;
}

static void setup_free(struct setup *setup) {
    buf_release(&setup->out);
    job_texts_free(setup->texts);
    fixture_close(&setup->f);
}

static struct job_version version_of(struct setup *setup) {
    struct job_version version;
    struct error error;
    OK(job_version_get(setup->f.db, setup->id, &version, &error));
    return version;
}

/* Whether there is a text of the job as it is now; it is then in `out`. */
static bool take(struct setup *setup) {
    struct job_version version = version_of(setup);
    buf_clear(&setup->out);
    return job_texts_take(setup->texts, setup->id, &version, &setup->out);
}

static void write_now(struct setup *setup) {
    buf_clear(&setup->out);
    job_texts_write(setup->texts, fixture_get(&setup->f, setup->id), &setup->out);
}

Test(job_texts, one_that_has_not_changed_is_there_byte_for_byte) {
    struct setup setup = setup_new();
    struct error error;
    struct buf expected = BUF_INIT(1 << 20);
    cr_expect_not(job_texts_has(setup.texts, setup.id));
    cr_expect_not(take(&setup));
    OK(job_pause(setup.f.db, setup.id, &error)); /* so that elapsed_s stands still */
    write_now(&setup);
    job_write(&expected, fixture_get(&setup.f, setup.id));
    cr_expect_str_eq(setup.out.data, expected.data);
    cr_expect(job_texts_has(setup.texts, setup.id));
    cr_assert(take(&setup));
    cr_expect_str_eq(setup.out.data, expected.data);
    buf_release(&expected);
    setup_free(&setup);
}

Test(job_texts, one_that_has_changed_is_not) {
    struct setup setup = setup_new();
    struct error error;
    write_now(&setup);
    OK(job_cancel(setup.f.db, setup.id, &error));
    cr_expect_not(take(&setup));
    write_now(&setup);
    cr_assert(take(&setup));
    cr_expect_not_null(strstr(setup.out.data, "\"state\":\"cancelled\""));
    fixture_sql(setup.f.url, "UPDATE jobs SET priority = 7");
    cr_expect_not(take(&setup));
    setup_free(&setup);
}

Test(job_texts, the_time_goes_on_in_it) {
    struct setup setup = setup_new();
    write_now(&setup);
    struct job_version version = version_of(&setup);
    version.elapsed_s = 4321.5;
    buf_clear(&setup.out);
    cr_assert(job_texts_take(setup.texts, setup.id, &version, &setup.out));
    cr_expect_not_null(strstr(setup.out.data, ",\"elapsed_s\":4321.500,\"last_event\":"));
    setup_free(&setup);
}

Test(job_texts, long_ones_are_not_kept_and_a_newcomer_takes_a_place) {
    struct setup setup = setup_new();
    struct job_row *job = fixture_get(&setup.f, setup.id);
    char *options = arena_alloc(setup.f.arena, MOST_JOB_TEXT + 1);
    memset(options, ' ', MOST_JOB_TEXT);
    job->options = options;
    job_texts_write(setup.texts, job, &setup.out);
    cr_expect_gt(setup.out.len, MOST_JOB_TEXT);
    cr_expect_not(job_texts_has(setup.texts, setup.id));
    job->options = "{}";
    int kept = 0;
    char ids[2 * JOB_TEXTS][UUID_TEXT];
    for (int i = 0; i < 2 * JOB_TEXTS; i++) {
        uuid_make(ids[i]);
        memcpy(job->id, ids[i], UUID_TEXT);
        buf_clear(&setup.out);
        job_texts_write(setup.texts, job, &setup.out);
        cr_expect(job_texts_has(setup.texts, ids[i]));
    }
    for (int i = 0; i < 2 * JOB_TEXTS; i++)
        kept += job_texts_has(setup.texts, ids[i]);
    cr_expect_gt(kept, JOB_TEXTS / 2);
    cr_expect_leq(kept, JOB_TEXTS);
    setup_free(&setup);
}

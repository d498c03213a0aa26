/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/pg_fixture.h"

#include "service/store/config_store.h"
#include "service/store/migrations.h"
#include "service/store/project_store.h"
#include "service/store/token_store.h"

#define NO_QUOTAS \
    { QUOTA_NONE, QUOTA_NONE, QUOTA_NONE }

static struct project_row *make(struct fixture *f, const char *name, struct project_quotas quotas) {
    struct error error;
    struct project_row *project;
    struct project_new new = {name, quotas, {VISIBLE_PUBLIC}};
    OK(project_create(f->db, &new, f->arena, &project, &error));
    return project;
}

static struct model_row *make_model(struct fixture *f, const char *project_id, const char *text) {
    struct error error;
    struct model_row *model;
    char sha256[SHA256_HEX];
    bool created;
    fixture_blob(f, text, sha256);
    struct model_new new = {project_id, "m", sha256, (int64_t)strlen(text), "{}"};
    OK(model_create(f->db, &new, f->arena, &model, &created, &error));
    return model;
}

Test(project, default_is_there_from_the_start_and_stays) {
    struct fixture f = fixture_open();
    struct error error;
    struct project_row *project;
    OK(project_get(f.db, NULL, f.arena, &project, &error));
    cr_expect_str_eq(project->id, PROJECT_DEFAULT_ID);
    cr_expect_str_eq(project->name, "default");
    cr_expect_eq(project->quotas.open_jobs, QUOTA_NONE);
    FAILS(project_delete(f.db, PROJECT_DEFAULT_ID, true, &error), "default-project");
    struct project_new renamed = {"other", NO_QUOTAS, {VISIBLE_PUBLIC}};
    FAILS(project_update(f.db, NULL, &renamed, &error), "default-project");
    fixture_close(&f);
}

Test(project, it_comes_back_as_it_was_made_and_changed) {
    struct fixture f = fixture_open();
    struct error error;
    struct project_row *made = make(&f, "lab-a", (struct project_quotas){1000, 5, QUOTA_NONE}), *got;
    const char *const with[] = {"lab-a"};
    make(&f, "lab-b", (struct project_quotas)NO_QUOTAS);
    struct project_new changed = {"lab-c", {QUOTA_NONE, 6, 7}, {VISIBLE_SHARED, with, 1}};
    OK(project_find(f.db, "lab-a", f.arena, &got, &error));
    cr_expect_str_eq(got->id, made->id);
    cr_expect_eq(got->quotas.model_bytes, 1000);
    cr_expect_eq(got->quotas.open_jobs, 5);
    cr_expect_eq(got->quotas.gpu_s, QUOTA_NONE);
    OK(project_update(f.db, made->id, &changed, &error));
    OK(project_get(f.db, made->id, f.arena, &got, &error));
    cr_expect_str_eq(got->name, "lab-c");
    cr_expect_eq(got->quotas.model_bytes, QUOTA_NONE);
    cr_expect_eq(got->quotas.gpu_s, 7);
    cr_expect_eq(got->configs.visibility, VISIBLE_SHARED);
    cr_assert_eq(got->configs.n_with, 1);
    cr_expect_str_eq(got->configs.with[0], "lab-c", "shared with it by id: it has another name by now");
    fixture_close(&f);
}

Test(project, names_are_unique_and_plain) {
    struct fixture f = fixture_open();
    struct error error;
    struct project_row *project = make(&f, "lab", (struct project_quotas)NO_QUOTAS);
    const char *const wrong[] = {"", "Lab", "-lab", "a b", "\xc3\xa4", "a/b"};
    struct project_new new = {"lab", NO_QUOTAS, {VISIBLE_PUBLIC}};
    FAILS(project_create(f.db, &new, f.arena, &project, &error), "project-exists");
    struct project_row *other = make(&f, "other", (struct project_quotas)NO_QUOTAS);
    FAILS(project_update(f.db, other->id, &new, &error), "project-exists");
    for (size_t i = 0; i < ARRAY_COUNT(wrong); i++) {
        new.name = wrong[i];
        FAILS(project_create(f.db, &new, f.arena, &project, &error), "bad-name");
    }
    const char *const with[] = {"nobody"};
    struct project_new shared = {"new", NO_QUOTAS, {VISIBLE_SHARED, with, 1}};
    FAILS(project_create(f.db, &shared, f.arena, &project, &error), "no-such-project");
    FAILS(project_get(f.db, "x", f.arena, &project, &error), "no-such-project");
    fixture_close(&f);
}

Test(project, pages_list_all) {
    struct fixture f = fixture_open();
    struct error error;
    struct project_row *page;
    int n, seen = 0;
    bool more = true;
    make(&f, "a", (struct project_quotas)NO_QUOTAS);
    make(&f, "b", (struct project_quotas)NO_QUOTAS);
    for (const char *after = NULL; more; after = page[n - 1].id) {
        OK(project_list(f.db, after, 2, f.arena, &page, &n, &more, &error));
        seen += n;
    }
    cr_expect_eq(seen, 3);
    FAILS(project_list(f.db, "x", 2, f.arena, &page, &n, &more, &error), "bad-cursor");
    fixture_close(&f);
}

Test(project, the_same_bytes_in_two_are_two_models_of_one_blob) {
    struct fixture f = fixture_open();
    struct error error;
    int64_t bytes;
    struct project_row *lab = make(&f, "lab", (struct project_quotas)NO_QUOTAS);
    struct model_row *ours = make_model(&f, NULL, "network"), *theirs = make_model(&f, lab->id, "network"), *list;
    char owner[UUID_TEXT];
    int n;
    bool more;
    cr_expect_str_neq(ours->id, theirs->id);
    cr_expect_eq(fixture_number(f.url, "SELECT count(*) FROM blobs"), 1);
    OK(model_list(f.db, lab->id, NULL, 10, f.arena, &list, &n, &more, &error));
    cr_assert_eq(n, 1);
    cr_expect_str_eq(list[0].id, theirs->id);
    OK(project_of_model(f.db, theirs->id, owner, &error));
    cr_expect_str_eq(owner, lab->id);
    FAILS(project_of_model(f.db, lab->id, owner, &error), "no-such-model");
    OK(model_delete(f.db, ours->id, &error));
    OK(blob_size(f.db, theirs->sha256, &bytes, &error));
    OK(model_delete(f.db, theirs->id, &error));
    FAILS(blob_size(f.db, theirs->sha256, &bytes, &error), "no-such-blob");
    fixture_close(&f);
}

Test(project, a_job_is_made_of_its_own_models_and_listed_there_alone) {
    struct fixture f = fixture_open();
    struct error error;
    struct project_row *lab = make(&f, "lab", (struct project_quotas)NO_QUOTAS);
    struct model_row *ours = make_model(&f, NULL, "network"), *theirs = make_model(&f, lab->id, "network");
    struct job_row *list;
    char id[UUID_TEXT], owner[UUID_TEXT];
    bool created, more;
    int n;
    struct job_new new = {.project_id = lab->id, .model_id = ours->id, .device = "cpu", .options = "{}"};
    FAILS(job_create(f.db, &new, id, &created, &error), "no-such-model");
    new.model_id = theirs->id;
    OK(job_create(f.db, &new, id, &created, &error));
    OK(project_of_job(f.db, id, owner, &error));
    cr_expect_str_eq(owner, lab->id);
    FAILS(project_of_job(f.db, "x", owner, &error), "no-such-job");
    OK(job_list(f.db, &(struct job_filter){.project_id = lab->id, .limit = 9}, f.arena, &list, &n, &more, &error));
    cr_assert_eq(n, 1);
    cr_expect_str_eq(list[0].id, id);
    OK(job_list(f.db, &(struct job_filter){.limit = 9, .model_id = theirs->id}, f.arena, &list, &n, &more, &error));
    cr_expect_eq(n, 0);
    fixture_close(&f);
}

Test(project, quotas_say_their_limit) {
    struct fixture f = fixture_open();
    struct error error;
    struct project_row *lab = make(&f, "lab", (struct project_quotas){10, 1, 5});
    struct model_row *model = make_model(&f, lab->id, "seven..");
    char id[UUID_TEXT], sha256[SHA256_HEX];
    bool created;
    fixture_blob(&f, "four", sha256);
    struct model_new large = {lab->id, "m", sha256, 4, "{}"};
    FAILS(model_create(f.db, &large, f.arena, &model, &created, &error), "quota-model-bytes");
    cr_expect_eq(error.class, ERROR_LIMIT);
    cr_expect_not_null(strstr(error.text, "10 bytes"));
    FAILS(model_check_room(f.db, lab->id, 4, &error), "quota-model-bytes");
    OK(model_check_room(f.db, lab->id, 3, &error));
    make_model(&f, lab->id, "seven.."); /* the same again needs no room */

    struct job_new new = {.project_id = lab->id, .model_id = model->id, .device = "cpu", .options = "{}"};
    OK(job_create(f.db, &new, id, &created, &error));
    char second[UUID_TEXT];
    FAILS(job_create(f.db, &new, second, &created, &error), "quota-open-jobs");
    OK(job_cancel(f.db, id, &error));
    OK(job_create(f.db, &new, second, &created, &error));
    FAILS(job_retry(f.db, id, &error), "quota-open-jobs");
    OK(job_cancel(f.db, second, &error));

    char sql[300];
    snprintf(sql, sizeof sql, "INSERT INTO project_use (project_id, device_kind, day_s) VALUES ('%s', 'cuda', 5)",
             lab->id);
    fixture_sql(f.url, sql);
    new.device = "auto";
    FAILS(job_create(f.db, &new, id, &created, &error), "quota-gpu-seconds");
    new.device = "cpu";
    OK(job_create(f.db, &new, id, &created, &error));
    OK(job_cancel(f.db, id, &error));
    fixture_sql(f.url, "UPDATE project_use SET day = day - 1");
    new.device = "cuda";
    OK(job_create(f.db, &new, id, &created, &error));
    fixture_close(&f);
}

Test(project, deleting_it_takes_all_that_it_has_once_nothing_runs) {
    struct fixture f = fixture_open();
    struct error error;
    struct project_row *lab = make(&f, "lab", (struct project_quotas)NO_QUOTAS);
    struct model_row *model = make_model(&f, lab->id, "network");
    struct token_row *token;
    char id[UUID_TEXT], secret[SECRET_TOKEN_TEXT];
    bool created;
    struct job_new new = {.project_id = lab->id, .model_id = model->id, .device = "cpu", .options = "{}"};
    OK(job_create(f.db, &new, id, &created, &error));
    OK(token_create(f.db, &(struct token_new){lab->id, "t", 1u << SCOPE_READ}, f.arena, &token, secret, &error));
    struct config_row config = {.workload = "w",
                                .device_key = "d",
                                .template = "t",
                                .entity = "[]",
                                .cost_s = 1,
                                .provenance = "{}",
                                .job_id = id};
    OK(config_put(f.db, &config, NULL, &error));
    FAILS(project_delete(f.db, lab->id, true, &error), "project-in-use");
    OK(job_cancel(f.db, id, &error));
    FAILS(project_delete(f.db, lab->id, false, &error), "project-not-empty");
    OK(project_delete(f.db, lab->id, true, &error));
    FAILS(project_delete(f.db, lab->id, true, &error), "no-such-project");
    cr_expect_eq(fixture_number(f.url, "SELECT (SELECT count(*) FROM jobs) + (SELECT count(*) FROM models)"
                                       " + (SELECT count(*) FROM tokens) + (SELECT count(*) FROM configs)"
                                       " + (SELECT count(*) FROM events)"),
                 0);
    fixture_close(&f);
}

/* ---- configurations ---- */

static void put(struct fixture *f, const char *project_id, const char *template, int version, double cost_s) {
    struct error error;
    struct config_row config = {.workload = "w",
                                .device_key = "d",
                                .template = template,
                                .version = version,
                                .entity = "[]",
                                .cost_s = cost_s,
                                .baseline_s = INFINITY,
                                .provenance = "{}",
                                .project_id = project_id};
    OK(config_put(f->db, &config, NULL, &error));
}

/* What the viewer sees, by get and by list; 0 for nothing. */
static double seen_by(struct fixture *f, const char *viewer) {
    struct error error;
    struct config_row *got, *list;
    int n;
    bool more;
    OK(config_get(f->db, viewer, "w", "d", f->arena, &got, &error));
    OK(config_list(f->db, &(struct config_filter){.viewer = viewer, .limit = 9}, f->arena, &list, &n, &more, &error));
    cr_expect_eq(n, got ? 1 : 0);
    if (got)
        cr_expect_eq(list[0].cost_s, got->cost_s);
    return got ? got->cost_s : 0;
}

static void set_sharing(struct fixture *f, const char *project_id, enum visibility visibility, const char *with) {
    struct error error;
    int64_t changed;
    struct sharing sharing = {visibility, &with, with ? 1 : 0};
    OK(config_share(f->db, project_id, &(struct config_filter){.workload = "w"}, &sharing, &changed, &error));
    cr_expect_eq(changed, 1);
}

Test(project, each_sees_the_best_of_its_own_and_of_what_is_shared) {
    struct fixture f = fixture_open();
    struct error error;
    const char *a = make(&f, "a", (struct project_quotas)NO_QUOTAS)->id;
    const char *b = make(&f, "b", (struct project_quotas)NO_QUOTAS)->id;
    put(&f, NULL, "t", 1, 3e-5);
    put(&f, a, "t", 1, 2e-5);
    put(&f, b, "t", 1, 4e-5);
    cr_expect_eq(seen_by(&f, NULL), 2e-5, "public ones are everybody's");
    set_sharing(&f, a, VISIBLE_PRIVATE, NULL);
    cr_expect_eq(seen_by(&f, NULL), 3e-5);
    cr_expect_eq(seen_by(&f, a), 2e-5);
    cr_expect_eq(seen_by(&f, b), 3e-5);
    set_sharing(&f, a, VISIBLE_SHARED, "b");
    cr_expect_eq(seen_by(&f, b), 2e-5);
    cr_expect_eq(seen_by(&f, NULL), 3e-5);
    struct config_row *own;
    int n;
    bool more;
    struct config_filter filter = {.viewer = b, .own = true, .limit = 9};
    OK(config_list(f.db, &filter, f.arena, &own, &n, &more, &error));
    cr_assert_eq(n, 1);
    cr_expect_eq(own[0].cost_s, 4e-5);
    cr_expect_str_eq(own[0].project, "b");
    const char *const nobody[] = {"nobody"};
    int64_t changed;
    FAILS(config_share(f.db, a, &filter, &(struct sharing){VISIBLE_SHARED, nobody, 1}, &changed, &error),
          "no-such-project");
    fixture_close(&f);
}

Test(project, pages_of_configurations_have_each_key_once_whoever_found_it) {
    struct fixture f = fixture_open();
    struct error error;
    const char *a = make(&f, "a", (struct project_quotas)NO_QUOTAS)->id;
    const char *b = make(&f, "b", (struct project_quotas)NO_QUOTAS)->id;
    char seen[100] = "";
    fixture_sql(f.url,
                "INSERT INTO configs (workload, device_key, template, version, index, entity, cost_s, provenance,"
                " project_id, visibility) SELECT w, d, 't', 1, 0, '[]', 1e-5, '{}', p.id,"
                " CASE WHEN p.name = 'b' AND w = 'v' THEN 'private' ELSE 'public' END FROM projects p,"
                " unnest('{u,v,w}'::text[]) w, unnest('{d,e}'::text[]) d WHERE p.name = 'b' OR w <> 'v'");
    struct config_filter filter = {.viewer = a, .limit = 1};
    for (bool more = true; more;) {
        struct config_row *page;
        int n;
        OK(config_list(f.db, &filter, f.arena, &page, &n, &more, &error));
        cr_assert_eq(n, 1);
        filter.after_workload = page->workload;
        filter.after_device_key = page->device_key;
        snprintf(seen + strlen(seen), sizeof seen - strlen(seen), "%s%s ", page->workload, page->device_key);
    }
    cr_expect_str_eq(seen, "ud ue wd we ");
    struct config_row *all;
    int n;
    bool more;
    OK(config_list(f.db, &(struct config_filter){.viewer = b, .limit = 9}, f.arena, &all, &n, &more, &error));
    cr_expect_eq(n, 6);
    fixture_close(&f);
}

Test(project, a_newer_version_of_a_template_hides_an_older_one_but_not_from_those_who_may_not_see_it) {
    struct fixture f = fixture_open();
    const char *a = make(&f, "a", (struct project_quotas)NO_QUOTAS)->id;
    put(&f, NULL, "t", 1, 1e-5);
    put(&f, a, "t", 2, 2e-5);
    cr_expect_eq(seen_by(&f, NULL), 2e-5);
    set_sharing(&f, a, VISIBLE_PRIVATE, NULL);
    cr_expect_eq(seen_by(&f, NULL), 1e-5);
    cr_expect_eq(seen_by(&f, a), 2e-5);
    fixture_close(&f);
}

Test(project, what_it_finds_is_as_visible_as_the_project_says) {
    struct fixture f = fixture_open();
    struct error error;
    struct project_row *a;
    struct project_new new = {"a", NO_QUOTAS, {VISIBLE_PRIVATE}};
    OK(project_create(f.db, &new, f.arena, &a, &error));
    put(&f, a->id, "t", 1, 1e-5);
    cr_expect_eq(seen_by(&f, NULL), 0);
    cr_expect_eq(seen_by(&f, a->id), 1e-5);
    fixture_close(&f);
}

Test(project, what_was_there_before_belongs_to_default_and_is_public) {
    struct fixture f;
    struct error error;
    int before = 0;
    fixture_open_database(&f, true);
    while (before < migrations_count && strcmp(migrations[before].name, "0011_teams") != 0)
        before++;
    OK(migrate_run_list(f.db, migrations, before, NULL, &error));
    fixture_sql(f.url,
                "INSERT INTO blobs (sha256, content, bytes) VALUES (repeat('a', 64), gen_random_uuid(), 1);"
                "INSERT INTO models (id, sha256, name, bytes, summary)"
                " VALUES (gen_random_uuid(), repeat('a', 64), 'm', 1, '{}');"
                "INSERT INTO jobs (id, model_id, state, device, options)"
                " SELECT gen_random_uuid(), id, 'running', 'cpu', '{}' FROM models;"
                "INSERT INTO queue (job_id, kind, priority, device_kind, token, worker_kind, available_at)"
                " SELECT id, 'plan', 0, 'any', gen_random_uuid(), 'cpu', now() + interval '1 minute' FROM jobs;"
                "INSERT INTO configs (workload, device_key, template, version, index, entity, cost_s, provenance)"
                " VALUES ('w', 'd', 't', 1, 0, '[]', 1e-5, '{}')");
    OK(migrate_run(f.db, NULL, &error));
    struct project_row *project;
    OK(project_get(f.db, NULL, f.arena, &project, &error));
    cr_expect_eq(project->models, 1);
    cr_expect_eq(project->open_jobs, 1);
    cr_expect_eq(fixture_number(f.url, "SELECT running FROM project_use WHERE device_kind = 'cpu'"), 1);
    cr_expect_eq(seen_by(&f, make(&f, "lab", (struct project_quotas)NO_QUOTAS)->id), 1e-5);
    fixture_close(&f);
}

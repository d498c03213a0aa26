-- SPDX-License-Identifier: Apache-2.0
-- A server may come back with newer templates in the middle of a job. What a task knows is then told by version: the
-- same point of another version is another kernel, and a search over other spaces begins anew.

ALTER TABLE tasks ADD COLUMN best_version integer;
COMMENT ON COLUMN tasks.best_version IS 'Of best_template';
UPDATE tasks t SET best_version = coalesce((t.served->>'version')::integer,
    (SELECT x.version FROM trials x WHERE x.job_id = t.job_id AND x.task = t.number AND x.template = t.best_template
     AND x.index = t.best_index))
WHERE t.best_template IS NOT NULL;

ALTER TABLE tasks ADD COLUMN stale bigint NOT NULL DEFAULT 0;
COMMENT ON COLUMN tasks.stale IS 'Of trials_done: those that a search which began anew does not count';
ALTER TABLE tasks ADD COLUMN renewals integer NOT NULL DEFAULT 0;
COMMENT ON COLUMN tasks.renewals IS 'How often its search began anew';

ALTER TABLE trials DROP CONSTRAINT trials_job_id_task_template_index_key,
    ADD UNIQUE (job_id, task, template, index, version);

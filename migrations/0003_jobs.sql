-- SPDX-License-Identifier: Apache-2.0
-- Jobs and their tasks. Rows are updated with every batch of trials, so pages keep room for the next version.
-- model_id is no foreign key: a job that has ended outlives its model; open jobs forbid its deletion under the model's
-- row lock.

CREATE TABLE jobs (
    id              uuid PRIMARY KEY,
    model_id        uuid NOT NULL,
    state           text NOT NULL DEFAULT 'queued'
                    CHECK (state IN ('queued', 'running', 'paused', 'succeeded', 'failed', 'cancelled')),
    device          text NOT NULL CHECK (device IN ('auto', 'cpu', 'cuda')),
    device_kind     text NOT NULL DEFAULT '',
    device_key      text NOT NULL DEFAULT '',
    key             text NOT NULL DEFAULT '',
    priority        integer NOT NULL DEFAULT 0,
    options         json NOT NULL,
    labels          jsonb NOT NULL DEFAULT '{}',
    idempotency_key text UNIQUE,
    result          json,
    error_code      text,
    error_text      text,
    module_so       text REFERENCES blobs,
    module_tar      text REFERENCES blobs,
    created_at      timestamptz NOT NULL DEFAULT now(),
    started_at      timestamptz,
    finished_at     timestamptz,
    last_event      bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 70);
CREATE INDEX jobs_open ON jobs (state) WHERE state IN ('queued', 'running', 'paused');
CREATE INDEX jobs_by_model ON jobs (model_id, id);
CREATE INDEX jobs_by_label ON jobs USING gin (labels);
CREATE INDEX jobs_by_module_so ON jobs (module_so) WHERE module_so IS NOT NULL;
CREATE INDEX jobs_by_module_tar ON jobs (module_tar) WHERE module_tar IS NOT NULL;
COMMENT ON COLUMN jobs.id IS 'Version 7: sorts by age';
COMMENT ON COLUMN jobs.device IS 'As the client asked';
COMMENT ON COLUMN jobs.device_kind IS 'cpu or cuda, once planned';
COMMENT ON COLUMN jobs.device_key IS 'Class of devices that its results hold for, once planned';
COMMENT ON COLUMN jobs.key IS 'Label that a worker must have; empty: any worker';
COMMENT ON COLUMN jobs.options IS 'All options with their defaults filled in';
COMMENT ON COLUMN jobs.idempotency_key IS 'The client''s: a repeated request finds the job it made';
COMMENT ON COLUMN jobs.result IS 'Latency, baseline, error against the reference: set when it succeeded';
COMMENT ON COLUMN jobs.module_so IS 'Hash of the compiled module';
COMMENT ON COLUMN jobs.last_event IS 'Number of its newest event; whoever adds one holds this row''s lock';

CREATE TABLE tasks (
    job_id         uuid NOT NULL REFERENCES jobs ON DELETE CASCADE,
    number         integer NOT NULL CHECK (number >= 0),
    workload       text NOT NULL,
    name           text NOT NULL,
    count          integer NOT NULL,
    flops          bigint NOT NULL,
    bytes          bigint NOT NULL,
    state          text NOT NULL DEFAULT 'queued'
                   CHECK (state IN ('queued', 'running', 'succeeded', 'failed', 'cancelled')),
    template       text NOT NULL DEFAULT '',
    trials_planned bigint NOT NULL,
    trials_done    bigint NOT NULL DEFAULT 0,
    errors         bigint[] NOT NULL DEFAULT '{0,0,0,0,0,0,0,0,0}',
    error_texts    text[] NOT NULL DEFAULT '{NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL}',
    best_template  text,
    best_index     bigint,
    best_entity    json,
    best_s         double precision,
    best_spread_s  double precision,
    baseline_s     double precision,
    stop_reason    text,
    started_at     timestamptz,
    finished_at    timestamptz,
    PRIMARY KEY (job_id, number)
) WITH (fillfactor = 70);
COMMENT ON TABLE tasks IS 'The distinct workloads of a job, each with its search';
COMMENT ON COLUMN tasks.workload IS 'Canonical text';
COMMENT ON COLUMN tasks.name IS 'First node of the network that has the workload';
COMMENT ON COLUMN tasks.count IS 'Nodes that have it';
COMMENT ON COLUMN tasks.template IS 'That the search began with';
COMMENT ON COLUMN tasks.errors IS 'Trials by error number, 0 (none) to 8';
COMMENT ON COLUMN tasks.error_texts IS 'The first text of each error number';
COMMENT ON COLUMN tasks.best_s IS 'Seconds of the fastest trial, as measured again at the end';
COMMENT ON COLUMN tasks.baseline_s IS 'Seconds of the untuned configuration';

CREATE TABLE searches (
    job_id uuid NOT NULL,
    task   integer NOT NULL,
    state  json NOT NULL,
    PRIMARY KEY (job_id, task),
    FOREIGN KEY (job_id, task) REFERENCES tasks ON DELETE CASCADE
) WITH (fillfactor = 50);
COMMENT ON TABLE searches IS 'State of each task''s search after its last batch, by which another worker goes on';

-- SPDX-License-Identifier: Apache-2.0
-- What a class of devices is held against: the configurations that one job found, copied, so that they outlive the job
-- and its trials. Setting another ends the one before; none is ever changed or lost, which makes the history.

CREATE TABLE golden (
    number     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    device_key text NOT NULL,
    job_id     uuid NOT NULL,
    model_id   uuid NOT NULL,
    note       text NOT NULL DEFAULT '',
    result     json,
    set_at     timestamptz NOT NULL DEFAULT now(),
    ended_at   timestamptz
);
CREATE UNIQUE INDEX golden_now ON golden (device_key) WHERE ended_at IS NULL;
CREATE INDEX golden_history ON golden (device_key, number);
COMMENT ON COLUMN golden.device_key IS 'Class of devices';
COMMENT ON COLUMN golden.job_id IS 'Which found them; no foreign key, for it may be gone';
COMMENT ON COLUMN golden.note IS 'The client''s words';
COMMENT ON COLUMN golden.result IS 'Of the job: latency of the whole network';
COMMENT ON COLUMN golden.ended_at IS 'When another took its place, or it was deleted; null: it is golden now';

CREATE TABLE golden_configs (
    golden     bigint NOT NULL REFERENCES golden ON DELETE CASCADE,
    workload   text NOT NULL,
    name       text NOT NULL,
    count      integer NOT NULL,
    template   text NOT NULL,
    version    integer,
    index      bigint NOT NULL,
    entity     json NOT NULL,
    cost_s     double precision NOT NULL,
    spread_s   double precision,
    baseline_s double precision,
    PRIMARY KEY (golden, workload)
);
COMMENT ON COLUMN golden_configs.version IS 'The template''s; null when the trial that had it is gone';

-- A task that an earlier search had answered already is served from its record.
ALTER TABLE tasks ADD COLUMN served json;
COMMENT ON COLUMN tasks.served IS 'The record that served it without a search; null: it was searched';
CREATE INDEX tasks_by_workload ON tasks USING hash (workload);

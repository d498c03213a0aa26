-- SPDX-License-Identifier: Apache-2.0
-- What is known for everybody, and who works. A heartbeat touches its own narrow table alone.

CREATE TABLE configs (
    workload   text NOT NULL,
    device_key text NOT NULL,
    template   text NOT NULL,
    version    integer NOT NULL,
    index      bigint NOT NULL,
    entity     json NOT NULL,
    cost_s     double precision NOT NULL,
    spread_s   double precision,
    baseline_s double precision,
    provenance json NOT NULL,
    job_id     uuid,
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (workload, device_key)
);
CREATE INDEX configs_by_device ON configs (device_key, workload);
COMMENT ON TABLE configs IS 'The fastest configuration measured for a workload on a class of devices';
COMMENT ON COLUMN configs.version IS 'The template''s when it was measured';
COMMENT ON COLUMN configs.job_id IS 'Where it was measured; null: imported';

CREATE TABLE workers (
    id         uuid PRIMARY KEY,
    host       text NOT NULL,
    pid        bigint NOT NULL,
    version    text NOT NULL,
    label      text NOT NULL DEFAULT '',
    started_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON COLUMN workers.id IS 'A new one at each start';

CREATE TABLE worker_heartbeats (
    worker_id uuid PRIMARY KEY REFERENCES workers ON DELETE CASCADE,
    seen_at   timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 50);

CREATE TABLE devices (
    worker_id  uuid NOT NULL REFERENCES workers ON DELETE CASCADE,
    kind       text NOT NULL,
    ordinal    integer NOT NULL,
    device_key text NOT NULL,
    info       json NOT NULL,
    state      json,
    PRIMARY KEY (worker_id, kind, ordinal)
) WITH (fillfactor = 50);
COMMENT ON COLUMN devices.device_key IS 'Class of devices under which its results are shared';
COMMENT ON COLUMN devices.info IS 'What it is';
COMMENT ON COLUMN devices.state IS 'Clocks, temperature, memory at the last heartbeat';

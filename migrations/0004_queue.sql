-- SPDX-License-Identifier: Apache-2.0
-- The work that waits or is being done. Narrow and hot: a claim or a renewal touches no indexed column, so that it is
-- an update within the page, and dead rows go early.

CREATE TABLE queue (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job_id       uuid NOT NULL REFERENCES jobs ON DELETE CASCADE,
    kind         text NOT NULL CHECK (kind IN ('plan', 'tune', 'build')),
    task         integer NOT NULL DEFAULT -1,
    priority     integer NOT NULL,
    device_kind  text NOT NULL,
    device_key   text NOT NULL DEFAULT '',
    label        text NOT NULL DEFAULT '',
    held         boolean NOT NULL DEFAULT false,
    available_at timestamptz NOT NULL DEFAULT now(),
    attempts     integer NOT NULL DEFAULT 0,
    token        uuid,
    worker_id    uuid,
    worker_kind  text,
    ordinal      integer,
    UNIQUE (job_id, kind, task)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 50);
CREATE INDEX queue_order ON queue (priority DESC, id);
COMMENT ON COLUMN queue.task IS 'Number of the task; -1 unless kind is tune';
COMMENT ON COLUMN queue.device_kind IS 'cpu, cuda, or any';
COMMENT ON COLUMN queue.device_key IS 'Class of devices that may do it; empty: all';
COMMENT ON COLUMN queue.label IS 'Label of the workers that may do it; empty: all';
COMMENT ON COLUMN queue.held IS 'Its job is paused';
COMMENT ON COLUMN queue.available_at IS 'From when it may be claimed: with a token, that is the end of the lease';
COMMENT ON COLUMN queue.attempts IS 'Claims since the last progress';
COMMENT ON COLUMN queue.token IS 'Of the lease; every write of its holder checks it';
COMMENT ON COLUMN queue.worker_id IS 'Who holds it, with which device: for people';

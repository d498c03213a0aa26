-- SPDX-License-Identifier: Apache-2.0
-- What was measured, and what happened. Both only grow; both are numbered under the job's row lock, because sequences
-- commit out of order and a reader that resumes would skip rows.

CREATE TABLE trials (
    job_id      uuid NOT NULL,
    task        integer NOT NULL,
    number      bigint NOT NULL,
    template    text NOT NULL,
    version     integer NOT NULL,
    index       bigint NOT NULL,
    entity      json NOT NULL,
    error_no    smallint NOT NULL CHECK (error_no BETWEEN 0 AND 8),
    error_text  text,
    costs_s     double precision[] NOT NULL,
    cost_s      double precision,
    build_s     double precision NOT NULL,
    run_s       double precision NOT NULL,
    context     json,
    finished_at timestamptz NOT NULL,
    PRIMARY KEY (job_id, task, number),
    UNIQUE (job_id, task, template, index),
    FOREIGN KEY (job_id, task) REFERENCES tasks ON DELETE CASCADE
);
COMMENT ON COLUMN trials.number IS 'From 0 in its task, in order of storing';
COMMENT ON COLUMN trials.index IS 'Of the configuration in its space';
COMMENT ON COLUMN trials.entity IS 'Its knobs and their values';
COMMENT ON COLUMN trials.error_no IS 'AutoTVM''s number; 0: none';
COMMENT ON COLUMN trials.costs_s IS 'Seconds of one execution, a sample each';
COMMENT ON COLUMN trials.cost_s IS 'The figure it is ranked by; null when it failed';
COMMENT ON COLUMN trials.build_s IS 'Seconds spent compiling';
COMMENT ON COLUMN trials.run_s IS 'Seconds spent verifying and timing';
COMMENT ON COLUMN trials.context IS 'Clocks, temperature, versions';

CREATE TABLE events (
    job_id     uuid NOT NULL REFERENCES jobs ON DELETE CASCADE,
    number     bigint NOT NULL,
    kind       text NOT NULL CHECK (kind IN ('state', 'progress', 'trial', 'log')),
    data       json NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (job_id, number)
);
COMMENT ON TABLE events IS 'What happened to a job, for those who follow it';
COMMENT ON COLUMN events.number IS 'From 1 in its job, without gaps';

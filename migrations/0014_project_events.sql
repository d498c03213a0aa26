-- SPDX-License-Identifier: Apache-2.0
-- One order for what happens to all jobs of a project, so that a reader who has seen N resumes after N. A sequence, or
-- the time, gives numbers before they can be seen: who reads past one that commits late never sees it. So numbers come
-- from a row of the project that stays locked until they can be seen. A trigger takes that lock when all else of the
-- transaction is done: it is the last one, so nobody who has it waits for another job's or lease's, and it is held no
-- longer than the one that each commit with a notification holds anyway. Jobs have none of this before now.

CREATE TABLE project_feeds (
    project_id  uuid PRIMARY KEY REFERENCES projects ON DELETE CASCADE,
    last_number bigint NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 50);
COMMENT ON COLUMN project_feeds.last_number IS 'Of its newest event; locked from its change until the commit is seen';

CREATE TABLE project_events (
    project_id  uuid NOT NULL,
    number      bigint NOT NULL,
    job_id      uuid NOT NULL REFERENCES jobs ON DELETE CASCADE,
    first_event bigint NOT NULL,
    last_event  bigint NOT NULL,
    PRIMARY KEY (project_id, number)
);
CREATE INDEX project_events_by_job ON project_events (job_id);
COMMENT ON TABLE project_events IS 'Events of projects'' jobs in the order of commit: a row for those that came together';
COMMENT ON COLUMN project_events.number IS 'In the project, of the last of them; those before it count down';
COMMENT ON COLUMN project_events.first_event IS 'Number in the job''s events, as the next';

CREATE FUNCTION project_event_note() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    before bigint := CASE WHEN TG_OP = 'UPDATE' THEN OLD.last_event ELSE 0 END;
    number_now bigint;
BEGIN
    INSERT INTO project_feeds AS f (project_id, last_number) VALUES (NEW.project_id, NEW.last_event - before)
        ON CONFLICT (project_id) DO UPDATE SET last_number = f.last_number + excluded.last_number
        RETURNING f.last_number INTO number_now;
    INSERT INTO project_events (project_id, number, job_id, first_event, last_event)
        VALUES (NEW.project_id, number_now, NEW.id, before + 1, NEW.last_event);
    PERFORM pg_notify('warptune_job', NEW.project_id::text);
    RETURN NULL;
END $$;

CREATE CONSTRAINT TRIGGER project_event_of_new_job AFTER INSERT ON jobs DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.last_event > 0) EXECUTE FUNCTION project_event_note();
CREATE CONSTRAINT TRIGGER project_event_of_job AFTER UPDATE OF last_event ON jobs DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.last_event > OLD.last_event) EXECUTE FUNCTION project_event_note();

-- How long work waited, added up where every server sees the sum and no end of a worker or server takes any away: a
-- trigger, as for leases. Several rows for each kind, so that claims seldom wait for one another.
CREATE TABLE queue_waits (
    kind        text NOT NULL,
    device_kind text NOT NULL,
    shard       integer NOT NULL,
    counts      bigint[] NOT NULL,
    total_s     double precision NOT NULL,
    PRIMARY KEY (kind, device_kind, shard)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 50);
COMMENT ON TABLE queue_waits IS 'First claims of work items by how long those had waited';
COMMENT ON COLUMN queue_waits.device_kind IS 'Of the device that took it';
COMMENT ON COLUMN queue_waits.counts IS 'Up to each bound of queue_wait_bounds, and beyond the last; not added up';

CREATE FUNCTION queue_wait_bounds() RETURNS double precision[] LANGUAGE sql IMMUTABLE AS
    'SELECT ARRAY[0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 14400, 86400]::double precision[]';

ALTER TABLE queue ADD COLUMN waits_since timestamptz;
ALTER TABLE queue ALTER COLUMN waits_since SET DEFAULT now();
COMMENT ON COLUMN queue.waits_since IS 'When it was queued, or resumed; null once it was claimed';

CREATE FUNCTION queue_note_wait() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    waited double precision := greatest(extract(epoch FROM now() - OLD.waits_since), 0);
    bounds double precision[] := queue_wait_bounds();
    place integer := 1 + (SELECT count(*) FROM unnest(bounds) bound WHERE bound < waited);
    fresh bigint[] := array_fill(0, ARRAY[cardinality(bounds) + 1]);
BEGIN
    fresh[place] := 1;
    INSERT INTO queue_waits AS w (kind, device_kind, shard, counts, total_s)
        VALUES (NEW.kind, coalesce(NEW.worker_kind, ''), pg_backend_pid() % 16, fresh, waited)
        ON CONFLICT (kind, device_kind, shard) DO UPDATE SET
            counts[place] = w.counts[place] + 1, total_s = w.total_s + excluded.total_s;
    NEW.waits_since := NULL;
    RETURN NEW;
END $$;

CREATE TRIGGER queue_note_wait BEFORE UPDATE ON queue FOR EACH ROW
    WHEN (NEW.token IS NOT NULL AND OLD.waits_since IS NOT NULL) EXECUTE FUNCTION queue_note_wait();

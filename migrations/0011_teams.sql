-- SPDX-License-Identifier: Apache-2.0
-- Projects, their tokens, what they may use and what they have used. What was there before belongs to the project
-- `default`, which always exists: without any token everybody works in it.

CREATE TABLE projects (
    id                 uuid PRIMARY KEY,
    name               text NOT NULL UNIQUE CHECK (name ~ '^[a-z0-9][a-z0-9._-]{0,62}$'),
    max_model_bytes    bigint CHECK (max_model_bytes >= 0),
    max_open_jobs      bigint CHECK (max_open_jobs >= 0),
    max_gpu_s          bigint CHECK (max_gpu_s >= 0),
    config_visibility  text NOT NULL DEFAULT 'public' CHECK (config_visibility IN ('private', 'shared', 'public')),
    config_shared_with uuid[] NOT NULL DEFAULT '{}',
    created_at         timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE projects IS 'Teams: a model, a job, a token belongs to one';
COMMENT ON COLUMN projects.max_model_bytes IS 'Of its models together; null: no limit, as the next two';
COMMENT ON COLUMN projects.max_open_jobs IS 'Jobs that wait, run or are paused';
COMMENT ON COLUMN projects.max_gpu_s IS 'Seconds of GPUs in a day of UTC';
COMMENT ON COLUMN projects.config_visibility IS
    'Who may see the configurations that it finds from now on, and learn from its trials';
COMMENT ON COLUMN projects.config_shared_with IS 'Projects that may, when it is shared';
INSERT INTO projects (id, name) VALUES ('00000000-0000-7000-8000-000000000000', 'default');

-- The unique index is the look-up of every request that no cache answers. Revoked tokens stay: once there was a token,
-- the server never opens to everybody again.
CREATE TABLE tokens (
    id           uuid PRIMARY KEY,
    project_id   uuid NOT NULL REFERENCES projects ON DELETE CASCADE,
    name         text NOT NULL,
    scopes       text[] NOT NULL CHECK (scopes <@ ARRAY['read', 'submit', 'admin'] AND cardinality(scopes) > 0),
    sha256       text NOT NULL UNIQUE CHECK (sha256 ~ '^[0-9a-f]{64}$'),
    prefix       text NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT now(),
    last_used_at timestamptz,
    revoked_at   timestamptz
) WITH (fillfactor = 70);
CREATE INDEX tokens_by_project ON tokens (project_id, id);
COMMENT ON COLUMN tokens.sha256 IS 'Of the token, which is kept nowhere';
COMMENT ON COLUMN tokens.prefix IS 'How the token begins, so that people know which it is';
COMMENT ON COLUMN tokens.last_used_at IS 'To the minute';

ALTER TABLE models ADD COLUMN project_id uuid NOT NULL DEFAULT '00000000-0000-7000-8000-000000000000'
    REFERENCES projects;
ALTER TABLE models DROP CONSTRAINT models_sha256_key;
ALTER TABLE models ADD UNIQUE (project_id, sha256);
CREATE INDEX models_by_sha256 ON models (sha256);
CREATE INDEX models_by_project ON models (project_id, id);
COMMENT ON TABLE models IS 'ONNX files, each known by its project and the hash of its bytes';

ALTER TABLE jobs ADD COLUMN project_id uuid NOT NULL DEFAULT '00000000-0000-7000-8000-000000000000'
    REFERENCES projects;
CREATE INDEX jobs_by_project ON jobs (project_id, id);
CREATE INDEX jobs_open_by_project ON jobs (project_id) WHERE state IN ('queued', 'running', 'paused');

-- One row for each project that knows something: whoever asks gets the best of those that they may see.
ALTER TABLE configs
    ADD COLUMN project_id  uuid NOT NULL DEFAULT '00000000-0000-7000-8000-000000000000'
        REFERENCES projects ON DELETE CASCADE,
    ADD COLUMN visibility  text NOT NULL DEFAULT 'public' CHECK (visibility IN ('private', 'shared', 'public')),
    ADD COLUMN shared_with uuid[] NOT NULL DEFAULT '{}';
ALTER TABLE configs DROP CONSTRAINT configs_pkey;
ALTER TABLE configs ADD PRIMARY KEY (workload, device_key, project_id);
CREATE INDEX configs_by_project ON configs (project_id);
COMMENT ON TABLE configs IS
    'The fastest configuration that a project has measured for a workload on a class of devices';
COMMENT ON COLUMN configs.visibility IS 'Its project''s when it was first kept, unless changed since';
COMMENT ON COLUMN configs.shared_with IS 'Projects that may see it when it is shared';

ALTER TABLE golden ADD COLUMN project_id uuid NOT NULL DEFAULT '00000000-0000-7000-8000-000000000000'
    REFERENCES projects ON DELETE CASCADE;
DROP INDEX golden_now;
CREATE UNIQUE INDEX golden_now ON golden (project_id, device_key) WHERE ended_at IS NULL;
DROP INDEX golden_history;
CREATE INDEX golden_history ON golden (project_id, number);

CREATE FUNCTION config_visible(config configs, viewer uuid) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT config.project_id = viewer OR config.visibility = 'public'
        OR config.visibility = 'shared' AND viewer = ANY (config.shared_with)
$$;
CREATE FUNCTION config_best(of_workload text, of_device_key text, viewer uuid) RETURNS SETOF configs
LANGUAGE sql STABLE AS $$
    SELECT c.* FROM configs c WHERE c.workload = of_workload AND c.device_key = of_device_key
        AND config_visible(c, viewer) AND NOT EXISTS (SELECT FROM configs n WHERE n.workload = c.workload
            AND n.device_key = c.device_key AND n.template = c.template AND n.version > c.version
            AND config_visible(n, viewer))
    ORDER BY c.cost_s, c.project_id LIMIT 1
$$;
COMMENT ON FUNCTION config_best IS 'The best that a project may see for a workload on a class of devices';

-- What each project has had of each kind of device. A row is written at each claim, renewal and end of a lease.
CREATE TABLE project_use (
    project_id  uuid NOT NULL REFERENCES projects ON DELETE CASCADE,
    device_kind text NOT NULL,
    running     integer NOT NULL DEFAULT 0,
    recent_s    double precision NOT NULL DEFAULT 0,
    recent_at   timestamptz NOT NULL DEFAULT now(),
    day         date NOT NULL DEFAULT (now() AT TIME ZONE 'UTC')::date,
    day_s       double precision NOT NULL DEFAULT 0,
    PRIMARY KEY (project_id, device_kind)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 50);
COMMENT ON COLUMN project_use.running IS 'Items of the queue that are leased';
COMMENT ON COLUMN project_use.recent_s IS
    'Device seconds as of recent_at, each worth half after seven minutes: what the next claim goes by';
COMMENT ON COLUMN project_use.day_s IS 'Device seconds of the day';

-- The exponent is bounded because exp() fails where its result would be zero.
CREATE FUNCTION project_recent(recent_s double precision, recent_at timestamptz) RETURNS double precision
LANGUAGE sql STABLE AS
    'SELECT recent_s * exp(-least(greatest(extract(epoch FROM now() - recent_at)::double precision, 0) / 600, 50))';
COMMENT ON FUNCTION project_recent IS 'What recent seconds are worth now';

-- A lease that runs counts as ten seconds from its start, so that of many devices not all go to one project at once.
CREATE FUNCTION project_turns(kind text) RETURNS TABLE (project_id uuid, had double precision, spent boolean)
LANGUAGE sql STABLE AS $$
    SELECT p.id, coalesce(project_recent(u.recent_s, u.recent_at) + u.running * 10, 0),
        coalesce(kind = 'cuda'
            AND p.max_gpu_s <= CASE WHEN u.day = (now() AT TIME ZONE 'UTC')::date THEN u.day_s ELSE 0 END, false)
    FROM projects p LEFT JOIN project_use u ON u.project_id = p.id AND u.device_kind = kind
$$;
COMMENT ON FUNCTION project_turns IS
    'Whose turn it is on a kind of device: least had first, but for those that have spent the GPU seconds of the day';

ALTER TABLE queue
    ADD COLUMN project_id uuid NOT NULL DEFAULT '00000000-0000-7000-8000-000000000000',
    ADD COLUMN charged_at timestamptz;
DROP INDEX queue_order;
CREATE INDEX queue_order ON queue (project_id, priority DESC, job_id);
COMMENT ON COLUMN queue.project_id IS 'Its job''s';
COMMENT ON COLUMN queue.charged_at IS 'Up to when the lease is in project_use';

-- Leases that are running now are charged from now on.
UPDATE queue SET charged_at = now() WHERE token IS NOT NULL;
INSERT INTO project_use (project_id, device_kind, running)
    SELECT project_id, coalesce(worker_kind, ''), count(*) FROM queue WHERE token IS NOT NULL GROUP BY 1, 2;

-- A trigger, because a lease begins, goes on and ends in a dozen statements: none of them can forget to charge for it.
-- A lease that ran out is charged up to its end.
CREATE FUNCTION queue_charge() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    goes_on boolean := TG_OP = 'UPDATE' AND NEW.token IS NOT NULL;
    moved boolean := goes_on AND (OLD.token IS NULL OR NEW.worker_kind IS DISTINCT FROM OLD.worker_kind);
    spent double precision := 0;
BEGIN
    IF OLD.token IS NOT NULL THEN
        spent := greatest(extract(epoch FROM least(now(), OLD.available_at) - OLD.charged_at), 0);
        PERFORM project_charge(OLD.project_id, OLD.worker_kind, spent,
                               CASE WHEN goes_on AND NOT moved THEN 0 ELSE -1 END);
    END IF;
    IF moved THEN
        PERFORM project_charge(NEW.project_id, NEW.worker_kind, 0, 1);
    END IF;
    IF TG_OP = 'DELETE' THEN
        RETURN OLD;
    END IF;
    NEW.charged_at := CASE WHEN goes_on THEN now() END;
    RETURN NEW;
END $$;

CREATE FUNCTION project_charge(project uuid, kind text, spent double precision, change integer) RETURNS void
LANGUAGE sql AS $$
    INSERT INTO project_use AS u (project_id, device_kind, running, recent_s, day_s)
    SELECT p.id, coalesce(kind, ''), greatest(change, 0), spent, spent FROM projects p WHERE p.id = project
    ON CONFLICT (project_id, device_kind) DO UPDATE SET
        running = greatest(u.running + change, 0),
        recent_s = project_recent(u.recent_s, u.recent_at) + excluded.recent_s,
        recent_at = now(),
        day = excluded.day,
        day_s = CASE WHEN u.day = excluded.day THEN u.day_s ELSE 0 END + excluded.day_s
$$;

CREATE TRIGGER queue_charge_update BEFORE UPDATE ON queue FOR EACH ROW
    WHEN (OLD.token IS NOT NULL OR NEW.token IS NOT NULL) EXECUTE FUNCTION queue_charge();
CREATE TRIGGER queue_charge_delete BEFORE DELETE ON queue FOR EACH ROW
    WHEN (OLD.token IS NOT NULL) EXECUTE FUNCTION queue_charge();

-- SPDX-License-Identifier: Apache-2.0
-- Answers that a repeated POST gets again. A job's row is written with the job, answer and all, in one transaction;
-- other requests take a reservation first, which their server renews while it works on them, and complete it with the
-- answer. A reservation that nobody renews is free for the same request again.

CREATE TABLE idempotency (
    scope       text NOT NULL,
    key         text NOT NULL,
    request     text NOT NULL CHECK (request ~ '^[0-9a-f]{64}$'),
    token       uuid,
    lease_until timestamptz,
    status      integer,
    type        text,
    location    text,
    body        text,
    created_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (scope, key),
    CHECK ((status IS NULL) = (token IS NOT NULL AND lease_until IS NOT NULL))
) WITH (fillfactor = 70);
CREATE INDEX idempotency_by_age ON idempotency (created_at);
CREATE INDEX idempotency_reserved ON idempotency (token) WHERE token IS NOT NULL;
COMMENT ON TABLE idempotency IS 'Idempotency-Keys of the last 24 hours';
COMMENT ON COLUMN idempotency.scope IS 'Within what the key is one: the route';
COMMENT ON COLUMN idempotency.key IS 'The client''s';
COMMENT ON COLUMN idempotency.request IS 'SHA-256 of target and body: another request with this key is a mistake';
COMMENT ON COLUMN idempotency.token IS 'Of the server''s reservation while the request is worked on';
COMMENT ON COLUMN idempotency.status IS 'Of the answer; null: not answered yet';
COMMENT ON COLUMN idempotency.type IS 'Content-Type of the answer';
COMMENT ON COLUMN idempotency.location IS 'Location of the answer';

-- It named the job that a key made, but not the request nor the answer, and kept the key for ever.
ALTER TABLE jobs DROP COLUMN idempotency_key;

-- SPDX-License-Identifier: Apache-2.0
-- Who wants to be told of a job's states, and what was or is to be told. A delivery is written in the transaction that
-- changes the state, so that neither is there without the other; servers share the sending by leases.

CREATE TABLE webhooks (
    job_id      uuid PRIMARY KEY REFERENCES jobs ON DELETE CASCADE,
    url         text NOT NULL,
    secret      text NOT NULL,
    disabled_at timestamptz
);
COMMENT ON TABLE webhooks IS 'Receivers of jobs'' state changes, one a job';
COMMENT ON COLUMN webhooks.secret IS 'whsec_ and base64: the key that deliveries are signed with';
COMMENT ON COLUMN webhooks.disabled_at IS 'Since when the receiver wants no more: it answered 410';

CREATE TABLE webhook_deliveries (
    id          uuid PRIMARY KEY,
    job_id      uuid NOT NULL REFERENCES webhooks ON DELETE CASCADE,
    event       bigint NOT NULL,
    payload     text NOT NULL,
    state       text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'delivered', 'failed', 'cancelled')),
    attempts    integer NOT NULL DEFAULT 0,
    next_at     timestamptz DEFAULT now(),
    token       uuid,
    last_at     timestamptz,
    last_status integer,
    last_error  text,
    created_at  timestamptz NOT NULL DEFAULT now(),
    finished_at timestamptz,
    UNIQUE (job_id, event),
    CHECK ((state = 'pending') = (next_at IS NOT NULL))
) WITH (fillfactor = 70);
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (next_at) WHERE state = 'pending';
CREATE INDEX webhook_deliveries_old ON webhook_deliveries (finished_at) WHERE finished_at IS NOT NULL;
COMMENT ON TABLE webhook_deliveries IS 'What a job''s receiver is told, a row for each change of state';
COMMENT ON COLUMN webhook_deliveries.id IS 'Sent as webhook-id, the same at each attempt';
COMMENT ON COLUMN webhook_deliveries.event IS 'Number of the state event in the job''s events';
COMMENT ON COLUMN webhook_deliveries.payload IS 'The body as it is signed and sent';
COMMENT ON COLUMN webhook_deliveries.state IS 'cancelled: the receiver wants no more';
COMMENT ON COLUMN webhook_deliveries.attempts IS 'Begun so far, the one under way included';
COMMENT ON COLUMN webhook_deliveries.next_at IS 'From when it may be sent: with a token, that is the end of the lease';
COMMENT ON COLUMN webhook_deliveries.token IS 'Of the server that is sending it';
COMMENT ON COLUMN webhook_deliveries.last_status IS 'HTTP status of the last attempt; null: no answer came';

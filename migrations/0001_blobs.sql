-- SPDX-License-Identifier: Apache-2.0
-- Bytes by their hash. Rows of 1 MB that are not compressed: as one value a file of 400 MB costs 1.5 GB in the backend,
-- in such rows 151 MB and half the time. Chunks belong to a content id, not to the hash, because the hash is known
-- only when the last byte has come; the blob's row, made last, is what makes them visible.

CREATE TABLE blobs (
    sha256     text PRIMARY KEY CHECK (sha256 ~ '^[0-9a-f]{64}$'),
    content    uuid NOT NULL UNIQUE,
    bytes      bigint NOT NULL CHECK (bytes >= 0),
    created_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE blobs IS 'Stored files, whole';
COMMENT ON COLUMN blobs.content IS 'Whose rows of blob_chunks are the bytes';

CREATE TABLE blob_chunks (
    content uuid NOT NULL,
    number  integer NOT NULL CHECK (number >= 0),
    data    bytea NOT NULL,
    PRIMARY KEY (content, number)
);
ALTER TABLE blob_chunks ALTER COLUMN data SET STORAGE EXTERNAL;
COMMENT ON TABLE blob_chunks IS 'Bytes of blobs and of uploads under way: 1 MB each but for the last';
COMMENT ON COLUMN blob_chunks.number IS 'From 0, in order';

CREATE TABLE blob_uploads (
    content    uuid PRIMARY KEY,
    touched_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE blob_uploads IS 'Uploads under way; one not touched for long was abandoned and is swept away';

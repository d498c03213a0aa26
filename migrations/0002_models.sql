-- SPDX-License-Identifier: Apache-2.0
-- Uploaded networks. The foreign key keeps a blob from being deleted under a model, and a model from naming none.

CREATE TABLE models (
    id         uuid PRIMARY KEY,
    sha256     text NOT NULL UNIQUE REFERENCES blobs,
    name       text NOT NULL,
    bytes      bigint NOT NULL,
    summary    json NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE models IS 'ONNX files, each known by the hash of its bytes';
COMMENT ON COLUMN models.id IS 'Version 7: sorts by age';
COMMENT ON COLUMN models.summary IS 'Inputs, outputs, operators, tasks: as found at upload';

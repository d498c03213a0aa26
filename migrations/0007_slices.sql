-- SPDX-License-Identifier: Apache-2.0
-- Searches in slices: after each the task's item says what more trials may save, and the one that promises most is
-- claimed next. The order's index leaves the promise out, so that storing one stays an update within the page; a job's
-- few items are sorted by it as they are claimed.

ALTER TABLE queue ADD COLUMN promise double precision;
COMMENT ON COLUMN queue.promise IS 'Seconds of the network that more trials may save; null: not begun, so it comes first';
DROP INDEX queue_order;
CREATE INDEX queue_order ON queue (priority DESC, job_id);

ALTER TABLE tasks ADD COLUMN floor_s double precision, ADD COLUMN search_s double precision NOT NULL DEFAULT 0;
COMMENT ON COLUMN tasks.floor_s IS 'Seconds below which no kernel can be on the device; null: not known';
COMMENT ON COLUMN tasks.search_s IS 'Seconds that workers have spent on its search: slices of other tasks lie between its own';

-- A budget counts the time in which a job could be worked on.
ALTER TABLE jobs ADD COLUMN idle_since timestamptz, ADD COLUMN idle_s double precision NOT NULL DEFAULT 0;
COMMENT ON COLUMN jobs.idle_since IS 'Since when it is paused or has ended; null while it waits or runs';
COMMENT ON COLUMN jobs.idle_s IS 'Seconds after its start in which it was paused, or had ended before a retry';

-- A search asks for the latest jobs of its class of devices, to learn from their trials.
CREATE INDEX jobs_by_device ON jobs (device_key, id);

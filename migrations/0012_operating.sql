-- SPDX-License-Identifier: Apache-2.0
-- What operating needs: ended jobs in the order of their end, for retention to walk along, and who names a job, so that
-- it is kept. A worker's heartbeat brings what each of its devices has done, for any server's /metrics.

CREATE INDEX jobs_by_end ON jobs (finished_at, id) WHERE finished_at IS NOT NULL;
CREATE INDEX configs_by_job ON configs (job_id) WHERE job_id IS NOT NULL;
CREATE INDEX golden_by_job ON golden (job_id);

ALTER TABLE devices ADD COLUMN counters json;
COMMENT ON COLUMN devices.counters IS 'What its worker has done on it since it started: trials by error number, seconds at work';

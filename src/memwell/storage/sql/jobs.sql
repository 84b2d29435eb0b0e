-- The queue of jobs.

-- name: add_job
-- Add a job.
INSERT INTO job (tenant, id, kind, slot, state, payload, attempts, max_attempts, run_at, fence, created_at, address_id)
VALUES (:tenant, :id, :kind, :slot, 'ready', :payload, 0, :max_attempts, :run_at, 0, :now, :address_id);

-- name: find_slot
-- The unfinished job of a slot. A slot has at most one.
SELECT id, run_at, state FROM job WHERE tenant = :tenant AND slot = :slot;

-- name: hasten_job
-- Move a waiting job to an earlier time.
UPDATE job SET run_at = :run_at WHERE tenant = :tenant AND id = :id AND run_at > :run_at AND state = 'ready';

-- name: ask_job_again
-- Make a running job run once more, because a request may have come too late for its current run.
UPDATE job SET run_at = :run_at, result = NULL WHERE tenant = :tenant AND id = :id AND state = 'running';

-- name: job_asked_again
-- The time at which a running job is to run once more, if that was requested after it was claimed.
SELECT run_at FROM job WHERE tenant = :tenant AND id = :id AND fence = :fence AND run_at <> :claimed AND slot IS NOT NULL;

-- name: find_job
-- A job by its id.
SELECT id, kind, state, payload, attempts, max_attempts, run_at, lease_until, fence, worker, error, result, created_at,
  finished_at, address_id
FROM job WHERE tenant = :tenant AND id = :id;

-- name: set_payload
-- Change the payload of a job.
UPDATE job SET payload = :payload WHERE tenant = :tenant AND id = :id;

-- name: list_jobs
-- Jobs, the newest first.
SELECT id, kind, state, payload, attempts, max_attempts, run_at, lease_until, fence, worker, error, result, created_at,
  finished_at, address_id
FROM job
WHERE tenant = :tenant AND id < :before
  AND (CAST(:state AS TEXT) IS NULL OR state = :state) AND (CAST(:kind AS TEXT) IS NULL OR kind = :kind)
ORDER BY id DESC
LIMIT :limit;

-- name: job_backlog
-- The number of jobs by kind and state, and the time since which the oldest has been due.
SELECT kind, state, COUNT(*), MIN(run_at) FROM job WHERE tenant = :tenant GROUP BY kind, state ORDER BY kind, state;

-- name: claim_job
-- Claim a job that is due, or whose worker has stopped. Only one worker succeeds; the fence rises each time.
UPDATE job SET state = 'running', attempts = attempts + 1, fence = fence + 1, lease_until = :lease_until, worker = :worker
WHERE tenant = :tenant AND id = :id
  AND ((state = 'ready' AND run_at <= :now) OR (state = 'running' AND lease_until <= :now))
RETURNING id, kind, state, payload, attempts, max_attempts, run_at, lease_until, fence, worker, error, result, created_at,
  finished_at, address_id;

-- name: far_jobs
-- A row if a job waits for an implausibly late time: it was added by a clock that has been set back since.
SELECT 1 FROM job
WHERE tenant = :tenant AND state = 'ready' AND run_at > CASE WHEN slot IS NULL THEN CAST(:far_soon AS BIGINT) ELSE CAST(:far AS BIGINT) END
UNION ALL SELECT 1 FROM job WHERE tenant = :tenant AND state = 'running' AND lease_until > :far_soon
LIMIT 1;

-- name: bring_back_jobs
-- Make jobs with an implausibly late time due now. If a worker is still running one, it renews its lease.
UPDATE job SET run_at = CASE WHEN state = 'ready' THEN :now ELSE run_at END,
  lease_until = CASE WHEN state = 'running' THEN :lease_until ELSE lease_until END
WHERE tenant = :tenant
  AND ((state = 'ready' AND run_at > CASE WHEN slot IS NULL THEN CAST(:far_soon AS BIGINT) ELSE CAST(:far AS BIGINT) END)
    OR (state = 'running' AND lease_until > :far_soon));

-- name: beat_job
-- Keep a lease alive.
UPDATE job SET lease_until = :lease_until WHERE tenant = :tenant AND id = :id AND fence = :fence AND state = 'running';

-- name: hold_job
-- A row if a worker still has its job. Every write of a job checks this in its own transaction.
SELECT 1 FROM job WHERE tenant = :tenant AND id = :id AND fence = :fence AND state = 'running';

-- name: note_job
-- Store the progress of a running job.
UPDATE job SET result = :result WHERE tenant = :tenant AND id = :id AND fence = :fence AND state = 'running';

-- name: finish_job
-- Set the outcome of a running job: done, dead, cancelled, or ready to be tried again.
UPDATE job SET state = :state, run_at = :run_at, error = :error, finished_at = :finished_at,
  result = CASE WHEN CAST(:result AS TEXT) IS NULL THEN result ELSE :result END,
  slot = CASE WHEN :state = 'ready' THEN slot ELSE NULL END, lease_until = NULL, worker = NULL
WHERE tenant = :tenant AND id = :id AND fence = :fence AND state = 'running';

-- name: repeat_job
-- Put a running job back into the queue, with no attempts counted.
UPDATE job SET state = 'ready', run_at = :run_at, attempts = 0, error = NULL, result = NULL, lease_until = NULL, worker = NULL
WHERE tenant = :tenant AND id = :id AND fence = :fence AND state = 'running';

-- name: retry_job
-- Put a dead or cancelled job back into the queue.
UPDATE job SET state = 'ready', run_at = :now, attempts = 0, error = NULL, finished_at = NULL
WHERE tenant = :tenant AND id = :id AND state IN ('dead', 'cancelled');

-- name: cancel_job
-- Cancel a waiting job.
UPDATE job SET state = 'cancelled', slot = NULL, finished_at = :now
WHERE tenant = :tenant AND id = :id AND state = 'ready';

-- name: due_jobs
-- Jobs of these kinds that are due or whose worker has stopped, the longest waiting first.
-- engine: sqlite
SELECT id FROM job
WHERE tenant = :tenant AND state = 'ready' AND run_at <= :now AND kind IN TEXTS(:kinds)
UNION ALL
SELECT id FROM job
WHERE tenant = :tenant AND state = 'running' AND lease_until <= :now AND kind IN TEXTS(:kinds)
LIMIT :limit;
-- engine: postgres
SELECT found.id FROM (
  SELECT id, state, run_at FROM job
  WHERE tenant = :tenant AND state = 'ready' AND run_at <= :now
    AND kind IN TEXTS(:kinds)
  UNION ALL
  SELECT id, state, run_at FROM job
  WHERE tenant = :tenant AND state = 'running' AND lease_until <= :now
    AND kind IN TEXTS(:kinds)
) AS found
ORDER BY found.state, found.run_at
LIMIT :limit;

-- name: next_due
-- The time at which the next job of these kinds is due.
SELECT MIN(CASE WHEN state = 'ready' THEN run_at ELSE lease_until END) FROM job
WHERE tenant = :tenant AND state IN ('ready', 'running') AND kind IN TEXTS(:kinds);

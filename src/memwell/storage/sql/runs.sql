-- Runs of workflows and their steps.

-- name: add_run
-- Add a run.
INSERT INTO run (tenant, id, workflow_id, workflow_version, name, state, asked, started_at, lease_until)
VALUES (:tenant, :id, :workflow_id, :workflow_version, :name, 'running', :asked, :now, :lease_until);

-- name: begin_again
-- Restart a run that is not running, and whose process has stopped if it was cancelled.
UPDATE run SET state = 'running', output = NULL, error = NULL, ended_at = NULL, lease_until = :lease_until
WHERE tenant = :tenant AND id = :id AND asked <> '{"erased": true}'
  AND (state NOT IN ('running', 'cancelled') OR lease_until IS NULL OR lease_until < :now);

-- name: find_run
-- A run by its id.
SELECT id, workflow_id, workflow_version, name, state, asked, output, error, started_at, ended_at, lease_until
FROM run WHERE tenant = :tenant AND id = :id;

-- name: run_state
-- The state of a run.
SELECT state FROM run WHERE tenant = :tenant AND id = :id;

-- name: run_is_over
-- 1 if a run has ended, else 0.
SELECT CASE WHEN state IN ('done', 'failed', 'cancelled') THEN 1 ELSE 0 END FROM run WHERE tenant = :tenant AND id = :id;

-- name: list_runs
-- Runs, the newest first.
SELECT id, workflow_id, workflow_version, name, state, asked, output, error, started_at, ended_at, lease_until
FROM run WHERE tenant = :tenant AND id < :before
ORDER BY id DESC
LIMIT :limit;

-- name: list_runs_of
-- The runs of a workflow, the newest first.
SELECT id, workflow_id, workflow_version, name, state, asked, output, error, started_at, ended_at, lease_until
FROM run WHERE tenant = :tenant AND workflow_id = :workflow_id AND id < :before
ORDER BY id DESC
LIMIT :limit;

-- name: beat_run
-- Extend the lease of a run that its process is still working on.
UPDATE run SET lease_until = :lease_until
WHERE tenant = :tenant AND id = :id AND state IN ('running', 'cancelled') AND lease_until IS NOT NULL;

-- name: end_run
-- Store the outcome of a run.
UPDATE run SET state = :state, output = :output, error = :error, ended_at = :now, lease_until = NULL
WHERE tenant = :tenant AND id = :id AND state <> 'cancelled';

-- name: cancel_run
-- Cancel a run that is running. Its lease remains until its process has stopped.
UPDATE run SET state = 'cancelled', error = :error, ended_at = :now
WHERE tenant = :tenant AND id = :id AND state = 'running';

-- name: release_run
-- End the lease of a cancelled run, whose process has stopped.
UPDATE run SET lease_until = NULL WHERE tenant = :tenant AND id = :id AND state = 'cancelled';

-- name: keep_run_step
-- Store a step of a run.
INSERT INTO run_step (tenant, run_id, number, body) VALUES (:tenant, :run_id, :number, :body)
ON CONFLICT (tenant, run_id, number) DO UPDATE SET body = excluded.body;

-- name: run_steps
-- The steps of a run, in order.
SELECT number, body FROM run_step WHERE tenant = :tenant AND run_id = :run_id ORDER BY number;

-- name: touch_run
-- Note that a run has read an address.
INSERT INTO run_touch (tenant, address_id, run_id) VALUES (:tenant, :address_id, :run_id)
ON CONFLICT (tenant, address_id, run_id) DO NOTHING;

-- name: copy_run_touches
-- Note that a run depends on all addresses that another has read.
INSERT INTO run_touch (tenant, address_id, run_id)
SELECT :tenant, address_id, :new_id FROM run_touch WHERE tenant = :tenant AND run_id = :run_id
ON CONFLICT (tenant, address_id, run_id) DO NOTHING;

-- name: runs_of_address
-- The runs that have read an address.
SELECT run_id FROM run_touch WHERE tenant = :tenant AND address_id = :address_id;

-- name: workflows_of_address
-- The workflows whose runs have read an address; null for documents that are not stored.
SELECT DISTINCT r.workflow_id FROM run_touch t
JOIN run r ON r.tenant = t.tenant AND r.id = t.run_id
WHERE t.tenant = :tenant AND r.tenant = :tenant AND t.address_id = :address_id;

-- name: run_under_way_at
-- A run that has read an address and is under way.
SELECT r.id FROM run_touch t
JOIN run r ON r.tenant = t.tenant AND r.id = t.run_id
WHERE t.tenant = :tenant AND r.tenant = :tenant AND t.address_id = :address_id AND r.state = 'running' AND r.lease_until >= :now
LIMIT 1;

-- name: runs_that_outlive
-- The runs between two ids that have read an address that has expired and is not deleted yet.
SELECT DISTINCT t.run_id FROM address a
JOIN run_touch t ON t.tenant = a.tenant AND t.address_id = a.id
WHERE a.tenant = :tenant AND t.tenant = :tenant AND a.expires_at <= :now AND t.run_id >= :first AND t.run_id <= :last;

-- name: delete_run_steps
-- Delete the steps of a run.
DELETE FROM run_step WHERE tenant = :tenant AND run_id = :run_id;

-- name: delete_run_touches
-- Delete the list of addresses that a run has read.
DELETE FROM run_touch WHERE tenant = :tenant AND run_id = :run_id;

-- name: delete_run
-- Delete a run.
DELETE FROM run WHERE tenant = :tenant AND id = :id;

-- Queries that SQLite words in its own way. Each has a counterpart of the same name for every other engine.

-- name: add_event
-- Record a write. One writer at a time holds the file, so the next number is simply the highest plus one.
INSERT INTO event (tenant, seq, at, operation, collection_id, address_id, entries, actor)
SELECT :tenant, COALESCE(MAX(seq), 0) + 1, :at, :operation, :collection_id, :address_id, :entries, :actor
FROM event WHERE tenant = :tenant;

-- name: due_jobs
-- Jobs of known kinds that are due or were abandoned, the longest waiting first.
SELECT id FROM job
WHERE tenant = :tenant AND state = 'ready' AND run_at <= :now AND kind IN (SELECT value FROM json_each(:kinds))
UNION ALL
SELECT id FROM job
WHERE tenant = :tenant AND state = 'running' AND lease_until <= :now AND kind IN (SELECT value FROM json_each(:kinds))
LIMIT :limit;

-- name: next_due
-- When the next job of a known kind is due.
SELECT MIN(CASE WHEN state = 'ready' THEN run_at ELSE lease_until END) FROM job
WHERE tenant = :tenant AND state IN ('ready', 'running') AND kind IN (SELECT value FROM json_each(:kinds));

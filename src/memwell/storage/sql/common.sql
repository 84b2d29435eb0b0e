-- Queries that every engine runs as they stand. :tenant is bound by the transaction, never by a caller.
-- An optional parameter is written CAST(:x AS BIGINT) IS NULL, which PostgreSQL can type.

-- name: find_collection
-- A collection by what its dialect calls it.
SELECT id, policy FROM collection
WHERE tenant = :tenant AND dialect = :dialect AND name = :name AND kind = :kind;

-- name: add_collection
-- Make a collection unless another writer just did.
INSERT INTO collection (tenant, id, dialect, name, kind, sealed, policy, created_at)
VALUES (:tenant, :id, :dialect, :name, :kind, :sealed, :policy, :now)
ON CONFLICT (tenant, dialect, name, kind) DO NOTHING;

-- name: set_policy
-- Change the policy of a collection.
UPDATE collection SET policy = :policy WHERE tenant = :tenant AND id = :id;

-- name: delete_collection
-- Remove an emptied collection.
DELETE FROM collection WHERE tenant = :tenant AND id = :id;

-- name: list_collections
-- What a dialect holds, by name: how many live addresses, and when one was last used.
SELECT c.name, COUNT(DISTINCT CASE WHEN c.kind = 'timeline' THEN a.id END) AS sessions, MAX(a.last_seen_at) AS last_seen_at
FROM collection c
JOIN address a ON a.tenant = c.tenant AND a.collection_id = c.id
WHERE c.tenant = :tenant AND a.tenant = :tenant AND c.dialect = :dialect AND c.name > :after
  AND (a.expires_at IS NULL OR a.expires_at > :now)
GROUP BY c.name
ORDER BY c.name
LIMIT :limit;

-- name: find_address
-- An address by the names of its collection and its path, while it lives.
SELECT a.id, a.collection_id, a.path, a.last_seq, a.created_at, a.last_seen_at, a.ended_at, a.ended_seq, a.expires_at, a.metadata,
  a.distilled_seq
FROM collection c
JOIN address a ON a.tenant = c.tenant AND a.collection_id = c.id AND a.path = :path
WHERE c.tenant = :tenant AND a.tenant = :tenant AND c.dialect = :dialect AND c.name = :name AND c.kind = :kind
  AND (a.expires_at IS NULL OR a.expires_at > :now);

-- name: touch_address
-- Take the next :count sequence numbers of an address, making it if it is new and opening it again if it was ended.
INSERT INTO address (tenant, id, collection_id, path, last_seq, created_at, last_seen_at, ended_seq, expires_at, metadata)
VALUES (:tenant, :id, :collection_id, :path, :count, :now, :now, 0, :expires_at, NULL)
ON CONFLICT (tenant, collection_id, path) DO UPDATE SET
  last_seq = address.last_seq + excluded.last_seq,
  created_at = CASE WHEN address.expires_at <= excluded.created_at THEN excluded.created_at ELSE address.created_at END,
  last_seen_at = CASE WHEN address.last_seen_at > excluded.last_seen_at
    THEN address.last_seen_at ELSE excluded.last_seen_at END,
  ended_at = CASE WHEN excluded.last_seq > 0 THEN NULL ELSE address.ended_at END,
  expires_at = CASE WHEN address.expires_at IS NULL OR excluded.expires_at IS NULL THEN NULL
    WHEN address.expires_at > excluded.expires_at THEN address.expires_at ELSE excluded.expires_at END
RETURNING id, last_seq, last_seen_at;

-- name: end_address
-- Mark a session as ended, up to its present last entry.
UPDATE address SET ended_at = :now, ended_seq = last_seq WHERE tenant = :tenant AND id = :id;

-- name: latest_address
-- The session that was begun last, for grouping by idle time.
SELECT a.path, a.last_seen_at, a.ended_at FROM address a
WHERE a.tenant = :tenant AND a.collection_id = :collection_id AND a.path >= :low AND a.path < :high
  AND (a.expires_at IS NULL OR a.expires_at > :now)
ORDER BY a.path DESC
LIMIT 1;

-- name: list_addresses
-- The sessions of a collection, the newest first, with how many entries each holds.
SELECT a.path, a.created_at, a.last_seen_at, a.ended_at, a.id,
  (SELECT COUNT(*) FROM entry e WHERE e.tenant = :tenant AND e.address_id = a.id AND e.retired_at IS NULL
     AND (e.expires_at IS NULL OR e.expires_at > :now)) AS entries
FROM collection c
JOIN address a ON a.tenant = c.tenant AND a.collection_id = c.id
WHERE c.tenant = :tenant AND a.tenant = :tenant AND c.dialect = :dialect AND c.name = :name AND c.kind = :kind
  AND (a.created_at < :before OR (a.created_at = :before AND a.id < :before_id))
  AND (a.expires_at IS NULL OR a.expires_at > :now)
  AND (:ended = 1 OR a.ended_at IS NULL)
ORDER BY a.created_at DESC, a.id DESC
LIMIT :limit;

-- name: address_from
-- The first live address of a named collection whose path is at least :path.
SELECT a.id, a.path, a.created_at, a.ended_at, a.distilled_seq
FROM collection c
JOIN address a ON a.tenant = c.tenant AND a.collection_id = c.id
WHERE c.tenant = :tenant AND a.tenant = :tenant AND c.dialect = :dialect AND c.name = :name AND c.kind = :kind
  AND a.path >= :path AND (a.expires_at IS NULL OR a.expires_at > :now)
ORDER BY a.path
LIMIT 1;

-- name: names_of_session
-- In which collections of a dialect a session id occurs.
SELECT DISTINCT c.name FROM address a
JOIN collection c ON c.tenant = a.tenant AND c.id = a.collection_id
WHERE a.tenant = :tenant AND c.tenant = :tenant AND a.path = :path AND c.dialect = :dialect
  AND (a.expires_at IS NULL OR a.expires_at > :now)
ORDER BY c.name;

-- name: last_entries
-- The newest entries of an address, the newest first.
SELECT id, version, seq, kind, role, name, content, metadata, tool, origin, importance, confidence, occurred_at, recorded_at,
  COALESCE(created_at, recorded_at)
FROM entry
WHERE tenant = :tenant AND address_id = :address_id AND seq < :before
  AND retired_at IS NULL AND (expires_at IS NULL OR expires_at > :now)
ORDER BY seq DESC
LIMIT :limit;

-- name: next_entries
-- The entries of an address after a sequence number, the oldest first.
SELECT id, version, seq, kind, role, name, content, metadata, tool, origin, importance, confidence, occurred_at, recorded_at,
  COALESCE(created_at, recorded_at)
FROM entry
WHERE tenant = :tenant AND address_id = :address_id AND seq > :after
  AND retired_at IS NULL AND (expires_at IS NULL OR expires_at > :now)
  /*filter*/
ORDER BY seq
LIMIT :limit;

-- name: next_of_kind
-- The entries of one kind of an address after a sequence number, the oldest first.
SELECT id, version, seq, kind, role, name, content, metadata, tool, origin, importance, confidence, occurred_at, recorded_at,
  COALESCE(created_at, recorded_at)
FROM entry
WHERE tenant = :tenant AND address_id = :address_id AND seq > :after AND kind = :kind
  AND retired_at IS NULL AND (expires_at IS NULL OR expires_at > :now)
  /*filter*/
ORDER BY seq
LIMIT :limit;

-- name: next_shown
-- The entries of an address after a sequence number, the oldest first; how many each is a summary of, and behind which it is.
SELECT id, version, seq, kind, role, name, content, metadata, tool, origin, importance, confidence, occurred_at, recorded_at,
  COALESCE(created_at, recorded_at),
  (SELECT s.entries FROM summary s WHERE s.tenant = :tenant AND s.docid = entry.docid),
  CAST(NULL AS TEXT)
FROM entry
WHERE tenant = :tenant AND address_id = :address_id AND seq > :after
  AND retired_at IS NULL AND (expires_at IS NULL OR expires_at > :now)
  /*filter*/
ORDER BY seq
LIMIT :limit;

-- name: next_of_all
-- The same, with the entries that are behind summaries.
SELECT id, version, seq, kind, role, name, content, metadata, tool, origin, importance, confidence, occurred_at, recorded_at,
  COALESCE(created_at, recorded_at),
  (SELECT s.entries FROM summary s WHERE s.tenant = :tenant AND s.docid = entry.docid),
  (SELECT f.summary_id FROM folded f WHERE f.tenant = :tenant AND f.docid = entry.docid)
FROM entry
WHERE tenant = :tenant AND address_id = :address_id AND seq > :after
  AND (retired_at IS NULL OR docid IN (SELECT f.docid FROM folded f WHERE f.tenant = :tenant AND f.address_id = :address_id))
  AND (expires_at IS NULL OR expires_at > :now)
  /*filter*/
ORDER BY seq
LIMIT :limit;

-- name: count_entries
-- How many live entries an address holds.
SELECT COUNT(*) FROM entry
WHERE tenant = :tenant AND address_id = :address_id
  AND retired_at IS NULL AND (expires_at IS NULL OR expires_at > :now);

-- name: recent_addresses
-- The addresses of a named collection, the one used last first.
SELECT a.id, a.path, a.last_seen_at
FROM collection c
JOIN address a ON a.tenant = c.tenant AND a.collection_id = c.id
WHERE c.tenant = :tenant AND a.tenant = :tenant AND c.dialect = :dialect AND c.name = :name AND c.kind = :kind
  AND (a.expires_at IS NULL OR a.expires_at > :now)
ORDER BY a.last_seen_at DESC, a.id DESC;

-- name: last_entries_before
-- The newest entries of an address before a position in its collection, the newest first.
SELECT id, version, seq, kind, role, name, content, metadata, tool, origin, importance, confidence, occurred_at, recorded_at,
  COALESCE(created_at, recorded_at)
FROM entry
WHERE tenant = :tenant AND address_id = :address_id
  AND (recorded_at < :before OR (recorded_at = :before
    AND (address_id < :before_address OR (address_id = :before_address AND seq < :before_seq))))
  AND retired_at IS NULL AND (expires_at IS NULL OR expires_at > :now)
ORDER BY seq DESC
LIMIT :limit;

-- name: find_entry
-- The current version of one entry of a named collection, with its path.
SELECT e.id, e.version, e.seq, e.kind, e.role, e.name, e.content, e.metadata, e.tool, e.origin, e.importance, e.confidence,
  e.occurred_at, e.recorded_at, COALESCE(e.created_at, e.recorded_at), a.path, a.id
FROM entry e
JOIN address a ON a.tenant = e.tenant AND a.id = e.address_id
JOIN collection c ON c.tenant = a.tenant AND c.id = a.collection_id
WHERE e.tenant = :tenant AND a.tenant = :tenant AND c.tenant = :tenant AND e.id = :id
  AND c.dialect = :dialect AND c.name = :name AND c.kind = :kind
  AND e.retired_at IS NULL AND (e.expires_at IS NULL OR e.expires_at > :now);

-- name: entry_exists
-- Where an id is already used, whatever became of the entry.
SELECT address_id FROM entry WHERE tenant = :tenant AND id = :id LIMIT 1;

-- name: retire_entry
-- Close the current version of an entry, if it is still the expected one.
UPDATE entry SET retired_at = :now
WHERE tenant = :tenant AND id = :id AND version = :version AND retired_at IS NULL
RETURNING docid;

-- name: delete_version
-- Remove one version of one entry.
DELETE FROM entry WHERE tenant = :tenant AND id = :id AND version = :version;

-- name: delete_entry
-- Remove every version of one entry.
DELETE FROM entry WHERE tenant = :tenant AND id = :id;

-- name: addresses_of_path
-- Every address of a dialect's named collections with this path.
SELECT a.id, a.collection_id, c.kind FROM collection c
JOIN address a ON a.tenant = c.tenant AND a.collection_id = c.id
WHERE c.tenant = :tenant AND a.tenant = :tenant AND c.dialect = :dialect AND c.name = :name AND a.path = :path;

-- name: addresses_of_name
-- Every address of a dialect's named collections.
SELECT a.id, a.collection_id, c.kind FROM collection c
JOIN address a ON a.tenant = c.tenant AND a.collection_id = c.id
WHERE c.tenant = :tenant AND a.tenant = :tenant AND c.dialect = :dialect AND c.name = :name;

-- name: collections_of_name
-- The ids of a dialect's collections of one name.
SELECT id FROM collection WHERE tenant = :tenant AND dialect = :dialect AND name = :name;

-- name: first_seq
-- The lowest sequence number that an address still holds.
SELECT MIN(seq) FROM entry WHERE tenant = :tenant AND address_id = :address_id;

-- name: delete_entries_to
-- Remove the entries of an address up to a sequence number.
DELETE FROM entry WHERE tenant = :tenant AND address_id = :address_id AND seq <= :seq;

-- name: delete_address
-- Remove an address without entries.
DELETE FROM address WHERE tenant = :tenant AND id = :id;

-- name: sample_contents
-- Some of the longer contents of an address, to look for their traces after erasure.
SELECT content FROM entry
WHERE tenant = :tenant AND address_id = :address_id AND LENGTH(content) >= 24
ORDER BY seq DESC
LIMIT :limit;

-- name: sample_values
-- Some of what was written to a record, for the same purpose.
SELECT data FROM record_version
WHERE tenant = :tenant AND address_id = :address_id AND LENGTH(data) >= 24
ORDER BY version DESC
LIMIT :limit;

-- name: value_lives
-- Whether a piece of text stands in any record of the tenant.
SELECT 1 FROM record_version WHERE tenant = :tenant AND data LIKE :pattern ESCAPE '!' LIMIT 1;

-- name: document_lives
-- Whether a piece of text stands in what somebody has defined.
SELECT 1 FROM document WHERE tenant = :tenant AND body LIKE :pattern ESCAPE '!' LIMIT 1;

-- name: run_lives
-- Whether a piece of text is the id of a run.
SELECT 1 FROM run WHERE tenant = :tenant AND id LIKE :pattern ESCAPE '!' LIMIT 1;

-- name: content_lives
-- Whether a piece of text stands in any entry of the tenant.
SELECT 1 FROM entry WHERE tenant = :tenant AND content LIKE :pattern ESCAPE '!' LIMIT 1;

-- name: next_expiry
-- When the next entry expires.
SELECT MIN(expires_at) FROM entry WHERE tenant = :tenant AND expires_at IS NOT NULL;

-- name: next_address_expiry
-- When the next address with all that is there expires, such as a record.
SELECT MIN(expires_at) FROM address WHERE tenant = :tenant AND expires_at > :now;

-- name: expiry_after
-- The expiry time of the entry that stands :skip places from the first that has expired.
SELECT expires_at FROM entry
WHERE tenant = :tenant AND expires_at <= :now
ORDER BY expires_at
LIMIT 1 OFFSET :skip;

-- name: delete_expired_entries
-- Remove what expired up to a moment.
DELETE FROM entry WHERE tenant = :tenant AND expires_at <= :until;

-- name: expired_addresses
-- Addresses whose last entry has expired.
SELECT a.id FROM address a
WHERE a.tenant = :tenant AND a.expires_at <= :now
  AND NOT EXISTS (SELECT 1 FROM entry e WHERE e.tenant = :tenant AND e.address_id = a.id)
LIMIT :limit;

-- name: find_idempotency
-- What a request with this key did before.
SELECT request_hash, response FROM idempotency WHERE tenant = :tenant AND key_hash = :key_hash AND expires_at > :now;

-- name: add_idempotency
-- Remember a request's answer; an expired record of the same key gives way.
INSERT INTO idempotency (tenant, key_hash, request_hash, response, expires_at)
VALUES (:tenant, :key_hash, :request_hash, :response, :expires_at)
ON CONFLICT (tenant, key_hash) DO UPDATE SET
  request_hash = excluded.request_hash, response = excluded.response, expires_at = excluded.expires_at;

-- name: add_idempotency_touch
-- Remember which address an answer speaks of, and which entry if it is one, so that it can be erased with it.
INSERT INTO idempotency_touch (tenant, address_id, entry_id, key_hash)
VALUES (:tenant, :address_id, :entry_id, :key_hash)
ON CONFLICT (tenant, address_id, key_hash) DO NOTHING;

-- name: erase_idempotency_of_entry
-- Empty the stored answers that speak of one entry.
UPDATE idempotency SET request_hash = NULL, response = NULL
WHERE tenant = :tenant AND response IS NOT NULL AND key_hash IN (
  SELECT key_hash FROM idempotency_touch
  WHERE tenant = :tenant AND address_id = :address_id AND entry_id IN (:entry_id, ''));

-- name: delete_old_idempotency
-- Remove answers that are older than their keep.
DELETE FROM idempotency WHERE tenant = :tenant AND expires_at <= :now;

-- name: add_job
-- Put work in line.
INSERT INTO job (tenant, id, kind, slot, state, payload, attempts, max_attempts, run_at, fence, created_at, address_id)
VALUES (:tenant, :id, :kind, :slot, 'ready', :payload, 0, :max_attempts, :run_at, 0, :now, :address_id);

-- name: find_slot
-- The unfinished job in a slot that only one may hold.
SELECT id, run_at, state FROM job WHERE tenant = :tenant AND slot = :slot;

-- name: hasten_job
-- Run a waiting job earlier.
UPDATE job SET run_at = :run_at WHERE tenant = :tenant AND id = :id AND run_at > :run_at AND state = 'ready';

-- name: ask_job_again
-- Have a running job run once more: what it was asked for may have come too late for it.
UPDATE job SET run_at = :run_at, result = NULL WHERE tenant = :tenant AND id = :id AND state = 'running';

-- name: job_asked_again
-- When a running job is to run once more, if it was asked to since it was claimed.
SELECT run_at FROM job WHERE tenant = :tenant AND id = :id AND fence = :fence AND run_at <> :claimed AND slot IS NOT NULL;

-- name: find_job
-- One job.
SELECT id, kind, state, payload, attempts, max_attempts, run_at, lease_until, fence, worker, error, result, created_at,
  finished_at, address_id
FROM job WHERE tenant = :tenant AND id = :id;

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
-- How much work there is, by kind and state, and since when the oldest has been due.
SELECT kind, state, COUNT(*), MIN(run_at) FROM job WHERE tenant = :tenant GROUP BY kind, state ORDER BY kind, state;

-- name: claim_job
-- Take a job that is due, or whose worker fell silent. Only one worker can; the fence rises each time.
UPDATE job SET state = 'running', attempts = attempts + 1, fence = fence + 1, lease_until = :lease_until, worker = :worker
WHERE tenant = :tenant AND id = :id
  AND ((state = 'ready' AND run_at <= :now) OR (state = 'running' AND lease_until <= :now))
RETURNING id, kind, state, payload, attempts, max_attempts, run_at, lease_until, fence, worker, error, result, created_at,
  finished_at, address_id;

-- name: far_jobs
-- Whether something waits for a moment that no job waits for: it was put in line by a clock that has been set back since.
SELECT 1 FROM job
WHERE tenant = :tenant AND state = 'ready' AND run_at > CASE WHEN slot IS NULL THEN CAST(:far_soon AS BIGINT) ELSE CAST(:far AS BIGINT) END
UNION ALL SELECT 1 FROM job WHERE tenant = :tenant AND state = 'running' AND lease_until > :far_soon
LIMIT 1;

-- name: bring_back_jobs
-- Have that done now; whoever still works at it renews the lease.
UPDATE job SET run_at = CASE WHEN state = 'ready' THEN :now ELSE run_at END,
  lease_until = CASE WHEN state = 'running' THEN :lease_until ELSE lease_until END
WHERE tenant = :tenant
  AND ((state = 'ready' AND run_at > CASE WHEN slot IS NULL THEN CAST(:far_soon AS BIGINT) ELSE CAST(:far AS BIGINT) END)
    OR (state = 'running' AND lease_until > :far_soon));

-- name: beat_job
-- Keep a lease alive.
UPDATE job SET lease_until = :lease_until WHERE tenant = :tenant AND id = :id AND fence = :fence AND state = 'running';

-- name: hold_job
-- Whether a worker still has its job; every write that a job makes asks this in its own transaction.
SELECT 1 FROM job WHERE tenant = :tenant AND id = :id AND fence = :fence AND state = 'running';

-- name: note_job
-- Note how far a running job has come.
UPDATE job SET result = :result WHERE tenant = :tenant AND id = :id AND fence = :fence AND state = 'running';

-- name: finish_job
-- Settle a running job: done, dead, cancelled, or ready to be tried again.
UPDATE job SET state = :state, run_at = :run_at, error = :error, finished_at = :finished_at,
  result = CASE WHEN CAST(:result AS TEXT) IS NULL THEN result ELSE :result END,
  slot = CASE WHEN :state = 'ready' THEN slot ELSE NULL END, lease_until = NULL, worker = NULL
WHERE tenant = :tenant AND id = :id AND fence = :fence AND state = 'running';

-- name: repeat_job
-- Put a running job back in line, from the start and with a clean record of attempts.
UPDATE job SET state = 'ready', run_at = :run_at, attempts = 0, error = NULL, result = NULL, lease_until = NULL, worker = NULL
WHERE tenant = :tenant AND id = :id AND fence = :fence AND state = 'running';

-- name: retry_job
-- Put a dead or cancelled job back in line.
UPDATE job SET state = 'ready', run_at = :now, attempts = 0, error = NULL, finished_at = NULL
WHERE tenant = :tenant AND id = :id AND state IN ('dead', 'cancelled');

-- name: cancel_job
-- Take a waiting job out of the line.
UPDATE job SET state = 'cancelled', slot = NULL, finished_at = :now
WHERE tenant = :tenant AND id = :id AND state = 'ready';

-- name: delete_finished_jobs
-- Remove jobs that were finished long ago.
DELETE FROM job WHERE tenant = :tenant AND state IN ('done', 'cancelled') AND finished_at <= :before;

-- name: list_events
-- What was written, in order, with the names that still exist.
SELECT e.seq, e.at, e.operation, e.actor, e.entries, c.dialect, c.name, a.path
FROM event e
LEFT JOIN collection c ON c.tenant = :tenant AND c.id = e.collection_id
LEFT JOIN address a ON a.tenant = :tenant AND a.id = e.address_id AND a.collection_id = e.collection_id
WHERE e.tenant = :tenant AND e.seq > :after
ORDER BY e.seq
LIMIT :limit;

-- name: last_event
-- The number of the newest event.
SELECT COALESCE(MAX(seq), 0) FROM event WHERE tenant = :tenant;

-- name: first_event_after
-- The number of the first event that is young enough to be kept.
SELECT COALESCE(MIN(seq), 0) FROM event WHERE tenant = :tenant AND at > :before;

-- name: delete_events_below
-- Remove old events.
DELETE FROM event WHERE tenant = :tenant AND seq < :seq;

-- name: count_rows_of_address
-- How many rows of each layer still speak of an address: the re-scan after an erasure.
SELECT
  (SELECT COUNT(*) FROM entry WHERE tenant = :tenant AND address_id = :address_id)
  + (SELECT COUNT(*) FROM address WHERE tenant = :tenant AND id = :address_id)
  + (SELECT COUNT(*) FROM job WHERE tenant = :tenant AND address_id = :address_id)
  + (SELECT COUNT(*) FROM idempotency_touch WHERE tenant = :tenant AND address_id = :address_id)
  + (SELECT COUNT(*) FROM evidence WHERE tenant = :tenant AND address_id = :address_id)
  + (SELECT COUNT(*) FROM plan WHERE tenant = :tenant AND address_id = :address_id)
  + (SELECT COUNT(*) FROM folded WHERE tenant = :tenant AND address_id = :address_id)
  + (SELECT COUNT(*) FROM summary WHERE tenant = :tenant AND address_id = :address_id)
  + (SELECT COUNT(*) FROM run_touch WHERE tenant = :tenant AND address_id = :address_id)
  + (SELECT COUNT(*) FROM record WHERE tenant = :tenant AND address_id = :address_id)
  + (SELECT COUNT(*) FROM record_version WHERE tenant = :tenant AND address_id = :address_id)
  + (SELECT COUNT(*) FROM record_tie WHERE tenant = :tenant AND address_id = :address_id)
  + (SELECT COUNT(*) FROM file WHERE tenant = :tenant AND address_id = :address_id);

-- name: next_idempotency_expiry
-- When the next stored answer may go.
SELECT MIN(expires_at) FROM idempotency WHERE tenant = :tenant;

-- name: docids_of_version
-- The number of one version of one entry.
SELECT docid FROM entry WHERE tenant = :tenant AND id = :id AND version = :version;

-- name: docids_of_entry
-- The numbers of every version of one entry.
SELECT docid FROM entry WHERE tenant = :tenant AND id = :id;

-- name: docids_to
-- The numbers of the entries of an address up to a sequence number.
SELECT docid FROM entry WHERE tenant = :tenant AND address_id = :address_id AND seq <= :seq;

-- name: expired_docids
-- The numbers of what expired up to a moment.
SELECT docid FROM entry WHERE tenant = :tenant AND expires_at <= :until;

-- name: removals_after
-- What was removed from search since.
SELECT seq, docid, address_id FROM removal WHERE tenant = :tenant AND seq > :after ORDER BY seq;

-- name: delete_removals_below
-- Forget old removals: an index that has not seen them is loaded anew.
DELETE FROM removal WHERE tenant = :tenant AND seq < (SELECT MAX(seq) FROM removal WHERE tenant = :tenant) - :keep;

-- name: find_model
-- A model by its name.
SELECT id, dimensions, embedded_to FROM model WHERE tenant = :tenant AND name = :name;

-- name: list_models
-- The models that there are vectors of, the oldest first.
SELECT id, name, dimensions, embedded_to FROM model WHERE tenant = :tenant ORDER BY id;

-- name: add_model
-- Make a model known, unless another writer just did.
INSERT INTO model (tenant, id, name, dimensions, embedded_to, created_at)
SELECT :tenant, COALESCE(MAX(id), 0) + 1, :name, :dimensions, 0, :now FROM model WHERE tenant = :tenant
ON CONFLICT (tenant, name) DO NOTHING;

-- name: advance_model
-- Note up to which entry a model's vectors are complete.
UPDATE model SET embedded_to = :embedded_to WHERE tenant = :tenant AND id = :id AND embedded_to < :embedded_to;

-- name: reset_model
-- Note that a model's vectors are no longer complete.
UPDATE model SET embedded_to = 0 WHERE tenant = :tenant AND id = :id;

-- name: delete_model
-- Forget a model that has no vectors any more.
DELETE FROM model WHERE tenant = :tenant AND id = :id;

-- name: delete_old_vectors
-- Remove some vectors of a model that is not used any more.
DELETE FROM vector WHERE tenant = :tenant AND model = :model AND docid <= :docid;

-- name: vector_after
-- The number of the entry that stands :skip places from the first that has a vector of this model.
SELECT docid FROM vector WHERE tenant = :tenant AND model = :model ORDER BY docid LIMIT 1 OFFSET :skip;

-- name: pending_entries
-- Entries above a number that a model has no vectors of, in order; what is sealed needs none.
SELECT e.docid, e.id, e.version, e.name, e.content, c.policy
FROM entry e
CROSS JOIN address a
CROSS JOIN collection c
WHERE e.tenant = :tenant AND a.tenant = :tenant AND c.tenant = :tenant AND e.docid > :after
  AND a.id = e.address_id AND c.id = a.collection_id AND c.sealed = 0 AND e.retired_at IS NULL
  AND (e.expires_at IS NULL OR e.expires_at > :now)
  AND NOT EXISTS (SELECT 1 FROM vector v
    WHERE v.tenant = :tenant AND v.model = :model AND v.docid = e.docid AND v.docid > :after)
ORDER BY e.docid
LIMIT :limit;

-- name: unsealed_entries
-- Entries above a number whose words are searched, in order.
SELECT e.docid, e.address_id, a.collection_id, e.name, e.content, c.policy
FROM entry e
CROSS JOIN address a
CROSS JOIN collection c
WHERE e.tenant = :tenant AND a.tenant = :tenant AND c.tenant = :tenant AND e.docid > :after
  AND a.id = e.address_id AND c.id = a.collection_id AND c.sealed = 0 AND e.retired_at IS NULL
ORDER BY e.docid
LIMIT :limit;

-- name: entry_anywhere
-- The newest version of an entry, whatever became of it, and where it is; what is being erased is nowhere.
SELECT e.docid, e.address_id, a.collection_id, e.kind, e.retired_at, e.expires_at, e.occurred_at, e.metadata
FROM entry e
JOIN address a ON a.tenant = e.tenant AND a.id = e.address_id
JOIN collection c ON c.tenant = a.tenant AND c.id = a.collection_id AND c.dialect <> '#erased'
WHERE e.tenant = :tenant AND a.tenant = :tenant AND c.tenant = :tenant AND e.id = :id
ORDER BY e.version DESC
LIMIT 1;

-- name: embedded_between
-- Which entries from one to another have vectors of a model.
SELECT DISTINCT docid FROM vector WHERE tenant = :tenant AND model = :model AND docid BETWEEN :first AND :last;

-- name: distilled_address
-- A session that is to be distilled, and the collection that it is in.
SELECT a.path, a.last_seq, a.distilled_seq, c.id, c.dialect, c.name, c.sealed
FROM address a
JOIN collection c ON c.tenant = a.tenant AND c.id = a.collection_id
WHERE a.tenant = :tenant AND c.tenant = :tenant AND a.id = :id;

-- name: set_distilled
-- Note that a session is distilled up to an entry at least.
UPDATE address SET distilled_seq = :upto WHERE tenant = :tenant AND id = :id AND distilled_seq < :upto;

-- name: undistilled_entry
-- Whether an entry has still to be distilled.
SELECT e.seq FROM entry e
JOIN address a ON a.tenant = e.tenant AND a.id = e.address_id
WHERE e.tenant = :tenant AND a.tenant = :tenant AND e.id = :id AND e.retired_at IS NULL AND e.seq > a.distilled_seq;

-- name: settle_all_notes
-- Let the notes of a session be turns.
UPDATE entry SET kind = 'turn' WHERE tenant = :tenant AND address_id = :address_id AND kind = 'note' RETURNING docid;

-- name: advance_distilled
-- Note that a session is distilled up to an entry, if nobody else has and it is still where it was.
UPDATE address SET distilled_seq = :upto
WHERE tenant = :tenant AND id = :id AND collection_id = :collection_id AND distilled_seq = :seen;

-- name: add_fact
-- What a version of a fact is besides its entry.
INSERT INTO fact (tenant, docid, collection_id, subject, same, topic, valid_from, valid_to, plan_id, held, ended_by)
SELECT :tenant, e.docid, :collection_id, :subject, :same, :topic, :valid_from, CAST(:valid_to AS BIGINT), :plan_id, :held,
  :ended_by
FROM entry e WHERE e.tenant = :tenant AND e.id = :id AND e.version = :version;

-- name: facts_same
-- The current facts of a collection that say the same by their words, the oldest first.
SELECT e.id, e.version, e.content, f.subject, e.kind, e.confidence, e.occurred_at, f.topic, f.valid_from, f.valid_to
FROM fact f
JOIN entry e ON e.tenant = f.tenant AND e.docid = f.docid
WHERE f.tenant = :tenant AND e.tenant = :tenant AND f.collection_id = :collection_id AND f.same = :same
  AND e.retired_at IS NULL
ORDER BY f.docid
LIMIT :limit;

-- name: facts_about
-- The current facts of a collection about a topic, the newest first.
SELECT e.id, e.version, e.content, f.subject, e.kind, e.confidence, e.occurred_at, f.topic, f.valid_from, f.valid_to
FROM fact f
JOIN entry e ON e.tenant = f.tenant AND e.docid = f.docid
WHERE f.tenant = :tenant AND e.tenant = :tenant AND f.collection_id = :collection_id AND f.topic = :topic
  AND e.retired_at IS NULL
ORDER BY f.docid DESC
LIMIT :limit;

-- name: fact_versions
-- Every version of a fact, the oldest first, with when it was known and when it was true.
SELECT e.version, e.kind, e.content, e.origin, e.importance, e.confidence, e.recorded_at, e.retired_at,
  f.subject, f.valid_from, f.valid_to, f.plan_id, f.held, f.same, f.topic, e.occurred_at, e.address_id, f.ended_by
FROM entry e
LEFT JOIN fact f ON f.tenant = :tenant AND f.docid = e.docid
WHERE e.tenant = :tenant AND e.id = :id
ORDER BY e.version;

-- name: facts_ended_by
-- The current facts that are over because of another one.
SELECT e.id FROM fact f
JOIN entry e ON e.tenant = f.tenant AND e.docid = f.docid
WHERE f.tenant = :tenant AND e.tenant = :tenant AND f.ended_by = :id AND e.retired_at IS NULL AND e.kind = 'past'
ORDER BY e.id;

-- name: set_confidence
-- How sure the current version of a fact is, after it was said again.
UPDATE entry SET confidence = :confidence WHERE tenant = :tenant AND id = :id AND version = :version AND retired_at IS NULL;

-- name: add_evidence
-- What a fact is based on; the same words count once.
INSERT INTO evidence (tenant, id, fact_id, entry_id, address_id, first_char, end_char, origin, said_at, plan_id)
VALUES (:tenant, :id, :fact_id, :entry_id, :address_id, :first_char, :end_char, :origin, :said_at, :plan_id)
ON CONFLICT (tenant, fact_id, entry_id, first_char) DO NOTHING;

-- name: evidence_of
-- What a fact is based on, in the order in which it was said, with the words where they are still there.
SELECT v.entry_id, v.first_char, v.end_char, v.origin, v.said_at, v.plan_id, a.path, e.content, e.role, e.name, v.address_id
FROM evidence v
LEFT JOIN address a ON a.tenant = :tenant AND a.id = v.address_id
LEFT JOIN entry e ON e.tenant = :tenant AND e.id = v.entry_id AND e.retired_at IS NULL
  AND (e.expires_at IS NULL OR e.expires_at > :now)
WHERE v.tenant = :tenant AND v.fact_id = :fact_id
ORDER BY v.said_at, v.plan_id, v.first_char, v.id;

-- name: count_evidence
-- How much a fact is based on.
SELECT COUNT(*) FROM evidence WHERE tenant = :tenant AND fact_id = :fact_id;

-- name: evidence_keys
-- Which words a fact is based on, and the plans that found them.
SELECT entry_id, first_char, plan_id FROM evidence WHERE tenant = :tenant AND fact_id = :fact_id;

-- name: delete_evidence
-- Take away some words from what a fact is based on.
DELETE FROM evidence
WHERE tenant = :tenant AND fact_id = :fact_id AND entry_id = :entry_id AND first_char = :first_char;

-- name: facts_from_address
-- The facts that are based on what was said in a session; without a plan if that was imported.
SELECT fact_id, MIN(plan_id) FROM evidence WHERE tenant = :tenant AND address_id = :address_id GROUP BY fact_id ORDER BY fact_id;

-- name: facts_from_entry
-- The facts that are based on one entry; without a plan if that was imported.
SELECT fact_id, MIN(plan_id) FROM evidence WHERE tenant = :tenant AND entry_id = :entry_id GROUP BY fact_id ORDER BY fact_id;

-- name: delete_evidence_of_plan
-- Take away what a plan had found for facts.
DELETE FROM evidence WHERE tenant = :tenant AND plan_id = :plan_id;

-- name: delete_evidence_of_fact
-- Take away all that a fact is based on.
DELETE FROM evidence WHERE tenant = :tenant AND fact_id = :fact_id;

-- name: add_plan
-- Keep a plan.
INSERT INTO plan (tenant, id, collection_id, address_id, state, method, note, head, first_seq, last_seq, steps, created_at,
  applied_at)
VALUES (:tenant, :id, :collection_id, :address_id, :state, :method, :note, :head, :first_seq, :last_seq, :steps, :now,
  :applied_at);

-- name: find_plan
-- One plan of a collection.
SELECT id, collection_id, address_id, state, method, note, head, first_seq, last_seq, steps, created_at, applied_at, reverted_at
FROM plan WHERE tenant = :tenant AND collection_id = :collection_id AND id = :id;

-- name: list_plans
-- The plans of a collection, the newest first.
SELECT id, collection_id, address_id, state, method, note, head, first_seq, last_seq, steps, created_at, applied_at, reverted_at
FROM plan WHERE tenant = :tenant AND collection_id = :collection_id AND id < :before
ORDER BY id DESC
LIMIT :limit;

-- name: settle_plan
-- Change the state of a plan, if it is still in the one that is expected.
UPDATE plan SET state = :state, steps = :steps, applied_at = :applied_at, reverted_at = :reverted_at
WHERE tenant = :tenant AND id = :id AND state = :seen;

-- name: plans_of_address
-- The plans for a session, and what they do.
SELECT id, steps FROM plan WHERE tenant = :tenant AND address_id = :address_id ORDER BY id;

-- name: add_spending
-- Count what a language model was paid for.
INSERT INTO spending (tenant, day, calls, tokens_in, tokens_out)
VALUES (:tenant, :day, :calls, :tokens_in, :tokens_out)
ON CONFLICT (tenant, day) DO UPDATE SET calls = spending.calls + excluded.calls,
  tokens_in = spending.tokens_in + excluded.tokens_in, tokens_out = spending.tokens_out + excluded.tokens_out;

-- name: spent_since
-- What language models were paid for since a day.
SELECT CAST(COALESCE(SUM(calls), 0) AS BIGINT), CAST(COALESCE(SUM(tokens_in), 0) AS BIGINT),
  CAST(COALESCE(SUM(tokens_out), 0) AS BIGINT)
FROM spending WHERE tenant = :tenant AND day >= :day;

-- name: entry_addresses
-- Where the versions of an entry are.
SELECT DISTINCT address_id FROM entry WHERE tenant = :tenant AND id = :id;

-- name: plans_of_fact
-- The plans of a collection that speak of a fact.
SELECT id FROM plan WHERE tenant = :tenant AND collection_id = :collection_id AND steps LIKE :pattern;

-- name: facts_in_session
-- The current facts that are based on what was said in a session, in the order in which they were written.
SELECT e.id, e.version, e.seq, e.kind, e.role, e.name, e.content, e.metadata, e.tool, e.origin, e.importance, e.confidence,
  e.occurred_at, e.recorded_at, COALESCE(e.created_at, e.recorded_at)
FROM entry e
WHERE e.tenant = :tenant AND e.retired_at IS NULL AND e.kind = 'fact'
  AND e.id IN (SELECT v.fact_id FROM evidence v WHERE v.tenant = :tenant AND v.address_id = :address_id)
ORDER BY e.docid
LIMIT :limit;

-- name: plan_steps
-- What a plan does.
SELECT steps FROM plan WHERE tenant = :tenant AND id = :id;

-- name: set_plan_steps
-- Change what a plan says that it does.
UPDATE plan SET steps = :steps WHERE tenant = :tenant AND id = :id;

-- name: revoke_address
-- Take away what was said in a session from one fact.
DELETE FROM evidence WHERE tenant = :tenant AND fact_id = :fact_id AND address_id = :address_id;

-- name: revoke_entry
-- Take away what one entry says from one fact.
DELETE FROM evidence WHERE tenant = :tenant AND fact_id = :fact_id AND entry_id = :entry_id;

-- name: audit_facts
-- The current facts of a collection, by their words, with how much they are based on.
SELECT f.docid, e.id, e.content, e.origin, f.subject, f.same, f.topic, f.valid_to, f.plan_id,
  (SELECT COUNT(*) FROM evidence v WHERE v.tenant = :tenant AND v.fact_id = e.id),
  (SELECT COUNT(*) FROM evidence v WHERE v.tenant = :tenant AND v.fact_id = e.id AND v.origin <> 'assistant')
FROM fact f
JOIN entry e ON e.tenant = f.tenant AND e.docid = f.docid
WHERE f.tenant = :tenant AND e.tenant = :tenant AND f.collection_id = :collection_id AND (f.same, f.docid) > (:after, :after_too)
  AND e.retired_at IS NULL AND e.kind = 'fact'
ORDER BY f.same, f.docid
LIMIT :limit;

-- name: lives_after
-- When the versions at an address after a sequence number were known and true, in order, and what they are besides their entries.
SELECT e.docid, e.recorded_at, e.retired_at, COALESCE(f.valid_from, e.occurred_at), f.valid_to, e.seq, e.kind, f.subject,
  f.valid_from, f.held
FROM entry e
LEFT JOIN fact f ON f.tenant = :tenant AND f.docid = e.docid
WHERE e.tenant = :tenant AND e.address_id = :address_id AND e.seq > :after
  AND (e.expires_at IS NULL OR e.expires_at > :now)
  /*filter*/
ORDER BY e.seq
LIMIT :limit;

-- name: lives_of_entry
-- The same of every version of one entry of a named collection, the oldest first.
SELECT e.docid, e.recorded_at, e.retired_at, COALESCE(f.valid_from, e.occurred_at), f.valid_to, e.seq, e.kind, f.subject,
  f.valid_from, f.held
FROM entry e
JOIN address a ON a.tenant = e.tenant AND a.id = e.address_id
JOIN collection c ON c.tenant = a.tenant AND c.id = a.collection_id
LEFT JOIN fact f ON f.tenant = :tenant AND f.docid = e.docid
WHERE e.tenant = :tenant AND a.tenant = :tenant AND c.tenant = :tenant AND e.id = :id
  AND c.dialect = :dialect AND c.name = :name AND c.kind = :kind
  AND (e.expires_at IS NULL OR e.expires_at > :now)
ORDER BY e.version;

-- name: find_document
-- A bank, hook, workflow or the like by its id.
SELECT id, name, version, body, created_at, updated_at FROM document
WHERE tenant = :tenant AND kind = :kind AND id = :id;

-- name: named_documents
-- Those of a kind that have this name.
SELECT id, name, version, body, created_at, updated_at FROM document
WHERE tenant = :tenant AND kind = :kind AND name = :name
ORDER BY id;

-- name: list_documents
-- All of a kind, by their ids.
SELECT id, name, version, body, created_at, updated_at FROM document
WHERE tenant = :tenant AND kind = :kind AND id > :after
ORDER BY id
LIMIT :limit;

-- name: count_documents
-- How many there are of a kind.
SELECT COUNT(*) FROM document WHERE tenant = :tenant AND kind = :kind;

-- name: add_document
-- Keep a new one.
INSERT INTO document (tenant, kind, id, name, version, body, created_at, updated_at)
VALUES (:tenant, :kind, :id, :name, :version, :body, :now, :now);

-- name: set_document
-- Change one, if it is still the version that was read.
UPDATE document SET name = :name, version = version + 1, body = :body, updated_at = :now
WHERE tenant = :tenant AND kind = :kind AND id = :id AND version = :seen;

-- name: delete_document
-- Remove one.
DELETE FROM document WHERE tenant = :tenant AND kind = :kind AND id = :id;

-- name: last_said
-- The newest turns up to one, the newest first: what a messages array is made of.
SELECT seq, role, content, 0 FROM entry
WHERE tenant = :tenant AND address_id = :address_id AND seq <= :upto AND kind <> 'summary'
  AND retired_at IS NULL AND (expires_at IS NULL OR expires_at > :now)
ORDER BY seq DESC
LIMIT :limit;

-- name: first_said
-- The same of the earliest turns, the earliest first.
SELECT seq, role, content, 0 FROM entry
WHERE tenant = :tenant AND address_id = :address_id AND kind <> 'summary'
  AND retired_at IS NULL AND (expires_at IS NULL OR expires_at > :now)
ORDER BY seq
LIMIT :limit;

-- name: entries_down
-- The entries of an address that are behind no summary, the newest first, without summaries.
SELECT id, version, seq, kind, role, name, content, metadata, tool, origin, importance, confidence, occurred_at, recorded_at,
  COALESCE(created_at, recorded_at)
FROM entry
WHERE tenant = :tenant AND address_id = :address_id AND kind <> 'summary'
  AND retired_at IS NULL AND (expires_at IS NULL OR expires_at > :now)
ORDER BY seq DESC
LIMIT :limit;

-- name: entries_up
-- The same, the oldest first.
SELECT id, version, seq, kind, role, name, content, metadata, tool, origin, importance, confidence, occurred_at, recorded_at,
  COALESCE(created_at, recorded_at)
FROM entry
WHERE tenant = :tenant AND address_id = :address_id AND kind <> 'summary'
  AND retired_at IS NULL AND (expires_at IS NULL OR expires_at > :now)
ORDER BY seq
LIMIT :limit;

-- name: every_entry_down
-- The entries of an address and those that are behind its summaries, the newest first, without summaries; each with the
-- summary that it is behind.
SELECT e.id, e.version, e.seq, e.kind, e.role, e.name, e.content, e.metadata, e.tool, e.origin, e.importance, e.confidence,
  e.occurred_at, e.recorded_at, COALESCE(e.created_at, e.recorded_at),
  (SELECT f.summary_id FROM folded f WHERE f.tenant = :tenant AND f.docid = e.docid)
FROM entry e
WHERE e.tenant = :tenant AND e.address_id = :address_id AND e.kind <> 'summary'
  AND (e.retired_at IS NULL OR EXISTS (SELECT 1 FROM folded f WHERE f.tenant = :tenant AND f.docid = e.docid))
  AND (e.expires_at IS NULL OR e.expires_at > :now)
ORDER BY e.seq DESC
LIMIT :limit;

-- name: every_entry_up
-- The same, the oldest first.
SELECT e.id, e.version, e.seq, e.kind, e.role, e.name, e.content, e.metadata, e.tool, e.origin, e.importance, e.confidence,
  e.occurred_at, e.recorded_at, COALESCE(e.created_at, e.recorded_at),
  (SELECT f.summary_id FROM folded f WHERE f.tenant = :tenant AND f.docid = e.docid)
FROM entry e
WHERE e.tenant = :tenant AND e.address_id = :address_id AND e.kind <> 'summary'
  AND (e.retired_at IS NULL OR EXISTS (SELECT 1 FROM folded f WHERE f.tenant = :tenant AND f.docid = e.docid))
  AND (e.expires_at IS NULL OR e.expires_at > :now)
ORDER BY e.seq
LIMIT :limit;

-- name: shown_summaries_down
-- The summaries of an address that are behind no other, the latest first, with their places and how many entries they are of.
SELECT s.position, s.entries, e.id, e.version, e.seq, e.kind, e.role, e.name, e.content, e.metadata, e.tool, e.origin, e.importance, e.confidence,
  e.occurred_at, e.recorded_at, COALESCE(e.created_at, e.recorded_at)
FROM summary s
JOIN entry e ON e.tenant = s.tenant AND e.docid = s.docid
WHERE s.tenant = :tenant AND e.tenant = :tenant AND e.address_id = :address_id AND s.position <= :upto
  AND e.kind = 'summary' AND e.retired_at IS NULL AND (e.expires_at IS NULL OR e.expires_at > :now)
ORDER BY s.position DESC, s.docid DESC
LIMIT :limit;

-- name: shown_summaries_up
-- The same, the earliest first.
SELECT s.position, s.entries, e.id, e.version, e.seq, e.kind, e.role, e.name, e.content, e.metadata, e.tool, e.origin, e.importance, e.confidence,
  e.occurred_at, e.recorded_at, COALESCE(e.created_at, e.recorded_at)
FROM summary s
JOIN entry e ON e.tenant = s.tenant AND e.docid = s.docid
WHERE s.tenant = :tenant AND e.tenant = :tenant AND e.address_id = :address_id
  AND e.kind = 'summary' AND e.retired_at IS NULL AND (e.expires_at IS NULL OR e.expires_at > :now)
ORDER BY s.position, s.docid
LIMIT :limit;

-- name: summaries_down
-- All summaries of an address, the latest first, with their places, how many entries they are of, and which they are behind.
SELECT s.position, s.entries, e.id, e.version, e.seq, e.kind, e.role, e.name, e.content, e.metadata, e.tool, e.origin, e.importance, e.confidence,
  e.occurred_at, e.recorded_at, COALESCE(e.created_at, e.recorded_at),
  (SELECT f.summary_id FROM folded f WHERE f.tenant = :tenant AND f.docid = e.docid)
FROM summary s
JOIN entry e ON e.tenant = s.tenant AND e.docid = s.docid
WHERE s.tenant = :tenant AND e.tenant = :tenant AND s.address_id = :address_id
  AND (e.expires_at IS NULL OR e.expires_at > :now)
ORDER BY s.position DESC, s.docid DESC
LIMIT :limit;

-- name: summaries_up
-- The same, the earliest first.
SELECT s.position, s.entries, e.id, e.version, e.seq, e.kind, e.role, e.name, e.content, e.metadata, e.tool, e.origin, e.importance, e.confidence,
  e.occurred_at, e.recorded_at, COALESCE(e.created_at, e.recorded_at),
  (SELECT f.summary_id FROM folded f WHERE f.tenant = :tenant AND f.docid = e.docid)
FROM summary s
JOIN entry e ON e.tenant = s.tenant AND e.docid = s.docid
WHERE s.tenant = :tenant AND e.tenant = :tenant AND s.address_id = :address_id
  AND (e.expires_at IS NULL OR e.expires_at > :now)
ORDER BY s.position, s.docid
LIMIT :limit;

-- name: beyond_entries
-- Whether an address shows more than so many, turns or not: the index alone answers that.
SELECT 1 FROM entry
WHERE tenant = :tenant AND address_id = :address_id AND retired_at IS NULL
LIMIT 1 OFFSET :turns;

-- name: beyond_turns
-- Whether an address holds more turns than so many.
SELECT seq FROM entry
WHERE tenant = :tenant AND address_id = :address_id AND kind <> 'summary'
  AND retired_at IS NULL AND (expires_at IS NULL OR expires_at > :now)
ORDER BY seq DESC
LIMIT 1 OFFSET :turns;

-- name: oldest_turn
-- When the oldest turn was recorded that an address shows.
SELECT recorded_at FROM entry
WHERE tenant = :tenant AND address_id = :address_id AND kind <> 'summary'
  AND retired_at IS NULL AND (expires_at IS NULL OR expires_at > :now)
ORDER BY seq
LIMIT 1;

-- name: turns_from
-- The turns that an address shows from one on, in order.
SELECT seq, id, content FROM entry
WHERE tenant = :tenant AND address_id = :address_id AND seq >= :first AND kind <> 'summary'
  AND retired_at IS NULL AND (expires_at IS NULL OR expires_at > :now)
ORDER BY seq
LIMIT :limit;

-- name: add_summary
-- Where a summary stands.
INSERT INTO summary (tenant, docid, id, address_id, position, entries)
SELECT :tenant, e.docid, e.id, e.address_id, :position, :entries
FROM entry e WHERE e.tenant = :tenant AND e.id = :id AND e.version = 1;

-- name: bank_address
-- A key of a bank, by its number.
SELECT a.id, c.name, a.path FROM address a
JOIN collection c ON c.tenant = a.tenant AND c.id = a.collection_id
WHERE a.tenant = :tenant AND c.tenant = :tenant AND a.id = :id AND c.dialect = 'bank';

-- name: bank_keys
-- The paths of a named collection, and how many live entries each has.
SELECT a.path, (SELECT COUNT(*) FROM entry e WHERE e.tenant = :tenant AND e.address_id = a.id AND e.retired_at IS NULL
  AND (e.expires_at IS NULL OR e.expires_at > :now)) AS entries
FROM collection c
JOIN address a ON a.tenant = c.tenant AND a.collection_id = c.id
WHERE c.tenant = :tenant AND a.tenant = :tenant AND c.dialect = :dialect AND c.name = :name AND c.kind = :kind
  AND (a.expires_at IS NULL OR a.expires_at > :now)
ORDER BY a.path
LIMIT 10000;

-- name: bank_folded
-- How many entries of a named collection were written within a time and are behind summaries; summaries themselves do not count.
SELECT COUNT(*) FROM collection c
JOIN address a ON a.tenant = c.tenant AND a.collection_id = c.id
JOIN folded f ON f.tenant = a.tenant AND f.address_id = a.id
JOIN entry e ON e.tenant = f.tenant AND e.docid = f.docid
WHERE c.tenant = :tenant AND a.tenant = :tenant AND f.tenant = :tenant AND e.tenant = :tenant
  AND c.dialect = :dialect AND c.name = :name AND c.kind = :kind
  AND e.kind <> 'summary' AND e.recorded_at >= :since AND e.recorded_at < :until
  AND (e.expires_at IS NULL OR e.expires_at > :now);

-- name: summary_place
-- Where a summary stands, and how many entries it is of.
SELECT s.position, s.entries FROM summary s
JOIN entry e ON e.tenant = s.tenant AND e.docid = s.docid
WHERE s.tenant = :tenant AND e.tenant = :tenant AND e.id = :id;

-- name: fold_entry
-- Hide an entry behind a summary.
INSERT INTO folded (tenant, docid, address_id, summary_id) VALUES (:tenant, :docid, :address_id, :summary_id);

-- name: summary_of
-- Which summary an entry is behind.
SELECT f.summary_id FROM folded f
JOIN entry e ON e.tenant = f.tenant AND e.docid = f.docid
WHERE f.tenant = :tenant AND e.tenant = :tenant AND e.id = :id;

-- name: first_kept
-- The number of the first entry of an address that is kept, shown or not.
SELECT seq FROM entry
WHERE tenant = :tenant AND address_id = :address_id AND seq > 0 AND (expires_at IS NULL OR expires_at > :now)
ORDER BY seq
LIMIT 1;

-- name: folds_of
-- What is kept directly behind a summary: its numbers and kinds.
SELECT e.seq, e.id, e.kind FROM folded f
JOIN entry e ON e.tenant = f.tenant AND e.docid = f.docid
WHERE f.tenant = :tenant AND e.tenant = :tenant AND f.summary_id = :id AND (e.expires_at IS NULL OR e.expires_at > :now);

-- name: entries_behind
-- The entries of an address from one on that are behind summaries.
SELECT e.id, e.version, e.seq, e.kind, e.role, e.name, e.content, e.metadata, e.tool, e.origin, e.importance, e.confidence,
  e.occurred_at, e.recorded_at, COALESCE(e.created_at, e.recorded_at)
FROM entry e
WHERE e.tenant = :tenant AND e.address_id = :address_id AND e.seq >= :first AND e.kind <> 'summary'
  AND e.retired_at IS NOT NULL AND (e.expires_at IS NULL OR e.expires_at > :now)
ORDER BY e.seq;

-- name: unfold
-- Bring back what is behind a summary.
UPDATE entry SET retired_at = NULL
WHERE tenant = :tenant AND docid IN (SELECT f.docid FROM folded f WHERE f.tenant = :tenant AND f.summary_id = :id)
RETURNING docid;

-- name: sources_of_summary
-- What is directly behind a summary after a sequence number, the oldest first, in the columns of `next_of_all`.
SELECT e.id, e.version, e.seq, e.kind, e.role, e.name, e.content, e.metadata, e.tool, e.origin, e.importance, e.confidence,
  e.occurred_at, e.recorded_at, COALESCE(e.created_at, e.recorded_at),
  (SELECT s.entries FROM summary s WHERE s.tenant = :tenant AND s.docid = e.docid),
  f.summary_id
FROM folded f
JOIN entry e ON e.tenant = f.tenant AND e.docid = f.docid
WHERE f.tenant = :tenant AND e.tenant = :tenant AND f.summary_id = :id AND e.seq > :after
  AND (e.expires_at IS NULL OR e.expires_at > :now)
ORDER BY e.seq
LIMIT :limit;

-- name: anything_left
-- Whether an address holds an entry that can be read, shown or behind a summary.
SELECT 1 FROM entry e
WHERE e.tenant = :tenant AND e.address_id = :address_id
  AND (e.retired_at IS NULL OR EXISTS (SELECT 1 FROM folded f WHERE f.tenant = :tenant AND f.docid = e.docid))
  AND (e.expires_at IS NULL OR e.expires_at > :now)
LIMIT 1;

-- name: forget_folds
-- Forget what a summary was made of.
DELETE FROM folded WHERE tenant = :tenant AND summary_id = :id;

-- name: any_entry
-- An entry of a named collection, current or behind a summary, with its path.
SELECT e.id, e.version, e.seq, e.kind, e.role, e.name, e.content, e.metadata, e.tool, e.origin, e.importance, e.confidence,
  e.occurred_at, e.recorded_at, COALESCE(e.created_at, e.recorded_at), a.path, a.id
FROM entry e
JOIN address a ON a.tenant = e.tenant AND a.id = e.address_id
JOIN collection c ON c.tenant = a.tenant AND c.id = a.collection_id
WHERE e.tenant = :tenant AND a.tenant = :tenant AND c.tenant = :tenant AND e.id = :id
  AND c.dialect = :dialect AND c.name = :name AND c.kind = :kind
  AND (e.retired_at IS NULL OR EXISTS (SELECT 1 FROM folded f WHERE f.tenant = :tenant AND f.docid = e.docid))
  AND (e.expires_at IS NULL OR e.expires_at > :now);

-- name: lengthen_entries
-- Let what a collection holds expire at another time after it was recorded, or never.
UPDATE entry SET expires_at = recorded_at + CAST(:lifetime AS BIGINT)
WHERE tenant = :tenant AND (expires_at IS NULL OR expires_at > :now)
  AND address_id IN (SELECT a.id FROM address a WHERE a.tenant = :tenant AND a.collection_id = :collection_id);

-- name: lengthen_addresses
-- The same for the addresses themselves.
UPDATE address SET expires_at = last_seen_at + CAST(:lifetime AS BIGINT)
WHERE tenant = :tenant AND collection_id = :collection_id AND (expires_at IS NULL OR expires_at > :now);

-- name: add_run
-- Begin a run.
INSERT INTO run (tenant, id, workflow_id, workflow_version, name, state, asked, started_at, lease_until)
VALUES (:tenant, :id, :workflow_id, :workflow_version, :name, 'running', :asked, :now, :lease_until);

-- name: begin_again
-- Begin a run again that is not under way.
UPDATE run SET state = 'running', output = NULL, error = NULL, ended_at = NULL, lease_until = :lease_until
WHERE tenant = :tenant AND id = :id AND asked <> '{"erased": true}' AND (state <> 'running' OR lease_until < :now);

-- name: find_run
-- A run by its id.
SELECT id, workflow_id, workflow_version, name, state, asked, output, error, started_at, ended_at, lease_until
FROM run WHERE tenant = :tenant AND id = :id;

-- name: run_is_over
-- Whether a run has come to its end.
SELECT CASE WHEN state IN ('done', 'failed') THEN 1 ELSE 0 END FROM run WHERE tenant = :tenant AND id = :id;

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
-- A run goes on.
UPDATE run SET lease_until = :lease_until WHERE tenant = :tenant AND id = :id AND state = 'running';

-- name: end_run
-- What came of a run.
UPDATE run SET state = :state, output = :output, error = :error, ended_at = :now, lease_until = NULL
WHERE tenant = :tenant AND id = :id;

-- name: keep_run_step
-- What a step of a run did.
INSERT INTO run_step (tenant, run_id, number, body) VALUES (:tenant, :run_id, :number, :body)
ON CONFLICT (tenant, run_id, number) DO UPDATE SET body = excluded.body;

-- name: run_steps
-- What the steps of a run did, in their order.
SELECT number, body FROM run_step WHERE tenant = :tenant AND run_id = :run_id ORDER BY number;

-- name: touch_run
-- Note that a run knows something of an address.
INSERT INTO run_touch (tenant, address_id, run_id) VALUES (:tenant, :address_id, :run_id)
ON CONFLICT (tenant, address_id, run_id) DO NOTHING;

-- name: runs_of_address
-- The runs that know something of an address.
SELECT run_id FROM run_touch WHERE tenant = :tenant AND address_id = :address_id;

-- name: runs_that_outlive
-- Which of some runs, from one to another, know something that has expired and was not swept yet.
SELECT DISTINCT t.run_id FROM address a
JOIN run_touch t ON t.tenant = a.tenant AND t.address_id = a.id
WHERE a.tenant = :tenant AND t.tenant = :tenant AND a.expires_at <= :now AND t.run_id >= :first AND t.run_id <= :last;

-- name: delete_run_steps
-- Take away what the steps of a run did.
DELETE FROM run_step WHERE tenant = :tenant AND run_id = :run_id;

-- name: delete_run_touches
-- Forget what a run knew of.
DELETE FROM run_touch WHERE tenant = :tenant AND run_id = :run_id;

-- name: delete_run
-- Remove a run.
DELETE FROM run WHERE tenant = :tenant AND id = :id;

-- name: old_runs
-- Runs that were begun before a time.
SELECT id FROM run WHERE tenant = :tenant AND started_at < :before ORDER BY started_at LIMIT :limit;

-- name: interrupt_runs
-- Runs whose process has died.
UPDATE run SET state = 'interrupted', error = 'Its process ended while it ran.', ended_at = :now
WHERE tenant = :tenant AND started_at <= :now AND state = 'running' AND lease_until < :now;

-- name: find_record
-- The value of a record by the names of its collection and its path, while it lives.
SELECT a.id, a.collection_id, a.path, r.version, r.value, r.created_at, r.updated_at, r.expires_at
FROM collection c
JOIN address a ON a.tenant = c.tenant AND a.collection_id = c.id AND a.path = :path
JOIN record r ON r.tenant = a.tenant AND r.address_id = a.id
WHERE c.tenant = :tenant AND a.tenant = :tenant AND r.tenant = :tenant
  AND c.dialect = :dialect AND c.name = :name AND c.kind = 'record' AND (r.expires_at IS NULL OR r.expires_at > :now);

-- name: find_record_head
-- The same without the value.
SELECT a.id, a.collection_id, a.path, r.version, 'null', r.created_at, r.updated_at, r.expires_at
FROM collection c
JOIN address a ON a.tenant = c.tenant AND a.collection_id = c.id AND a.path = :path
JOIN record r ON r.tenant = a.tenant AND r.address_id = a.id
WHERE c.tenant = :tenant AND a.tenant = :tenant AND r.tenant = :tenant
  AND c.dialect = :dialect AND c.name = :name AND c.kind = 'record' AND (r.expires_at IS NULL OR r.expires_at > :now);

-- name: find_held_record
-- The same, with the definition that has its path as its slug, if there is one.
SELECT a.id, a.collection_id, a.path, r.version, r.value, r.created_at, r.updated_at, r.expires_at, d.id, d.body
FROM collection c
JOIN address a ON a.tenant = c.tenant AND a.collection_id = c.id AND a.path = :path
JOIN record r ON r.tenant = a.tenant AND r.address_id = a.id
LEFT JOIN document s ON s.tenant = c.tenant AND s.tenant = :tenant AND s.kind = 'definition_slug' AND s.id = a.path
LEFT JOIN document d ON d.tenant = s.tenant AND d.tenant = :tenant AND d.kind = 'definition' AND d.id = s.body
WHERE c.tenant = :tenant AND a.tenant = :tenant AND r.tenant = :tenant
  AND c.dialect = :dialect AND c.name = :name AND c.kind = 'record' AND (r.expires_at IS NULL OR r.expires_at > :now);

-- name: record_sizes
-- The addresses of a collection between two paths, in the order of these, and how large the record there is; none, if none lives
-- there. Each is looked up by itself, and the collection before: PostgreSQL would else sort all that is behind the path.
SELECT a.id, a.path, (
  SELECT OCTET_LENGTH(r.value) FROM record r
  WHERE r.tenant = :tenant AND r.address_id = a.id AND (r.expires_at IS NULL OR r.expires_at > :now))
FROM address a
WHERE a.tenant = :tenant AND a.path > :after AND a.path < :until AND a.collection_id = (
  SELECT c.id FROM collection c
  WHERE c.tenant = :tenant AND c.dialect = :dialect AND c.name = :name AND c.kind = 'record')
ORDER BY a.path
LIMIT :limit;

-- name: place_record
-- Take the next number of a record's address, making it if it is new, and let it expire when its value does.
INSERT INTO address (tenant, id, collection_id, path, last_seq, created_at, last_seen_at, ended_seq, expires_at, metadata)
VALUES (:tenant, :id, :collection_id, :path, 1, :now, :now, 0, :expires_at, NULL)
ON CONFLICT (tenant, collection_id, path) DO UPDATE SET
  last_seq = address.last_seq + 1, last_seen_at = excluded.last_seen_at, expires_at = excluded.expires_at
RETURNING id, last_seq;

-- name: put_value
-- The value of a record, and since when it is so.
INSERT INTO record (tenant, address_id, version, value, created_at, updated_at, expires_at)
VALUES (:tenant, :address_id, :version, :value, :created_at, :now, :expires_at)
ON CONFLICT (tenant, address_id) DO UPDATE SET version = excluded.version, value = excluded.value,
  created_at = excluded.created_at, updated_at = excluded.updated_at, expires_at = excluded.expires_at;

-- name: add_record_version
-- What was written to a record.
INSERT INTO record_version (tenant, address_id, version, mode, data, actor, written_at, expires_at)
VALUES (:tenant, :address_id, :version, :mode, :data, :actor, :now, :expires_at);

-- name: record_versions
-- What was written to a record, the newest first.
SELECT version, mode, data, actor, written_at, expires_at FROM record_version
WHERE tenant = :tenant AND address_id = :address_id AND version < :before
ORDER BY version DESC
LIMIT :limit;

-- name: record_version_sizes
-- How much was written to a record, the newest first.
SELECT OCTET_LENGTH(data) FROM record_version
WHERE tenant = :tenant AND address_id = :address_id AND version < :before
ORDER BY version DESC
LIMIT :limit;

-- name: record_version_at
-- What was the last to be written to a record before a moment was over.
SELECT version, expires_at, written_at FROM record_version
WHERE tenant = :tenant AND address_id = :address_id AND written_at <= :moment
ORDER BY version DESC
LIMIT 1;

-- name: record_changes
-- What was written to a record from the last whole value on that a version is built on.
SELECT v.version, v.mode, v.data FROM record_version v
WHERE v.tenant = :tenant AND v.address_id = :address_id AND v.version <= :version AND v.version >= (
  SELECT MAX(w.version) FROM record_version w
  WHERE w.tenant = :tenant AND w.address_id = :address_id AND w.version <= :version AND w.mode = 'replace')
ORDER BY v.version;

-- name: delete_record_versions_below
-- Forget what was written to a record before a version.
DELETE FROM record_version WHERE tenant = :tenant AND address_id = :address_id AND version < :version;

-- name: delete_record
-- Remove the value of a record.
DELETE FROM record WHERE tenant = :tenant AND address_id = :address_id;

-- name: delete_record_versions
-- Forget what was written to a record.
DELETE FROM record_version WHERE tenant = :tenant AND address_id = :address_id;

-- name: add_tie
-- Tie a record to something that it goes with.
INSERT INTO record_tie (tenant, tie, address_id) VALUES (:tenant, :tie, :address_id)
ON CONFLICT (tenant, tie, address_id) DO NOTHING;

-- name: tied_addresses
-- The addresses of the records and of the texts of files that are tied to something, behind an address. Each is looked up by
-- itself: PostgreSQL would else join them from the first address on.
SELECT t.address_id,
  (SELECT a.collection_id FROM address a WHERE a.tenant = :tenant AND a.id = t.address_id),
  (SELECT c.kind FROM address a
   JOIN collection c ON c.tenant = a.tenant AND c.id = a.collection_id
   WHERE a.tenant = :tenant AND c.tenant = :tenant AND a.id = t.address_id)
FROM record_tie t
WHERE t.tenant = :tenant AND t.tie = :tie AND t.address_id > :after
ORDER BY t.address_id
LIMIT :limit;

-- name: tied_sizes
-- The addresses that are tied to something, behind an address, and how large the record there is; none, if none lives there.
SELECT t.address_id, (
  SELECT OCTET_LENGTH(r.value) FROM record r
  WHERE r.tenant = :tenant AND r.address_id = t.address_id AND (r.expires_at IS NULL OR r.expires_at > :now))
FROM record_tie t
WHERE t.tenant = :tenant AND t.tie = :tie AND t.address_id > :after
ORDER BY t.address_id
LIMIT :limit;

-- name: ties_of
-- What a record goes with.
SELECT tie FROM record_tie WHERE tenant = :tenant AND address_id = :address_id;

-- name: delete_ties
-- Untie a record from everything.
DELETE FROM record_tie WHERE tenant = :tenant AND address_id = :address_id;

-- name: anchor_record
-- An address without a value, which stands for everything at its collection.
INSERT INTO address (tenant, id, collection_id, path, last_seq, created_at, last_seen_at, ended_seq, expires_at, metadata)
VALUES (:tenant, :id, :collection_id, '', 0, :now, :now, 0, NULL, NULL)
ON CONFLICT (tenant, collection_id, path) DO UPDATE SET last_seen_at = excluded.last_seen_at
RETURNING id;

-- name: tied_sizes_at
-- The same for those of one collection, between two paths and in the order of these.
SELECT a.id, a.path, (
  SELECT OCTET_LENGTH(r.value) FROM record r
  WHERE r.tenant = :tenant AND r.address_id = a.id AND (r.expires_at IS NULL OR r.expires_at > :now))
FROM record_tie t
JOIN address a ON a.tenant = t.tenant AND a.id = t.address_id
WHERE t.tenant = :tenant AND a.tenant = :tenant AND t.tie = :tie AND a.path > :after AND a.path < :until
  AND a.collection_id = (
    SELECT c.id FROM collection c
    WHERE c.tenant = :tenant AND c.dialect = :dialect AND c.name = :name AND c.kind = 'record')
ORDER BY a.path
LIMIT :limit;

-- name: user_ties
-- Whose a record is, if that was said.
SELECT tie FROM record_tie WHERE tenant = :tenant AND address_id = :address_id AND tie >= 'user/' AND tie < 'user0';

-- name: ties_between
-- With what records go, from one name to another.
SELECT DISTINCT tie FROM record_tie WHERE tenant = :tenant AND tie >= :first AND tie < :last;

-- name: shorten_tied_records
-- Let the records that go with something live no longer than so long after they were written.
UPDATE record SET expires_at = updated_at + CAST(:lifetime AS BIGINT)
WHERE tenant = :tenant AND (expires_at IS NULL OR expires_at > updated_at + CAST(:lifetime AS BIGINT))
  AND address_id IN (SELECT t.address_id FROM record_tie t WHERE t.tenant = :tenant AND t.tie = :tie);

-- name: tie_to_sessions
-- Let the records that go with something go with the session as well that they are of, where that is known.
INSERT INTO record_tie (tenant, tie, address_id)
SELECT :tenant, 'session' || SUBSTR(s.tie, 3), t.address_id FROM record_tie t
JOIN record_tie s ON s.tenant = t.tenant AND s.address_id = t.address_id
WHERE t.tenant = :tenant AND s.tenant = :tenant AND t.tie = :tie AND s.tie >= 'in/' AND s.tie < 'in0'
ON CONFLICT (tenant, tie, address_id) DO NOTHING;

-- name: end_tied_records
-- Let the records of sessions that have ended expire now, of those that go with something: a session has its meta while it lasts.
UPDATE record SET expires_at = :now
WHERE tenant = :tenant AND (expires_at IS NULL OR expires_at > :now) AND address_id IN (
  SELECT a.id FROM record_tie t
  JOIN address a ON a.tenant = t.tenant AND a.id = t.address_id
  WHERE t.tenant = :tenant AND a.tenant = :tenant AND t.tie = :tie AND NOT EXISTS (
    SELECT 1 FROM address m WHERE m.tenant = :tenant AND m.collection_id = a.collection_id
      AND m.path = 'sessionMeta' || SUBSTR(a.path, CAST(:skip AS INTEGER))));

-- name: expire_tied_addresses
-- Let addresses expire when their values do, of those that go with something.
UPDATE address SET expires_at = (
  SELECT r.expires_at FROM record r WHERE r.tenant = :tenant AND r.address_id = address.id)
WHERE tenant = :tenant AND id IN (
  SELECT r.address_id FROM record_tie t
  JOIN record r ON r.tenant = t.tenant AND r.address_id = t.address_id
  WHERE t.tenant = :tenant AND r.tenant = :tenant AND t.tie = :tie);

-- name: expire_tied_versions
-- The same for what was the last to be written to them.
UPDATE record_version SET expires_at = (
  SELECT r.expires_at FROM record r WHERE r.tenant = :tenant AND r.address_id = record_version.address_id)
WHERE tenant = :tenant AND (address_id, version) IN (
  SELECT r.address_id, r.version FROM record_tie t
  JOIN record r ON r.tenant = t.tenant AND r.address_id = t.address_id
  WHERE t.tenant = :tenant AND r.tenant = :tenant AND t.tie = :tie);

-- name: erase_answers_about_tied
-- Empty the stored answers that speak of what goes with something and expires before a moment.
UPDATE idempotency SET request_hash = NULL, response = NULL
WHERE tenant = :tenant AND response IS NOT NULL AND key_hash IN (
  SELECT i.key_hash FROM record_tie t
  JOIN record r ON r.tenant = t.tenant AND r.address_id = t.address_id
  JOIN idempotency_touch i ON i.tenant = t.tenant AND i.address_id = t.address_id
  WHERE t.tenant = :tenant AND r.tenant = :tenant AND i.tenant = :tenant AND t.tie = :tie AND r.expires_at <= :until);

-- name: count_tied_to_no_session
-- How many of the records that go with something, and live, go with no session.
SELECT COUNT(*) FROM record_tie t
JOIN record r ON r.tenant = t.tenant AND r.address_id = t.address_id
WHERE t.tenant = :tenant AND r.tenant = :tenant AND t.tie = :tie AND (r.expires_at IS NULL OR r.expires_at > :now)
  AND NOT EXISTS (SELECT 1 FROM record_tie s WHERE s.tenant = :tenant AND s.address_id = t.address_id
    AND s.tie >= 'session/' AND s.tie < 'session0');

-- name: records_at_path
-- Where a dialect has records of this path, whatever the names of their collections.
SELECT a.id FROM collection c
JOIN address a ON a.tenant = c.tenant AND a.collection_id = c.id AND a.path = :path
WHERE c.tenant = :tenant AND a.tenant = :tenant AND c.dialect = :dialect AND c.kind = 'record';

-- name: add_file
-- A file of a session.
INSERT INTO file (tenant, id, address_id, text_id, seq, digest, filename, mimetype, size, active, state, reason, tokens,
  created_at)
VALUES (:tenant, :id, :address_id, :text_id, :seq, :digest, :filename, :mimetype, :size, :active, :state, NULL, 0, :now);

-- name: files_of
-- The files of a session, in the order in which they came.
SELECT id, address_id, text_id, seq, digest, filename, mimetype, size, active, state, reason, tokens, created_at
FROM file WHERE tenant = :tenant AND address_id = :address_id
ORDER BY seq;

-- name: find_file
-- A file, whatever session it is of.
SELECT id, address_id, text_id, seq, digest, filename, mimetype, size, active, state, reason, tokens, created_at
FROM file WHERE tenant = :tenant AND id = :id;

-- name: live_file
-- A file, whatever session it is of, unless it is being erased.
SELECT f.id, f.address_id, f.text_id, f.seq, f.digest, f.filename, f.mimetype, f.size, f.active, f.state, f.reason, f.tokens,
  f.created_at
FROM file f
JOIN address a ON a.tenant = f.tenant AND a.id = f.address_id
JOIN collection c ON c.tenant = a.tenant AND c.id = a.collection_id
WHERE f.tenant = :tenant AND a.tenant = :tenant AND c.tenant = :tenant AND f.id = :id AND c.dialect = 'app';

-- name: file_is_awaited
-- Whether a job is in line that reads the text which belongs to an address.
SELECT 1 FROM job WHERE tenant = :tenant AND address_id = :address_id AND kind = 'extract' AND state IN ('ready', 'running')
LIMIT 1;

-- name: give_file
-- Let a file go with another address.
UPDATE file SET address_id = :address_id WHERE tenant = :tenant AND id = :id;

-- name: set_file
-- Whether a file is used, where its text is, and what became of it.
UPDATE file SET active = :active, text_id = :text_id, state = :state, reason = :reason, tokens = :tokens
WHERE tenant = :tenant AND id = :id;

-- name: delete_files_of
-- Remove the files of a session; their bytes are looked after elsewhere.
DELETE FROM file WHERE tenant = :tenant AND address_id = :address_id;

-- name: file_tokens
-- How much text the other files of a session have together.
SELECT CAST(COALESCE(SUM(tokens), 0) AS BIGINT) FROM file WHERE tenant = :tenant AND address_id = :address_id AND id <> :id;

-- name: digest_named
-- Whether any file has these bytes.
SELECT 1 FROM file WHERE tenant = :tenant AND digest = :digest LIMIT 1;

-- name: file_lives
-- Whether a piece of text stands in what any file is called.
SELECT 1 FROM file WHERE tenant = :tenant AND (filename LIKE :pattern ESCAPE '!' OR mimetype LIKE :pattern ESCAPE '!') LIMIT 1;

-- name: add_erasure
-- Note what was erased, by a mark that tells nothing.
INSERT INTO erasure (tenant, seq, kind, id, at)
SELECT :tenant, COALESCE(MAX(seq), 0) + 1, :kind, :id, CAST(:at AS BIGINT) FROM erasure WHERE tenant = :tenant;

-- Deletion, expiry, traces of deleted data, and the erasure log.

-- name: delete_collection
-- Remove an emptied collection.
DELETE FROM collection WHERE tenant = :tenant AND id = :id;

-- name: delete_version
-- Remove one version of one entry.
DELETE FROM entry WHERE tenant = :tenant AND id = :id AND version = :version;

-- name: delete_entry
-- Remove every version of one entry.
DELETE FROM entry WHERE tenant = :tenant AND id = :id;

-- name: first_seq
-- The lowest sequence number of an address.
SELECT MIN(seq) FROM entry WHERE tenant = :tenant AND address_id = :address_id;

-- name: delete_entries_to
-- Remove the entries of an address up to a sequence number.
DELETE FROM entry WHERE tenant = :tenant AND address_id = :address_id AND seq <= :seq;

-- name: delete_address
-- Remove an address without entries.
DELETE FROM address WHERE tenant = :tenant AND id = :id;

-- name: sample_contents
-- Some of the longer contents of an address, to look for traces of them after erasure.
SELECT content FROM entry
WHERE tenant = :tenant AND address_id = :address_id AND LENGTH(content) >= 24
ORDER BY seq DESC
LIMIT :limit;

-- name: sample_values
-- Some of the longer changes of a record, to look for traces of them after erasure.
SELECT data FROM record_version
WHERE tenant = :tenant AND address_id = :address_id AND LENGTH(data) >= 24
ORDER BY version DESC
LIMIT :limit;

-- name: value_lives
-- A row if a text is part of any record.
SELECT 1 FROM record_version WHERE tenant = :tenant AND data LIKE :pattern ESCAPE '!' LIMIT 1;

-- name: document_lives
-- A row if a text is part of any document.
SELECT 1 FROM document WHERE tenant = :tenant AND body LIKE :pattern ESCAPE '!' LIMIT 1;

-- name: run_lives
-- A row if a text is part of the id of a run.
SELECT 1 FROM run WHERE tenant = :tenant AND id LIKE :pattern ESCAPE '!' LIMIT 1;

-- name: content_lives
-- A row if a text is part of any entry.
SELECT 1 FROM entry WHERE tenant = :tenant AND content LIKE :pattern ESCAPE '!' LIMIT 1;

-- name: next_expiry
-- The time at which the next entry expires.
SELECT MIN(expires_at) FROM entry WHERE tenant = :tenant AND expires_at IS NOT NULL;

-- name: next_address_expiry
-- The time at which the next address expires.
SELECT MIN(expires_at) FROM address WHERE tenant = :tenant AND expires_at > :now;

-- name: expiry_after
-- The expiry of the entry at position :skip among the expired ones.
SELECT expires_at FROM entry
WHERE tenant = :tenant AND expires_at <= :now
ORDER BY expires_at
LIMIT 1 OFFSET :skip;

-- name: delete_expired_entries
-- Remove the entries that expired up to a time.
DELETE FROM entry WHERE tenant = :tenant AND expires_at <= :until;

-- name: expired_addresses
-- Expired addresses without entries.
SELECT a.id FROM address a
WHERE a.tenant = :tenant AND a.expires_at <= :now
  AND NOT EXISTS (SELECT 1 FROM entry e WHERE e.tenant = :tenant AND e.address_id = a.id)
LIMIT :limit;

-- name: erase_idempotency_of_entry
-- Empty the stored answers that contain one entry.
UPDATE idempotency SET request_hash = NULL, response = NULL
WHERE tenant = :tenant AND response IS NOT NULL AND key_hash IN (
  SELECT key_hash FROM idempotency_touch
  WHERE tenant = :tenant AND address_id = :address_id AND entry_id IN (:entry_id, ''));

-- name: delete_old_idempotency
-- Remove expired answers.
DELETE FROM idempotency WHERE tenant = :tenant AND expires_at <= :now;

-- name: delete_finished_jobs
-- Remove jobs that were finished long ago.
DELETE FROM job WHERE tenant = :tenant AND state IN ('done', 'cancelled') AND finished_at <= :before;

-- name: first_event_after
-- The number of the first event after a time; older events are deleted.
SELECT COALESCE(MIN(seq), 0) FROM event WHERE tenant = :tenant AND at > :before;

-- name: delete_events_below
-- Remove old events.
DELETE FROM event WHERE tenant = :tenant AND seq < :seq;

-- name: count_rows_of_address
-- The number of rows that still refer to an address, for the check after an erasure.
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
-- The time at which the next stored answer expires.
SELECT MIN(expires_at) FROM idempotency WHERE tenant = :tenant;

-- name: docids_of_version
-- The number of one version of an entry.
SELECT docid FROM entry WHERE tenant = :tenant AND id = :id AND version = :version;

-- name: docids_of_entry
-- The numbers of every version of one entry.
SELECT docid FROM entry WHERE tenant = :tenant AND id = :id;

-- name: docids_to
-- The numbers of the entries of an address up to a sequence number.
SELECT docid FROM entry WHERE tenant = :tenant AND address_id = :address_id AND seq <= :seq;

-- name: expired_docids
-- The numbers of the entries that expired up to a time.
SELECT docid FROM entry WHERE tenant = :tenant AND expires_at <= :until;

-- name: delete_removals_below
-- Remove old removals. An index that has not seen them is reloaded.
DELETE FROM removal WHERE tenant = :tenant AND seq < (SELECT MAX(seq) FROM removal WHERE tenant = :tenant) - :keep;

-- name: count_evidence
-- The number of passages that a fact rests on.
SELECT COUNT(*) FROM evidence WHERE tenant = :tenant AND fact_id = :fact_id;

-- name: delete_evidence_of_fact
-- Remove the evidence of a fact.
DELETE FROM evidence WHERE tenant = :tenant AND fact_id = :fact_id;

-- name: entry_addresses
-- The addresses of the versions of an entry.
SELECT DISTINCT address_id FROM entry WHERE tenant = :tenant AND id = :id;

-- name: old_runs
-- Runs that started before a time.
SELECT id FROM run WHERE tenant = :tenant AND started_at < :before ORDER BY started_at LIMIT :limit;

-- name: interrupt_runs
-- Mark the runs whose process has died as interrupted.
UPDATE run SET state = 'interrupted', error = 'The process ended during the run.', ended_at = :now
WHERE tenant = :tenant AND started_at <= :now AND state = 'running' AND lease_until < :now;

-- name: delete_record
-- Remove the value of a record.
DELETE FROM record WHERE tenant = :tenant AND address_id = :address_id;

-- name: delete_record_versions
-- Remove the changes of a record.
DELETE FROM record_version WHERE tenant = :tenant AND address_id = :address_id;

-- name: give_file
-- Move a file to another address.
UPDATE file SET address_id = :address_id WHERE tenant = :tenant AND id = :id;

-- name: delete_files_of
-- Remove the files of a session, without their bytes.
DELETE FROM file WHERE tenant = :tenant AND address_id = :address_id;

-- name: file_lives
-- A row if a text is part of the name or type of any file.
SELECT 1 FROM file WHERE tenant = :tenant AND (filename LIKE :pattern ESCAPE '!' OR mimetype LIKE :pattern ESCAPE '!') LIMIT 1;

-- name: add_erasure
-- Add an entry to the erasure log. The id reveals nothing.
INSERT INTO erasure (tenant, seq, kind, id, at)
SELECT :tenant, COALESCE(MAX(seq), 0) + 1, :kind, :id, CAST(:at AS BIGINT) FROM erasure WHERE tenant = :tenant;

-- name: delete_words
-- Remove entries from the index of words.
-- engine: sqlite
DELETE FROM word WHERE rowid IN NUMBERS(:docids);
-- engine: postgres
DELETE FROM word WHERE tenant = :tenant
  AND docid IN NUMBERS(:docids);

-- name: delete_vectors
-- Remove the vectors of entries.
DELETE FROM vector WHERE tenant = :tenant
  AND model IN (SELECT id FROM model WHERE tenant = :tenant) AND docid IN NUMBERS(:docids);

-- name: delete_facts
-- Remove the fact rows of some entries.
DELETE FROM fact WHERE tenant = :tenant AND docid IN NUMBERS(:docids);

-- name: delete_folds
-- Remove the links from some entries to their summaries.
DELETE FROM folded WHERE tenant = :tenant AND docid IN NUMBERS(:docids);

-- name: delete_summaries
-- Remove the summary rows of some entries.
DELETE FROM summary WHERE tenant = :tenant AND docid IN NUMBERS(:docids);

-- name: erase_idempotency
-- Empty the stored answers that contain some addresses. Their idempotency keys cannot be used again.
-- engine: sqlite
UPDATE idempotency SET request_hash = NULL, response = NULL
WHERE tenant = :tenant AND response IS NOT NULL AND key_hash IN (
  SELECT key_hash FROM idempotency_touch
  WHERE tenant = :tenant AND address_id IN NUMBERS(:addresses));
-- engine: postgres
UPDATE idempotency SET request_hash = NULL, response = NULL
WHERE tenant = :tenant AND response IS NOT NULL AND key_hash = ANY(ARRAY(
  SELECT key_hash FROM idempotency_touch
  WHERE tenant = :tenant AND address_id IN NUMBERS(:addresses)));

-- name: delete_idempotency_touches
-- Forget which stored answers contain some addresses.
DELETE FROM idempotency_touch
WHERE tenant = :tenant AND address_id IN NUMBERS(:addresses);

-- name: delete_jobs_of
-- Remove the jobs that concern some addresses.
DELETE FROM job
WHERE tenant = :tenant AND address_id IN NUMBERS(:addresses);

-- name: facts_from
-- The facts that rest on some sessions.
SELECT DISTINCT fact_id FROM evidence
WHERE tenant = :tenant AND address_id IN NUMBERS(:addresses)
ORDER BY fact_id;

-- name: delete_evidence_from
-- Remove some sessions from the evidence of all facts.
DELETE FROM evidence
WHERE tenant = :tenant AND address_id IN NUMBERS(:addresses);

-- name: delete_plans_of
-- Remove the plans for some sessions.
DELETE FROM plan
WHERE tenant = :tenant AND address_id IN NUMBERS(:addresses);

-- name: delete_folds_at
-- Forget which entries are behind the summaries of some addresses.
DELETE FROM folded
WHERE tenant = :tenant AND address_id IN NUMBERS(:addresses);

-- name: delete_summaries_at
-- Remove the summary rows of some addresses.
DELETE FROM summary
WHERE tenant = :tenant AND address_id IN NUMBERS(:addresses);

-- name: runs_of
-- The runs that have seen some addresses.
SELECT DISTINCT run_id FROM run_touch
WHERE tenant = :tenant AND address_id IN NUMBERS(:addresses);

-- name: delete_touches_of
-- Forget which runs have seen some addresses.
DELETE FROM run_touch
WHERE tenant = :tenant AND address_id IN NUMBERS(:addresses);

-- name: empty_runs
-- Remove the inputs and results of some runs.
UPDATE run SET asked = '{"erased": true}', output = NULL, error = NULL
WHERE tenant = :tenant AND id IN TEXTS(:runs);

-- name: delete_steps_of_runs
-- Remove the steps of some runs.
DELETE FROM run_step
WHERE tenant = :tenant AND run_id IN TEXTS(:runs);

-- name: delete_touches_of_runs
-- Forget which addresses some runs have seen.
DELETE FROM run_touch
WHERE tenant = :tenant AND run_id IN TEXTS(:runs);

-- name: delete_ties_of
-- Remove the ties of some records.
DELETE FROM record_tie
WHERE tenant = :tenant AND address_id IN NUMBERS(:addresses);

-- name: bury_addresses
-- Move addresses to the grave, which no read looks into, until their contents are deleted.
UPDATE address SET collection_id = :grave, path = CAST(id AS TEXT), metadata = NULL
WHERE tenant = :tenant AND id IN NUMBERS(:addresses);

-- name: add_erasures
-- Add the erasure of some addresses to the log, by their numbers.
-- engine: sqlite
INSERT INTO erasure (tenant, seq, kind, id, at)
SELECT :tenant, (SELECT COALESCE(MAX(seq), 0) FROM erasure WHERE tenant = :tenant) + 1 + key, :kind, CAST(value AS TEXT), :at
FROM json_each(:addresses);
-- engine: postgres
INSERT INTO erasure (tenant, seq, kind, id, at)
SELECT :tenant, last.seq + one.place, :kind, one.id, CAST(:at AS BIGINT)
FROM (SELECT COALESCE(MAX(seq), 0) AS seq FROM erasure WHERE tenant = :tenant) AS last
CROSS JOIN UNNEST(STRING_TO_ARRAY(BTRIM(:addresses, '[]'), ',')) WITH ORDINALITY AS one (id, place);

-- name: residue
-- The needles that are part of any row of the tenant. Needles are rarely found, so all are searched in one pass over the rows.
-- engine: postgres
SELECT DISTINCT sought.piece
FROM (
  SELECT CONVERT_TO(CONCAT_WS(' ', id, kind, role, name, content, metadata, tool, origin), 'UTF8')
  FROM entry WHERE tenant = :tenant
  UNION ALL SELECT CONVERT_TO(CONCAT_WS(' ', path, metadata), 'UTF8') FROM address WHERE tenant = :tenant
  UNION ALL SELECT CONVERT_TO(CONCAT_WS(' ', dialect, name, kind, policy), 'UTF8') FROM collection WHERE tenant = :tenant
  UNION ALL SELECT CONVERT_TO(CONCAT_WS(' ', id, kind, slot, state, payload, worker, error, result), 'UTF8')
  FROM job WHERE tenant = :tenant
  UNION ALL SELECT CONVERT_TO(CONCAT_WS(' ', operation, actor), 'UTF8') FROM event WHERE tenant = :tenant
  UNION ALL SELECT response FROM idempotency WHERE tenant = :tenant
  UNION ALL SELECT CONVERT_TO(entry_id, 'UTF8') FROM idempotency_touch WHERE tenant = :tenant
  UNION ALL SELECT CONVERT_TO(CONCAT_WS(' ', subject, same, topic, plan_id, held, ended_by), 'UTF8')
  FROM fact WHERE tenant = :tenant
  UNION ALL SELECT CONVERT_TO(CONCAT_WS(' ', fact_id, entry_id, origin, plan_id), 'UTF8') FROM evidence WHERE tenant = :tenant
  UNION ALL SELECT CONVERT_TO(CONCAT_WS(' ', id, state, method, note, steps), 'UTF8') FROM plan WHERE tenant = :tenant
  UNION ALL SELECT CONVERT_TO(name, 'UTF8') FROM model WHERE tenant = :tenant
  UNION ALL SELECT CONVERT_TO(CONCAT_WS(' ', kind, id, name, body), 'UTF8') FROM document WHERE tenant = :tenant
  UNION ALL SELECT CONVERT_TO(id, 'UTF8') FROM summary WHERE tenant = :tenant
  UNION ALL SELECT CONVERT_TO(summary_id, 'UTF8') FROM folded WHERE tenant = :tenant
  UNION ALL SELECT CONVERT_TO(CONCAT_WS(' ', id, workflow_id, name, state, asked, output, error), 'UTF8')
  FROM run WHERE tenant = :tenant
  UNION ALL SELECT CONVERT_TO(CONCAT_WS(' ', run_id, body), 'UTF8') FROM run_step WHERE tenant = :tenant
  UNION ALL SELECT CONVERT_TO(run_id, 'UTF8') FROM run_touch WHERE tenant = :tenant
  UNION ALL SELECT CONVERT_TO(value, 'UTF8') FROM record WHERE tenant = :tenant
  UNION ALL SELECT CONVERT_TO(CONCAT_WS(' ', mode, data, actor), 'UTF8') FROM record_version WHERE tenant = :tenant
  UNION ALL SELECT CONVERT_TO(tie, 'UTF8') FROM record_tie WHERE tenant = :tenant
  UNION ALL SELECT CONVERT_TO(CONCAT_WS(' ', id, digest, filename, mimetype, state, reason), 'UTF8')
  FROM file WHERE tenant = :tenant
  UNION ALL SELECT CONVERT_TO(CONCAT_WS(' ', kind, id), 'UTF8') FROM erasure WHERE tenant = :tenant
  UNION ALL SELECT CONVERT_TO(ARRAY_TO_STRING(TSVECTOR_TO_ARRAY(tokens), ' '), 'UTF8') FROM word WHERE tenant = :tenant
) AS kept (text)
JOIN UNNEST(CAST(:needles AS BYTEA[])) AS sought (piece) ON POSITION(sought.piece IN kept.text) > 0;

-- name: delete_erasures_after
-- Remove the erasures after a number from the log: the entries before them imply these.
DELETE FROM erasure WHERE tenant = :tenant AND seq > :after;

-- name: page_names
-- The entries after a number, with their addresses and ids.
SELECT docid, address_id, id FROM entry WHERE tenant = :tenant AND docid > :after
ORDER BY docid
LIMIT :limit;

-- name: located_address
-- The place of an address.
SELECT a.id, a.collection_id, c.kind, c.dialect, c.name, a.path FROM address a
JOIN collection c ON c.tenant = a.tenant AND c.id = a.collection_id
WHERE a.tenant = :tenant AND c.tenant = :tenant AND a.id = :id;

-- name: addresses_in
-- The addresses of a collection, with their places.
SELECT a.id, a.collection_id, c.kind, c.dialect, c.name, a.path FROM address a
JOIN collection c ON c.tenant = a.tenant AND c.id = a.collection_id
WHERE a.tenant = :tenant AND c.tenant = :tenant AND a.collection_id = :id;

-- name: collection_exists
-- A row if there is such a collection.
SELECT 1 FROM collection WHERE tenant = :tenant AND id = :id;

-- name: take_over_erasures
-- Make every unfinished erasure due now, even if it has a lease or has failed too often.
UPDATE job SET state = 'ready', run_at = :now, lease_until = NULL, attempts = 0
WHERE tenant = :tenant AND kind = 'erase' AND state IN ('ready', 'running', 'dead');

-- name: unused_anchors
-- Addresses that stand for all records of a user and are not in use any more.
SELECT a.id FROM collection c
JOIN address a ON a.tenant = c.tenant AND a.collection_id = c.id AND a.path = ''
WHERE c.tenant = :tenant AND a.tenant = :tenant AND c.dialect = 'user' AND c.kind = 'record'
  AND NOT EXISTS (SELECT 1 FROM run_touch t WHERE t.tenant = :tenant AND t.address_id = a.id)
  AND NOT EXISTS (SELECT 1 FROM idempotency_touch i WHERE i.tenant = :tenant AND i.address_id = a.id)
LIMIT :limit;

-- name: users_without_records
-- The collections of users' records that are empty.
SELECT c.id FROM collection c
WHERE c.tenant = :tenant AND c.dialect = 'user' AND c.kind = 'record'
  AND NOT EXISTS (SELECT 1 FROM address a WHERE a.tenant = :tenant AND a.collection_id = c.id)
LIMIT :limit;

-- name: entries_written_for
-- The entries that runs of a user wrote, which their tie names, with their addresses.
-- engine: sqlite
SELECT DISTINCT e.id, e.address_id FROM record_tie t
JOIN entry e ON e.tenant = t.tenant AND e.docid = -t.address_id
WHERE t.tenant = :tenant AND e.tenant = :tenant AND t.tie = :tie;
-- engine: postgres
SELECT DISTINCT e.id, e.address_id FROM record_tie t
JOIN LATERAL (SELECT id, address_id FROM entry WHERE tenant = :tenant AND docid = -t.address_id LIMIT 1) e ON TRUE
WHERE t.tenant = :tenant AND t.tie = :tie;

-- name: delete_tie
-- Remove a tie from everything that has it.
DELETE FROM record_tie WHERE tenant = :tenant AND tie = :tie;

-- name: addresses_at_path
-- The addresses with a path, with the places and policies of their collections.
SELECT a.id, a.collection_id, c.kind, c.dialect, c.name, c.policy FROM address a
JOIN collection c ON c.tenant = a.tenant AND c.id = a.collection_id
WHERE a.tenant = :tenant AND c.tenant = :tenant AND a.path = :path;

-- name: distil_again
-- Have all turns of a session consolidated again.
UPDATE address SET distilled_seq = 0 WHERE tenant = :tenant AND id = :id;

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

-- name: add_removal
-- Note that something is out of search, so that every index in memory drops it.
INSERT INTO removal (tenant, seq, docid, address_id)
SELECT :tenant, COALESCE(MAX(seq), 0) + 1, :docid, :address_id FROM removal WHERE tenant = :tenant;

-- name: add_words
-- Make an entry findable by its words.
INSERT INTO word (rowid, tokens) VALUES (:docid, :tokens);

-- name: delete_words
-- Make entries no longer findable by their words.
DELETE FROM word WHERE rowid IN (SELECT value FROM json_each(:docids));

-- name: delete_vectors
-- Make entries no longer findable by their meaning.
DELETE FROM vector WHERE tenant = :tenant
  AND model IN (SELECT id FROM model WHERE tenant = :tenant) AND docid IN (SELECT value FROM json_each(:docids));

-- name: postings
-- The numbers above one, as a list in text, of the entries of a place that hold a token. A file holds one tenant, and whoever
-- asks looks them up among its rows; so if the place holds most of them, taking all and leaving out the others is quicker.
SELECT GROUP_CONCAT(rowid) FROM word
WHERE word MATCH CASE WHEN :most = 1 THEN '"' ELSE '"' || :place || '" "' END || :token || '"' AND rowid > :after;

-- name: words_of
-- The tokens of some entries, which were found among the tenant's own.
SELECT rowid, tokens FROM word WHERE rowid IN (SELECT value FROM json_each(:docids));

-- name: search_state
-- The highest number that an entry was ever given, and that of the newest removal from search.
SELECT COALESCE((SELECT s.seq FROM sqlite_sequence s WHERE s.name = 'entry'), 0), COALESCE(MAX(seq), 0)
FROM removal WHERE tenant = :tenant;

-- name: vectors_of
-- The vectors of some entries.
SELECT docid, value FROM vector
WHERE tenant = :tenant AND model = :model AND docid IN (SELECT value FROM json_each(:docids));

-- name: metadata_of
-- The metadata of some entries.
SELECT docid, metadata FROM entry WHERE tenant = :tenant AND docid IN (SELECT value FROM json_each(:docids));

-- name: texts_of
-- What is embedded of some entries, current or not: a search may ask for what was.
SELECT e.docid, e.id, e.version, e.name, e.content, c.policy
FROM entry e
CROSS JOIN address a
CROSS JOIN collection c
WHERE e.tenant = :tenant AND a.tenant = :tenant AND c.tenant = :tenant AND e.docid IN (SELECT value FROM json_each(:docids))
  AND a.id = e.address_id AND c.id = a.collection_id;

-- name: hits
-- Entries by their numbers, while they live, with where they are.
SELECT e.id, e.version, e.seq, e.kind, e.role, e.name, e.content, e.metadata, e.tool, e.origin, e.importance, e.confidence,
  e.occurred_at, e.recorded_at, COALESCE(e.created_at, e.recorded_at), a.path, a.id, e.docid, a.collection_id
FROM entry e
JOIN address a ON a.tenant = e.tenant AND a.id = e.address_id
WHERE e.tenant = :tenant AND a.tenant = :tenant AND e.docid IN (SELECT value FROM json_each(:docids))
  AND (e.retired_at IS NULL OR :history = 1) AND (e.expires_at IS NULL OR e.expires_at > :now);

-- name: load_collection
-- Everything that search needs of a collection, one list for each column: a row for each entry would take twice the time.
SELECT GROUP_CONCAT(e.docid), GROUP_CONCAT(e.address_id), GROUP_CONCAT(e.seq), GROUP_CONCAT(e.occurred_at),
  GROUP_CONCAT(COALESCE(e.expires_at, 4611686018427387904)), GROUP_CONCAT(OCTET_LENGTH(e.content)), GROUP_CONCAT(e.asks),
  JSON_GROUP_ARRAY(e.kind), JSON_GROUP_ARRAY(e.role), JSON_GROUP_ARRAY(e.name)
FROM address a
CROSS JOIN entry e
WHERE a.tenant = :tenant AND e.tenant = :tenant AND a.collection_id = :id AND e.address_id = a.id
  AND (e.retired_at IS NULL OR :history = 1);

-- name: load_address
-- The same of an address, after a sequence number.
SELECT GROUP_CONCAT(e.docid), GROUP_CONCAT(e.address_id), GROUP_CONCAT(e.seq), GROUP_CONCAT(e.occurred_at),
  GROUP_CONCAT(COALESCE(e.expires_at, 4611686018427387904)), GROUP_CONCAT(OCTET_LENGTH(e.content)), GROUP_CONCAT(e.asks),
  JSON_GROUP_ARRAY(e.kind), JSON_GROUP_ARRAY(e.role), JSON_GROUP_ARRAY(e.name)
FROM entry e
WHERE e.tenant = :tenant AND e.address_id = :id AND e.seq > :after AND (e.retired_at IS NULL OR :history = 1);

-- name: load_new
-- The same of a collection's entries above a number.
SELECT GROUP_CONCAT(e.docid), GROUP_CONCAT(e.address_id), GROUP_CONCAT(e.seq), GROUP_CONCAT(e.occurred_at),
  GROUP_CONCAT(COALESCE(e.expires_at, 4611686018427387904)), GROUP_CONCAT(OCTET_LENGTH(e.content)), GROUP_CONCAT(e.asks),
  JSON_GROUP_ARRAY(e.kind), JSON_GROUP_ARRAY(e.role), JSON_GROUP_ARRAY(e.name)
FROM entry e
CROSS JOIN address a
WHERE e.tenant = :tenant AND a.tenant = :tenant AND e.docid > :after AND a.id = e.address_id AND a.collection_id = :id
  AND e.retired_at IS NULL;

-- name: add_entry
-- Write one entry; the number that it gets is never used again.
INSERT INTO entry (tenant, id, version, address_id, seq, kind, role, name, content, metadata, tool, origin,
  importance, confidence, occurred_at, recorded_at, created_at, expires_at, asks)
VALUES (:tenant, :id, :version, :address_id, :seq, :kind, :role, :name, :content, :metadata, :tool, :origin,
  :importance, :confidence, :occurred_at, :recorded_at, :created_at, :expires_at, :asks)
RETURNING docid;

-- name: add_vector
-- Keep the vectors of an entry, if it is still there, and so is the model.
INSERT INTO vector (tenant, model, docid, value)
SELECT :tenant, :model, e.docid, :value FROM entry e
JOIN model m ON m.tenant = :tenant AND m.id = :model AND m.name = :name
WHERE e.tenant = :tenant AND e.id = :id AND e.version = :version
ON CONFLICT (tenant, model, docid) DO NOTHING;

-- name: vectors_between
-- The vectors of a model from one entry to another.
SELECT docid, value FROM vector WHERE tenant = :tenant AND model = :model AND docid BETWEEN :first AND :last;

-- name: entries_exist
-- Which of some ids are already used, and where, whatever became of the entries.
SELECT DISTINCT id, address_id FROM entry WHERE tenant = :tenant AND id IN (SELECT value FROM json_each(:ids));

-- name: find_graph
-- Whether a collection is searched by a graph. Here none is: all vectors of a file fit into memory as bytes.
SELECT 1 FROM model WHERE tenant = :tenant AND id = :model AND :collection IS NULL;

-- name: delete_facts
-- What some versions of facts were besides their entries.
DELETE FROM fact WHERE tenant = :tenant AND docid IN (SELECT value FROM json_each(:docids));

-- name: delete_folds
-- That some entries were behind summaries.
DELETE FROM folded WHERE tenant = :tenant AND docid IN (SELECT value FROM json_each(:docids));

-- name: delete_summaries
-- Where some summaries stood.
DELETE FROM summary WHERE tenant = :tenant AND docid IN (SELECT value FROM json_each(:docids));

-- name: settle_notes
-- Let notes that became facts be turns like any other: they were searched as they stood only until then.
UPDATE entry SET kind = 'turn'
WHERE tenant = :tenant AND address_id = :address_id AND kind = 'note' AND id IN (SELECT value FROM json_each(:ids))
RETURNING docid;

-- name: unsettle_notes
-- Let turns be the notes that they were.
UPDATE entry SET kind = 'note'
WHERE tenant = :tenant AND address_id = :address_id AND kind = 'turn' AND id IN (SELECT value FROM json_each(:ids))
RETURNING docid;

-- name: kinds_of
-- The kinds of some entries, while they are current.
SELECT docid, kind FROM entry
WHERE tenant = :tenant AND docid IN (SELECT value FROM json_each(:docids)) AND retired_at IS NULL;

-- name: facts_of
-- What some facts are besides their entries.
SELECT e.id, e.version, e.content, f.subject, e.kind, e.confidence, e.occurred_at, f.topic, f.valid_from, f.valid_to,
  f.held
FROM entry e
LEFT JOIN fact f ON f.tenant = :tenant AND f.docid = e.docid
WHERE e.tenant = :tenant AND e.id IN (SELECT value FROM json_each(:ids)) AND e.retired_at IS NULL;

-- name: facts_at
-- The same for some entries by their numbers.
SELECT e.docid, e.id, e.version, e.content, f.subject, e.kind, e.confidence, e.occurred_at, f.topic, f.valid_from, f.valid_to
FROM entry e
LEFT JOIN fact f ON f.tenant = :tenant AND f.docid = e.docid
WHERE e.tenant = :tenant AND e.docid IN (SELECT value FROM json_each(:docids)) AND e.retired_at IS NULL;

-- name: lives_of
-- When some entries were known and true, and who is behind them.
SELECT e.docid, e.recorded_at, e.retired_at, COALESCE(f.valid_from, e.occurred_at), f.valid_to, e.origin
FROM entry e
LEFT JOIN fact f ON f.tenant = :tenant AND f.docid = e.docid
WHERE e.tenant = :tenant AND e.docid IN (SELECT value FROM json_each(:docids));

-- name: records_of
-- The records at some addresses, with the names of their collections.
SELECT a.id, a.collection_id, a.path, r.version, r.value, r.created_at, r.updated_at, r.expires_at, c.name
FROM record r
CROSS JOIN address a
CROSS JOIN collection c
WHERE r.tenant = :tenant AND a.tenant = :tenant AND c.tenant = :tenant
  AND r.address_id IN (SELECT value FROM json_each(:addresses)) AND a.id = r.address_id AND c.id = a.collection_id;

-- name: values_of
-- The values of the records at some addresses.
SELECT address_id, value FROM record
WHERE tenant = :tenant AND address_id IN (SELECT value FROM json_each(:addresses));

-- name: erase_idempotency
-- Empty the stored answers that speak of some addresses; the keys themselves stay refused.
UPDATE idempotency SET request_hash = NULL, response = NULL
WHERE tenant = :tenant AND response IS NOT NULL AND key_hash IN (
  SELECT key_hash FROM idempotency_touch
  WHERE tenant = :tenant AND address_id IN (SELECT value FROM json_each(:addresses)));

-- name: delete_idempotency_touches
-- Forget which answers spoke of some addresses.
DELETE FROM idempotency_touch
WHERE tenant = :tenant AND address_id IN (SELECT value FROM json_each(:addresses));

-- name: delete_jobs_of
-- Remove the jobs that concern some addresses.
DELETE FROM job
WHERE tenant = :tenant AND address_id IN (SELECT value FROM json_each(:addresses));

-- name: facts_from
-- The facts that are based on what was said in some sessions.
SELECT DISTINCT fact_id FROM evidence
WHERE tenant = :tenant AND address_id IN (SELECT value FROM json_each(:addresses))
ORDER BY fact_id;

-- name: delete_evidence_from
-- Take away what was said in some sessions from the facts that are based on it.
DELETE FROM evidence
WHERE tenant = :tenant AND address_id IN (SELECT value FROM json_each(:addresses));

-- name: delete_plans_of
-- Remove the plans for some sessions.
DELETE FROM plan
WHERE tenant = :tenant AND address_id IN (SELECT value FROM json_each(:addresses));

-- name: delete_folds_at
-- Forget what the summaries of some addresses were made of.
DELETE FROM folded
WHERE tenant = :tenant AND address_id IN (SELECT value FROM json_each(:addresses));

-- name: delete_summaries_at
-- Forget where the summaries of some addresses stand.
DELETE FROM summary
WHERE tenant = :tenant AND address_id IN (SELECT value FROM json_each(:addresses));

-- name: runs_of
-- The runs that know something of some addresses.
SELECT DISTINCT run_id FROM run_touch
WHERE tenant = :tenant AND address_id IN (SELECT value FROM json_each(:addresses));

-- name: delete_touches_of
-- Forget which runs know something of some addresses.
DELETE FROM run_touch
WHERE tenant = :tenant AND address_id IN (SELECT value FROM json_each(:addresses));

-- name: empty_runs
-- Take away what some runs were given and gave.
UPDATE run SET asked = '{"erased": true}', output = NULL, error = NULL
WHERE tenant = :tenant AND id IN (SELECT value FROM json_each(:runs));

-- name: delete_steps_of_runs
-- Take away what the steps of some runs did.
DELETE FROM run_step
WHERE tenant = :tenant AND run_id IN (SELECT value FROM json_each(:runs));

-- name: delete_touches_of_runs
-- Forget what some runs knew of.
DELETE FROM run_touch
WHERE tenant = :tenant AND run_id IN (SELECT value FROM json_each(:runs));

-- name: delete_ties_of
-- Untie some records from everything.
DELETE FROM record_tie
WHERE tenant = :tenant AND address_id IN (SELECT value FROM json_each(:addresses));

-- name: bury_addresses
-- Take addresses out of their collections, so that nothing can find them any more, until what is there is gone.
UPDATE address SET collection_id = :grave, path = CAST(id AS TEXT), metadata = NULL
WHERE tenant = :tenant AND id IN (SELECT value FROM json_each(:addresses));

-- name: add_removals
-- Note that all of some addresses is out of search, so that every index in memory drops it.
INSERT INTO removal (tenant, seq, docid, address_id)
SELECT :tenant, (SELECT COALESCE(MAX(seq), 0) FROM removal WHERE tenant = :tenant) + 1 + key, NULL, value
FROM json_each(:addresses);

-- name: add_erasures
-- Note that some addresses were erased, by their numbers.
INSERT INTO erasure (tenant, seq, kind, id, at)
SELECT :tenant, (SELECT COALESCE(MAX(seq), 0) FROM erasure WHERE tenant = :tenant) + 1 + key, :kind, CAST(value AS TEXT), :at
FROM json_each(:addresses);

-- name: add_events
-- Record a write that has changed several addresses: for each its collection, its number, and how many entries it got.
INSERT INTO event (tenant, seq, at, operation, collection_id, address_id, entries, actor)
SELECT :tenant, (SELECT COALESCE(MAX(seq), 0) FROM event WHERE tenant = :tenant) + 1 + key, :at, :operation,
  json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'), :actor
FROM json_each(:changed);

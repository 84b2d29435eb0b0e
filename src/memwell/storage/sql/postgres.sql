-- Queries that PostgreSQL words in its own way: the same names as for SQLite. Where rows are asked for by their numbers, each is
-- looked up by itself: a plan that was made when the tables were small would else read all of a tenant's. Whoever writes holds its tenant, so the next
-- number is simply the highest plus one. :next_docid is bound by the transaction.

-- name: add_event
-- Record a write.
INSERT INTO event (tenant, seq, at, operation, collection_id, address_id, entries, actor)
SELECT :tenant, COALESCE(MAX(seq), 0) + 1, CAST(:at AS BIGINT), :operation, CAST(:collection_id AS BIGINT),
  CAST(:address_id AS BIGINT), CAST(:entries AS BIGINT), :actor
FROM event WHERE tenant = :tenant;

-- name: due_jobs
-- Jobs of known kinds that are due or were abandoned, the longest waiting first.
SELECT found.id FROM (
  SELECT id, state, run_at FROM job
  WHERE tenant = :tenant AND state = 'ready' AND run_at <= :now
    AND kind IN (SELECT JSON_ARRAY_ELEMENTS_TEXT(CAST(:kinds AS JSON)))
  UNION ALL
  SELECT id, state, run_at FROM job
  WHERE tenant = :tenant AND state = 'running' AND lease_until <= :now
    AND kind IN (SELECT JSON_ARRAY_ELEMENTS_TEXT(CAST(:kinds AS JSON)))
) AS found
ORDER BY found.state, found.run_at
LIMIT :limit;

-- name: next_due
-- When the next job of a known kind is due.
SELECT MIN(CASE WHEN state = 'ready' THEN run_at ELSE lease_until END) FROM job
WHERE tenant = :tenant AND state IN ('ready', 'running')
  AND kind IN (SELECT JSON_ARRAY_ELEMENTS_TEXT(CAST(:kinds AS JSON)));

-- name: add_removal
-- Note that something is out of search, so that every index in memory drops it.
INSERT INTO removal (tenant, seq, docid, address_id)
SELECT :tenant, COALESCE(MAX(seq), 0) + 1, CAST(:docid AS BIGINT), CAST(:address_id AS BIGINT)
FROM removal WHERE tenant = :tenant;

-- name: add_words
-- Make an entry findable by its words. A value has limits, so a very long list is cut; each part names the place.
INSERT INTO word (tenant, docid, part, tokens)
SELECT :tenant, CAST(:docid AS BIGINT), cut.part,
  ARRAY_TO_TSVECTOR((STRING_TO_ARRAY(:tokens, ' '))[1:2] || ARRAY_AGG(cut.token))
FROM (
  SELECT found.token, (found.place - 1) / 2000 AS part
  FROM UNNEST(STRING_TO_ARRAY(:tokens, ' ')) WITH ORDINALITY AS found (token, place)
) AS cut
GROUP BY cut.part;

-- name: delete_words
-- Make entries no longer findable by their words.
DELETE FROM word WHERE tenant = :tenant
  AND docid = ANY(CAST(STRING_TO_ARRAY(BTRIM(:docids, '[]'), ',') AS BIGINT[]));

-- name: delete_vectors
-- Make entries no longer findable by their meaning.
DELETE FROM vector WHERE tenant = :tenant
  AND model IN (SELECT id FROM model WHERE tenant = :tenant)
  AND docid = ANY(CAST(STRING_TO_ARRAY(BTRIM(:docids, '[]'), ',') AS BIGINT[]));

-- name: postings
-- The numbers above one, as a list in text, of the entries of a place that hold a token. All tenants share the index, so the
-- place is always asked for.
SELECT postings(:tenant, CAST('''' || :place || ''' & ''' || REPLACE(REPLACE(:token, '\', '\\'), '''', '''''') || ''''
  AS TSQUERY), :after);

-- name: words_of
-- The tokens of some entries.
SELECT wanted.docid, found.tokens
FROM UNNEST(CAST(STRING_TO_ARRAY(BTRIM(:docids, '[]'), ',') AS BIGINT[])) AS wanted (docid)
CROSS JOIN LATERAL (
  SELECT STRING_AGG(ARRAY_TO_STRING(TSVECTOR_TO_ARRAY(w.tokens), ' '), ' ') AS tokens
  FROM word w WHERE w.tenant = :tenant AND w.docid = wanted.docid
) AS found
WHERE found.tokens IS NOT NULL;

-- name: search_state
-- The highest number that an entry was ever given, and that of the newest removal from search.
SELECT w.docid, COALESCE((SELECT MAX(r.seq) FROM removal r WHERE r.tenant = :tenant), 0)
FROM writer w WHERE w.tenant = :tenant;

-- name: vectors_of
-- The vectors of some entries: those of its parts, one after the other.
SELECT wanted.docid, found.value
FROM UNNEST(CAST(STRING_TO_ARRAY(BTRIM(:docids, '[]'), ',') AS BIGINT[])) AS wanted (docid)
CROSS JOIN LATERAL (
  SELECT STRING_AGG(SUBSTRING(HALFVEC_SEND(v.value) FROM 5), CAST('' AS BYTEA) ORDER BY v.part) AS value
  FROM vector v WHERE v.tenant = :tenant AND v.model = :model AND v.docid = wanted.docid
) AS found
WHERE found.value IS NOT NULL;

-- name: metadata_of
-- The metadata of some entries.
SELECT wanted.docid, found.metadata
FROM UNNEST(CAST(STRING_TO_ARRAY(BTRIM(:docids, '[]'), ',') AS BIGINT[])) AS wanted (docid)
CROSS JOIN LATERAL (SELECT e.metadata FROM entry e WHERE e.tenant = :tenant AND e.docid = wanted.docid LIMIT 1) AS found;

-- name: texts_of
-- What is embedded of some entries, current or not: a search may ask for what was.
SELECT wanted.docid, found.id, found.version, found.name, found.content, found.policy
FROM UNNEST(CAST(STRING_TO_ARRAY(BTRIM(:docids, '[]'), ',') AS BIGINT[])) AS wanted (docid)
CROSS JOIN LATERAL (
  SELECT e.id, e.version, e.name, e.content, c.policy FROM entry e
  JOIN address a ON a.tenant = :tenant AND a.id = e.address_id
  JOIN collection c ON c.tenant = :tenant AND c.id = a.collection_id
  WHERE e.tenant = :tenant AND e.docid = wanted.docid
  LIMIT 1
) AS found;

-- name: hits
-- Entries by their numbers, while they live, with where they are.
SELECT e.id, e.version, e.seq, e.kind, e.role, e.name, e.content, e.metadata, e.tool, e.origin, e.importance, e.confidence,
  e.occurred_at, e.recorded_at, COALESCE(e.created_at, e.recorded_at), a.path, a.id, e.docid, a.collection_id
FROM UNNEST(CAST(STRING_TO_ARRAY(BTRIM(:docids, '[]'), ',') AS BIGINT[])) AS wanted (docid)
CROSS JOIN LATERAL (
  SELECT one.* FROM entry one
  WHERE one.tenant = :tenant AND one.docid = wanted.docid
    AND (one.retired_at IS NULL OR CAST(:history AS BIGINT) = 1) AND (one.expires_at IS NULL OR one.expires_at > :now)
  LIMIT 1
) AS e
CROSS JOIN LATERAL (
  SELECT place.path, place.id, place.collection_id FROM address place
  WHERE place.tenant = :tenant AND place.id = e.address_id
  LIMIT 1
) AS a;

-- name: load_collection
-- Everything that search needs of a collection, one list for each column: a row for each entry would take twice the time.
SELECT STRING_AGG(CAST(e.docid AS TEXT), ','), STRING_AGG(CAST(e.address_id AS TEXT), ','),
  STRING_AGG(CAST(e.seq AS TEXT), ','), STRING_AGG(CAST(e.occurred_at AS TEXT), ','),
  STRING_AGG(CAST(COALESCE(e.expires_at, 4611686018427387904) AS TEXT), ','),
  STRING_AGG(CAST(OCTET_LENGTH(e.content) AS TEXT), ','), STRING_AGG(CAST(e.asks AS TEXT), ','),
  CAST(JSON_AGG(e.kind) AS TEXT), CAST(JSON_AGG(e.role) AS TEXT), CAST(JSON_AGG(e.name) AS TEXT)
FROM address a
JOIN entry e ON e.tenant = a.tenant AND e.address_id = a.id
WHERE a.tenant = :tenant AND e.tenant = :tenant AND a.collection_id = :id AND (e.retired_at IS NULL OR CAST(:history AS BIGINT) = 1);

-- name: load_address
-- The same of an address, after a sequence number.
SELECT STRING_AGG(CAST(e.docid AS TEXT), ','), STRING_AGG(CAST(e.address_id AS TEXT), ','),
  STRING_AGG(CAST(e.seq AS TEXT), ','), STRING_AGG(CAST(e.occurred_at AS TEXT), ','),
  STRING_AGG(CAST(COALESCE(e.expires_at, 4611686018427387904) AS TEXT), ','),
  STRING_AGG(CAST(OCTET_LENGTH(e.content) AS TEXT), ','), STRING_AGG(CAST(e.asks AS TEXT), ','),
  CAST(JSON_AGG(e.kind) AS TEXT), CAST(JSON_AGG(e.role) AS TEXT), CAST(JSON_AGG(e.name) AS TEXT)
FROM entry e
WHERE e.tenant = :tenant AND e.address_id = :id AND e.seq > :after AND (e.retired_at IS NULL OR CAST(:history AS BIGINT) = 1);

-- name: load_new
-- The same of a collection's entries above a number.
SELECT STRING_AGG(CAST(e.docid AS TEXT), ','), STRING_AGG(CAST(e.address_id AS TEXT), ','),
  STRING_AGG(CAST(e.seq AS TEXT), ','), STRING_AGG(CAST(e.occurred_at AS TEXT), ','),
  STRING_AGG(CAST(COALESCE(e.expires_at, 4611686018427387904) AS TEXT), ','),
  STRING_AGG(CAST(OCTET_LENGTH(e.content) AS TEXT), ','), STRING_AGG(CAST(e.asks AS TEXT), ','),
  CAST(JSON_AGG(e.kind) AS TEXT), CAST(JSON_AGG(e.role) AS TEXT), CAST(JSON_AGG(e.name) AS TEXT)
FROM entry e
JOIN address a ON a.tenant = e.tenant AND a.id = e.address_id
WHERE e.tenant = :tenant AND a.tenant = :tenant AND e.docid > :after AND a.collection_id = :id
  AND e.retired_at IS NULL;

-- name: add_entry
-- Write one entry; the number that it gets is never used again.
INSERT INTO entry (tenant, docid, id, version, address_id, seq, kind, role, name, content, metadata, tool, origin,
  importance, confidence, occurred_at, recorded_at, created_at, expires_at, asks)
VALUES (:tenant, :next_docid, :id, :version, :address_id, :seq, :kind, :role, :name, :content, :metadata, :tool, :origin,
  :importance, :confidence, :occurred_at, :recorded_at, :created_at, :expires_at, :asks)
RETURNING docid;

-- name: add_vector
-- Keep the vectors of an entry, if it is still there, and so is the model.
INSERT INTO vector (tenant, model, docid, part, collection_id, dimensions, graph, value)
SELECT :tenant, CAST(:model AS BIGINT), e.docid, part.place - 1, a.collection_id, m.dimensions,
  EXISTS (SELECT 1 FROM graph g WHERE g.tenant = :tenant AND g.model = :model AND g.collection_id = a.collection_id),
  part.value
FROM entry e
JOIN address a ON a.tenant = :tenant AND a.id = e.address_id
JOIN model m ON m.tenant = :tenant AND m.id = :model AND m.name = :name
CROSS JOIN UNNEST(CAST(:value AS HALFVEC[])) WITH ORDINALITY AS part (value, place)
WHERE e.tenant = :tenant AND e.id = :id AND e.version = :version
ON CONFLICT (tenant, model, docid, part) DO NOTHING;

-- name: vectors_between
-- The vectors of a model from one entry to another.
SELECT docid, STRING_AGG(SUBSTRING(HALFVEC_SEND(value) FROM 5), CAST('' AS BYTEA) ORDER BY part) FROM vector
WHERE tenant = :tenant AND model = :model AND docid BETWEEN :first AND :last
GROUP BY docid;

-- name: residue
-- Which of some pieces of text stand in any row of the tenant. They are seldom there, so each row is read, once.
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

-- name: entries_exist
-- Which of some ids are already used, and where, whatever became of the entries.
SELECT wanted.id, found.address_id
FROM JSON_ARRAY_ELEMENTS_TEXT(CAST(:ids AS JSON)) AS wanted (id)
CROSS JOIN LATERAL (SELECT e.address_id FROM entry e WHERE e.tenant = :tenant AND e.id = wanted.id LIMIT 1) AS found;

-- name: find_graph
-- Whether a collection is searched by a graph.
SELECT 1 FROM graph WHERE tenant = :tenant AND model = :model AND collection_id = :collection AND state = 'ready';

-- name: graph_sizes
-- How many vectors of a model the collections have that are in a graph or may be.
SELECT v.model, v.collection_id, v.dimensions, COUNT(*),
  (SELECT g.state FROM graph g WHERE g.tenant = :tenant AND g.model = v.model AND g.collection_id = v.collection_id)
FROM vector v
WHERE v.tenant = :tenant AND v.part = 0
GROUP BY v.model, v.collection_id, v.dimensions;

-- name: add_graph
-- Begin to take a collection into a graph: what is written from now on is in it.
INSERT INTO graph (tenant, model, collection_id, dimensions, state)
VALUES (:tenant, :model, :collection, :dimensions, 'marking')
ON CONFLICT (tenant, model, collection_id) DO NOTHING;

-- name: finish_graph
-- All of a collection is in its graph.
UPDATE graph SET state = 'ready' WHERE tenant = :tenant AND model = :model AND collection_id = :collection;

-- name: delete_graph
-- A collection is no longer searched by a graph.
DELETE FROM graph WHERE tenant = :tenant AND model = :model AND collection_id = :collection;

-- name: mark_vectors
-- Put some of a collection's vectors into the graph, or take them out.
UPDATE vector SET graph = CAST(:graph AS BOOLEAN) WHERE tenant = :tenant AND model = :model AND docid IN (
  SELECT docid FROM vector
  WHERE tenant = :tenant AND model = :model AND collection_id = :collection AND graph <> CAST(:graph AS BOOLEAN)
  LIMIT :limit);

-- name: nearest
-- The entries of a collection that are nearest to a vector, by the graph.
SELECT docid FROM vector
WHERE tenant = :tenant AND model = :model AND collection_id = :collection AND graph AND dimensions = /*dimensions*/
ORDER BY CAST(value AS HALFVEC(/*dimensions*/)) <=> (CAST(:value AS HALFVEC[]))[1]
LIMIT :limit;

-- name: nearest_of
-- Of some entries those that are nearest to a vector, by comparing all.
SELECT docid FROM vector
WHERE tenant = :tenant AND model = :model
  AND docid = ANY(CAST(STRING_TO_ARRAY(BTRIM(:docids, '[]'), ',') AS BIGINT[]))
ORDER BY (value <=> (CAST(:value AS HALFVEC[]))[1]) + 0
LIMIT :limit;

-- name: delete_facts
-- What some versions of facts were besides their entries.
DELETE FROM fact
WHERE tenant = :tenant AND docid = ANY(CAST(STRING_TO_ARRAY(BTRIM(:docids, '[]'), ',') AS BIGINT[]));

-- name: delete_folds
-- That some entries were behind summaries.
DELETE FROM folded WHERE tenant = :tenant AND docid = ANY(CAST(STRING_TO_ARRAY(BTRIM(:docids, '[]'), ',') AS BIGINT[]));

-- name: delete_summaries
-- Where some summaries stood.
DELETE FROM summary WHERE tenant = :tenant AND docid = ANY(CAST(STRING_TO_ARRAY(BTRIM(:docids, '[]'), ',') AS BIGINT[]));

-- name: settle_notes
-- Let notes that became facts be turns like any other: they were searched as they stood only until then.
UPDATE entry SET kind = 'turn'
WHERE tenant = :tenant AND address_id = :address_id AND kind = 'note'
  AND id IN (SELECT JSONB_ARRAY_ELEMENTS_TEXT(CAST(:ids AS JSONB)))
RETURNING docid;

-- name: unsettle_notes
-- Let turns be the notes that they were.
UPDATE entry SET kind = 'note'
WHERE tenant = :tenant AND address_id = :address_id AND kind = 'turn' AND id IN (SELECT JSONB_ARRAY_ELEMENTS_TEXT(CAST(:ids AS JSONB)))
RETURNING docid;

-- name: kinds_of
-- The kinds of some entries, while they are current.
SELECT docid, kind FROM entry
WHERE tenant = :tenant AND docid = ANY(CAST(STRING_TO_ARRAY(BTRIM(:docids, '[]'), ',') AS BIGINT[])) AND retired_at IS NULL;

-- name: facts_of
-- What some facts are besides their entries.
SELECT e.id, e.version, e.content, f.subject, e.kind, e.confidence, e.occurred_at, f.topic, f.valid_from, f.valid_to,
  f.held
FROM JSON_ARRAY_ELEMENTS_TEXT(CAST(:ids AS JSON)) AS wanted (id)
CROSS JOIN LATERAL (
  SELECT one.* FROM entry one WHERE one.tenant = :tenant AND one.id = wanted.id AND one.retired_at IS NULL LIMIT 1
) AS e
LEFT JOIN fact f ON f.tenant = :tenant AND f.docid = e.docid;

-- name: facts_at
-- The same for some entries by their numbers.
SELECT e.docid, e.id, e.version, e.content, f.subject, e.kind, e.confidence, e.occurred_at, f.topic, f.valid_from, f.valid_to
FROM entry e
LEFT JOIN fact f ON f.tenant = :tenant AND f.docid = e.docid
WHERE e.tenant = :tenant AND e.docid = ANY(CAST(STRING_TO_ARRAY(BTRIM(:docids, '[]'), ',') AS BIGINT[]))
  AND e.retired_at IS NULL;

-- name: lives_of
-- When some entries were known and true, and who is behind them.
SELECT e.docid, e.recorded_at, e.retired_at, COALESCE(f.valid_from, e.occurred_at), f.valid_to, e.origin
FROM entry e
LEFT JOIN fact f ON f.tenant = :tenant AND f.docid = e.docid
WHERE e.tenant = :tenant AND e.docid = ANY(CAST(STRING_TO_ARRAY(BTRIM(:docids, '[]'), ',') AS BIGINT[]));

-- name: records_of
-- The records at some addresses, with the names of their collections.
SELECT found.id, found.collection_id, found.path, found.version, found.value, found.created_at, found.updated_at,
  found.expires_at, found.name
FROM UNNEST(CAST(STRING_TO_ARRAY(BTRIM(:addresses, '[]'), ',') AS BIGINT[])) AS wanted (id)
CROSS JOIN LATERAL (
  SELECT a.id, a.collection_id, a.path, r.version, r.value, r.created_at, r.updated_at, r.expires_at, c.name FROM record r
  JOIN address a ON a.tenant = :tenant AND a.id = r.address_id
  JOIN collection c ON c.tenant = :tenant AND c.id = a.collection_id
  WHERE r.tenant = :tenant AND r.address_id = wanted.id
  LIMIT 1
) AS found;

-- name: values_of
-- The values of the records at some addresses.
SELECT address_id, value FROM record
WHERE tenant = :tenant AND address_id = ANY(CAST(STRING_TO_ARRAY(BTRIM(:addresses, '[]'), ',') AS BIGINT[]));

-- name: erase_idempotency
-- Empty the stored answers that speak of some addresses; the keys themselves stay refused.
UPDATE idempotency SET request_hash = NULL, response = NULL
WHERE tenant = :tenant AND response IS NOT NULL AND key_hash = ANY(ARRAY(
  SELECT key_hash FROM idempotency_touch
  WHERE tenant = :tenant AND address_id = ANY(CAST(STRING_TO_ARRAY(BTRIM(:addresses, '[]'), ',') AS BIGINT[]))));

-- name: delete_idempotency_touches
-- Forget which answers spoke of some addresses.
DELETE FROM idempotency_touch
WHERE tenant = :tenant AND address_id = ANY(CAST(STRING_TO_ARRAY(BTRIM(:addresses, '[]'), ',') AS BIGINT[]));

-- name: delete_jobs_of
-- Remove the jobs that concern some addresses.
DELETE FROM job
WHERE tenant = :tenant AND address_id = ANY(CAST(STRING_TO_ARRAY(BTRIM(:addresses, '[]'), ',') AS BIGINT[]));

-- name: facts_from
-- The facts that are based on what was said in some sessions.
SELECT DISTINCT fact_id FROM evidence
WHERE tenant = :tenant AND address_id = ANY(CAST(STRING_TO_ARRAY(BTRIM(:addresses, '[]'), ',') AS BIGINT[]))
ORDER BY fact_id;

-- name: delete_evidence_from
-- Take away what was said in some sessions from the facts that are based on it.
DELETE FROM evidence
WHERE tenant = :tenant AND address_id = ANY(CAST(STRING_TO_ARRAY(BTRIM(:addresses, '[]'), ',') AS BIGINT[]));

-- name: delete_plans_of
-- Remove the plans for some sessions.
DELETE FROM plan
WHERE tenant = :tenant AND address_id = ANY(CAST(STRING_TO_ARRAY(BTRIM(:addresses, '[]'), ',') AS BIGINT[]));

-- name: delete_folds_at
-- Forget what the summaries of some addresses were made of.
DELETE FROM folded
WHERE tenant = :tenant AND address_id = ANY(CAST(STRING_TO_ARRAY(BTRIM(:addresses, '[]'), ',') AS BIGINT[]));

-- name: delete_summaries_at
-- Forget where the summaries of some addresses stand.
DELETE FROM summary
WHERE tenant = :tenant AND address_id = ANY(CAST(STRING_TO_ARRAY(BTRIM(:addresses, '[]'), ',') AS BIGINT[]));

-- name: runs_of
-- The runs that know something of some addresses.
SELECT DISTINCT run_id FROM run_touch
WHERE tenant = :tenant AND address_id = ANY(CAST(STRING_TO_ARRAY(BTRIM(:addresses, '[]'), ',') AS BIGINT[]));

-- name: delete_touches_of
-- Forget which runs know something of some addresses.
DELETE FROM run_touch
WHERE tenant = :tenant AND address_id = ANY(CAST(STRING_TO_ARRAY(BTRIM(:addresses, '[]'), ',') AS BIGINT[]));

-- name: empty_runs
-- Take away what some runs were given and gave.
UPDATE run SET asked = '{"erased": true}', output = NULL, error = NULL
WHERE tenant = :tenant AND id = ANY(ARRAY(SELECT JSON_ARRAY_ELEMENTS_TEXT(CAST(:runs AS JSON))));

-- name: delete_steps_of_runs
-- Take away what the steps of some runs did.
DELETE FROM run_step
WHERE tenant = :tenant AND run_id = ANY(ARRAY(SELECT JSON_ARRAY_ELEMENTS_TEXT(CAST(:runs AS JSON))));

-- name: delete_touches_of_runs
-- Forget what some runs knew of.
DELETE FROM run_touch
WHERE tenant = :tenant AND run_id = ANY(ARRAY(SELECT JSON_ARRAY_ELEMENTS_TEXT(CAST(:runs AS JSON))));

-- name: delete_ties_of
-- Untie some records from everything.
DELETE FROM record_tie
WHERE tenant = :tenant AND address_id = ANY(CAST(STRING_TO_ARRAY(BTRIM(:addresses, '[]'), ',') AS BIGINT[]));

-- name: bury_addresses
-- Take addresses out of their collections, so that nothing can find them any more, until what is there is gone.
UPDATE address SET collection_id = :grave, path = CAST(id AS TEXT), metadata = NULL
WHERE tenant = :tenant AND id = ANY(CAST(STRING_TO_ARRAY(BTRIM(:addresses, '[]'), ',') AS BIGINT[]));

-- name: add_removals
-- Note that all of some addresses is out of search, so that every index in memory drops it.
INSERT INTO removal (tenant, seq, docid, address_id)
SELECT :tenant, last.seq + one.place, NULL, one.id
FROM (SELECT COALESCE(MAX(seq), 0) AS seq FROM removal WHERE tenant = :tenant) AS last
CROSS JOIN UNNEST(CAST(STRING_TO_ARRAY(BTRIM(:addresses, '[]'), ',') AS BIGINT[])) WITH ORDINALITY AS one (id, place);

-- name: add_erasures
-- Note that some addresses were erased, by their numbers.
INSERT INTO erasure (tenant, seq, kind, id, at)
SELECT :tenant, last.seq + one.place, :kind, one.id, CAST(:at AS BIGINT)
FROM (SELECT COALESCE(MAX(seq), 0) AS seq FROM erasure WHERE tenant = :tenant) AS last
CROSS JOIN UNNEST(STRING_TO_ARRAY(BTRIM(:addresses, '[]'), ',')) WITH ORDINALITY AS one (id, place);

-- name: add_events
-- Record a write that has changed several addresses: for each its collection, its number, and how many entries it got.
INSERT INTO event (tenant, seq, at, operation, collection_id, address_id, entries, actor)
SELECT :tenant, last.seq + one.place, CAST(:at AS BIGINT), :operation, CAST(one.of ->> 0 AS BIGINT),
  CAST(one.of ->> 1 AS BIGINT), CAST(one.of ->> 2 AS BIGINT), :actor
FROM (SELECT COALESCE(MAX(seq), 0) AS seq FROM event WHERE tenant = :tenant) AS last
CROSS JOIN JSON_ARRAY_ELEMENTS(CAST(:changed AS JSON)) WITH ORDINALITY AS one (of, place);

-- name: put_blob
-- The bytes of a file; if they are there already, they were stored just now.
INSERT INTO blob (tenant, digest, content, stored_at) VALUES (:tenant, :digest, :content, :stored_at)
ON CONFLICT (tenant, digest) DO UPDATE SET content = excluded.content, stored_at = excluded.stored_at;

-- name: find_blob
-- The bytes of a file.
SELECT content FROM blob WHERE tenant = :tenant AND digest = :digest;

-- name: piece_of_blob
-- Some of the bytes of a file.
SELECT SUBSTRING(content FROM CAST(:first AS INTEGER) FOR CAST(:size AS INTEGER)) FROM blob
WHERE tenant = :tenant AND digest = :digest;

-- name: has_blob
-- Whether there are the bytes of a file.
SELECT 1 FROM blob WHERE tenant = :tenant AND digest = :digest;

-- name: delete_blob
-- Remove the bytes of a file.
DELETE FROM blob WHERE tenant = :tenant AND digest = :digest;

-- name: list_blobs
-- Which bytes of files there are, and when they were stored, behind a digest.
SELECT digest, stored_at FROM blob WHERE tenant = :tenant AND digest > :after ORDER BY digest LIMIT :limit;

-- name: hold_tenant_row
-- Keep a tenant from being removed until the end of the transaction; nothing, if that has happened.
SELECT docid FROM writer WHERE tenant = :tenant FOR KEY SHARE;

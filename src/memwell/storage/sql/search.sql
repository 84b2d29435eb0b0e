-- Words, vectors and models, and the rows that an index in memory is loaded from.

-- name: removals_after
-- The removals from search after a number.
SELECT seq, docid, address_id FROM removal WHERE tenant = :tenant AND seq > :after ORDER BY seq;

-- name: find_model
-- A model by its name.
SELECT id, dimensions, embedded_to FROM model WHERE tenant = :tenant AND name = :name;

-- name: list_models
-- The models that have vectors, the oldest first.
SELECT id, name, dimensions, embedded_to FROM model WHERE tenant = :tenant ORDER BY id;

-- name: add_model
-- Add a model, unless another writer has just added it.
INSERT INTO model (tenant, id, name, dimensions, embedded_to, created_at)
SELECT :tenant, COALESCE(MAX(id), 0) + 1, :name, :dimensions, 0, :now FROM model WHERE tenant = :tenant
ON CONFLICT (tenant, name) DO NOTHING;

-- name: advance_model
-- Mark the vectors of a model as complete up to an entry.
UPDATE model SET embedded_to = :embedded_to WHERE tenant = :tenant AND id = :id AND embedded_to < :embedded_to;

-- name: reset_model
-- Mark the vectors of a model as incomplete.
UPDATE model SET embedded_to = 0 WHERE tenant = :tenant AND id = :id;

-- name: delete_model
-- Remove a model without vectors.
DELETE FROM model WHERE tenant = :tenant AND id = :id;

-- name: delete_old_vectors
-- Remove some vectors of a model that is no longer used.
DELETE FROM vector WHERE tenant = :tenant AND model = :model AND docid <= :docid;

-- name: vector_after
-- The entry number of the vector at position :skip of a model.
SELECT docid FROM vector WHERE tenant = :tenant AND model = :model ORDER BY docid LIMIT 1 OFFSET :skip;

-- name: pending_entries
-- Entries after a number that have no vectors of a model, in order. Sealed collections need none.
SELECT e.docid, e.id, e.version, e.name, e.content, c.policy, e.kind
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
-- Entries after a number whose words are indexed, in order.
SELECT e.docid, e.address_id, a.collection_id, e.kind, e.name, e.content, c.policy
FROM entry e
CROSS JOIN address a
CROSS JOIN collection c
WHERE e.tenant = :tenant AND a.tenant = :tenant AND c.tenant = :tenant AND e.docid > :after
  AND a.id = e.address_id AND c.id = a.collection_id AND c.sealed = 0 AND e.retired_at IS NULL
ORDER BY e.docid
LIMIT :limit;

-- name: entry_anywhere
-- The newest version of an entry, retired or not, and its place. Entries that are being erased are not found.
SELECT e.docid, e.address_id, a.collection_id, e.kind, e.retired_at, e.expires_at, e.occurred_at, e.metadata
FROM entry e
JOIN address a ON a.tenant = e.tenant AND a.id = e.address_id
JOIN collection c ON c.tenant = a.tenant AND c.id = a.collection_id AND c.dialect <> '#erased'
WHERE e.tenant = :tenant AND a.tenant = :tenant AND c.tenant = :tenant AND e.id = :id
ORDER BY e.version DESC
LIMIT 1;

-- name: embedded_between
-- The entries between two numbers that have vectors of a model.
SELECT DISTINCT docid FROM vector WHERE tenant = :tenant AND model = :model AND docid BETWEEN :first AND :last;

-- name: add_removal
-- Record that an entry or an address was removed from search, so that every index in memory drops it.
INSERT INTO removal (tenant, seq, docid, address_id)
SELECT :tenant, COALESCE(MAX(seq), 0) + 1, CAST(:docid AS BIGINT), CAST(:address_id AS BIGINT)
FROM removal WHERE tenant = :tenant;

-- name: add_words
-- Index the words of an entry. PostgreSQL limits the size of a value, so a long list is split; each part begins with the place.
-- engine: sqlite
INSERT INTO word (rowid, tokens) VALUES (:docid, :tokens);
-- engine: postgres
INSERT INTO word (tenant, docid, part, tokens)
SELECT :tenant, CAST(:docid AS BIGINT), cut.part,
  ARRAY_TO_TSVECTOR((STRING_TO_ARRAY(:tokens, ' '))[1:2] || ARRAY_AGG(cut.token))
FROM (
  SELECT found.token, (found.place - 1) / 2000 AS part
  FROM UNNEST(STRING_TO_ARRAY(:tokens, ' ')) WITH ORDINALITY AS found (token, place)
) AS cut
GROUP BY cut.part;

-- name: postings
-- The entries of a place that contain a token, above a number, as a list in text. In SQLite a file has one tenant, and the
-- caller keeps the numbers of its own rows; if the place has most of the entries (:most), it is faster to return all of
-- them. In PostgreSQL all tenants share the index, so the place is always part of the query.
-- engine: sqlite
SELECT GROUP_CONCAT(rowid) FROM word
WHERE word MATCH CASE WHEN :most = 1 THEN '"' ELSE '"' || :place || '" "' END || :token || '"' AND rowid > :after;
-- engine: postgres
SELECT postings(:tenant, CAST('''' || :place || ''' & ''' || REPLACE(REPLACE(:token, '\', '\\'), '''', '''''') || ''''
  AS TSQUERY), :after);

-- name: words_of
-- The tokens of some entries. In SQLite a file has one tenant.
-- engine: sqlite
SELECT rowid, tokens FROM word WHERE rowid IN NUMBERS(:docids);
-- engine: postgres
SELECT wanted.docid, found.tokens
FROM UNNEST(CAST(STRING_TO_ARRAY(BTRIM(:docids, '[]'), ',') AS BIGINT[])) AS wanted (docid)
CROSS JOIN LATERAL (
  SELECT STRING_AGG(ARRAY_TO_STRING(TSVECTOR_TO_ARRAY(w.tokens), ' '), ' ') AS tokens
  FROM word w WHERE w.tenant = :tenant AND w.docid = wanted.docid
) AS found
WHERE found.tokens IS NOT NULL;

-- name: search_state
-- The highest entry number that was ever used, and the number of the newest removal from search.
-- engine: sqlite
SELECT COALESCE((SELECT s.seq FROM sqlite_sequence s WHERE s.name = 'entry'), 0), COALESCE(MAX(seq), 0)
FROM removal WHERE tenant = :tenant;
-- engine: postgres
SELECT w.docid, COALESCE((SELECT MAX(r.seq) FROM removal r WHERE r.tenant = :tenant), 0)
FROM writer w WHERE w.tenant = :tenant;

-- name: vectors_of
-- The vectors of some entries. In PostgreSQL a vector is stored in parts, which are joined.
-- engine: sqlite
SELECT docid, value FROM vector
WHERE tenant = :tenant AND model = :model AND docid IN NUMBERS(:docids);
-- engine: postgres
SELECT wanted.docid, found.value
FROM UNNEST(CAST(STRING_TO_ARRAY(BTRIM(:docids, '[]'), ',') AS BIGINT[])) AS wanted (docid)
CROSS JOIN LATERAL (
  SELECT STRING_AGG(SUBSTRING(HALFVEC_SEND(v.value) FROM 5), CAST('' AS BYTEA) ORDER BY v.part) AS value
  FROM vector v WHERE v.tenant = :tenant AND v.model = :model AND v.docid = wanted.docid
) AS found
WHERE found.value IS NOT NULL;

-- name: metadata_of
-- The metadata of some entries.
-- engine: sqlite
SELECT docid, metadata FROM entry WHERE tenant = :tenant AND docid IN NUMBERS(:docids);
-- engine: postgres
SELECT wanted.docid, found.metadata
FROM UNNEST(CAST(STRING_TO_ARRAY(BTRIM(:docids, '[]'), ',') AS BIGINT[])) AS wanted (docid)
CROSS JOIN LATERAL (SELECT e.metadata FROM entry e WHERE e.tenant = :tenant AND e.docid = wanted.docid LIMIT 1) AS found;

-- name: texts_of
-- The texts to embed of some entries, retired ones included, because a search may ask for the past.
-- engine: sqlite
SELECT e.docid, e.id, e.version, e.name, e.content, c.policy, e.kind
FROM entry e
CROSS JOIN address a
CROSS JOIN collection c
WHERE e.tenant = :tenant AND a.tenant = :tenant AND c.tenant = :tenant AND e.docid IN NUMBERS(:docids)
  AND a.id = e.address_id AND c.id = a.collection_id;
-- engine: postgres
SELECT wanted.docid, found.id, found.version, found.name, found.content, found.policy, found.kind
FROM UNNEST(CAST(STRING_TO_ARRAY(BTRIM(:docids, '[]'), ',') AS BIGINT[])) AS wanted (docid)
CROSS JOIN LATERAL (
  SELECT e.id, e.version, e.name, e.content, c.policy, e.kind FROM entry e
  JOIN address a ON a.tenant = :tenant AND a.id = e.address_id
  JOIN collection c ON c.tenant = :tenant AND c.id = a.collection_id
  WHERE e.tenant = :tenant AND e.docid = wanted.docid
  LIMIT 1
) AS found;

-- name: hits
-- Live entries by their numbers, with their places.
-- engine: sqlite
SELECT e.id, e.version, e.seq, e.kind, e.role, e.name, e.content, e.metadata, e.tool, e.origin, e.importance, e.confidence,
  e.occurred_at, e.recorded_at, COALESCE(e.created_at, e.recorded_at), a.path, a.id, e.docid, a.collection_id
FROM entry e
JOIN address a ON a.tenant = e.tenant AND a.id = e.address_id
WHERE e.tenant = :tenant AND a.tenant = :tenant AND e.docid IN NUMBERS(:docids)
  AND (e.retired_at IS NULL OR :history = 1) AND (e.expires_at IS NULL OR e.expires_at > :now);
-- engine: postgres
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
-- The columns of a collection that search needs, each as one list. One row per entry would take twice as long.
-- engine: sqlite
SELECT GROUP_CONCAT(e.docid), GROUP_CONCAT(e.address_id), GROUP_CONCAT(e.seq), GROUP_CONCAT(e.occurred_at),
  GROUP_CONCAT(COALESCE(e.expires_at, 4611686018427387904)), GROUP_CONCAT(OCTET_LENGTH(e.content)), GROUP_CONCAT(e.asks),
  JSON_GROUP_ARRAY(e.kind), JSON_GROUP_ARRAY(e.role), JSON_GROUP_ARRAY(e.name)
FROM address a
CROSS JOIN entry e
WHERE a.tenant = :tenant AND e.tenant = :tenant AND a.collection_id = :id AND e.address_id = a.id
  AND (e.retired_at IS NULL OR :history = 1);
-- engine: postgres
SELECT STRING_AGG(CAST(e.docid AS TEXT), ','), STRING_AGG(CAST(e.address_id AS TEXT), ','),
  STRING_AGG(CAST(e.seq AS TEXT), ','), STRING_AGG(CAST(e.occurred_at AS TEXT), ','),
  STRING_AGG(CAST(COALESCE(e.expires_at, 4611686018427387904) AS TEXT), ','),
  STRING_AGG(CAST(OCTET_LENGTH(e.content) AS TEXT), ','), STRING_AGG(CAST(e.asks AS TEXT), ','),
  CAST(JSON_AGG(e.kind) AS TEXT), CAST(JSON_AGG(e.role) AS TEXT), CAST(JSON_AGG(e.name) AS TEXT)
FROM address a
JOIN entry e ON e.tenant = a.tenant AND e.address_id = a.id
WHERE a.tenant = :tenant AND e.tenant = :tenant AND a.collection_id = :id AND (e.retired_at IS NULL OR CAST(:history AS BIGINT) = 1);

-- name: load_address
-- The columns of an address that search needs, after a sequence number.
-- engine: sqlite
SELECT GROUP_CONCAT(e.docid), GROUP_CONCAT(e.address_id), GROUP_CONCAT(e.seq), GROUP_CONCAT(e.occurred_at),
  GROUP_CONCAT(COALESCE(e.expires_at, 4611686018427387904)), GROUP_CONCAT(OCTET_LENGTH(e.content)), GROUP_CONCAT(e.asks),
  JSON_GROUP_ARRAY(e.kind), JSON_GROUP_ARRAY(e.role), JSON_GROUP_ARRAY(e.name)
FROM entry e
WHERE e.tenant = :tenant AND e.address_id = :id AND e.seq > :after AND (e.retired_at IS NULL OR :history = 1);
-- engine: postgres
SELECT STRING_AGG(CAST(e.docid AS TEXT), ','), STRING_AGG(CAST(e.address_id AS TEXT), ','),
  STRING_AGG(CAST(e.seq AS TEXT), ','), STRING_AGG(CAST(e.occurred_at AS TEXT), ','),
  STRING_AGG(CAST(COALESCE(e.expires_at, 4611686018427387904) AS TEXT), ','),
  STRING_AGG(CAST(OCTET_LENGTH(e.content) AS TEXT), ','), STRING_AGG(CAST(e.asks AS TEXT), ','),
  CAST(JSON_AGG(e.kind) AS TEXT), CAST(JSON_AGG(e.role) AS TEXT), CAST(JSON_AGG(e.name) AS TEXT)
FROM entry e
WHERE e.tenant = :tenant AND e.address_id = :id AND e.seq > :after AND (e.retired_at IS NULL OR CAST(:history AS BIGINT) = 1);

-- name: load_new
-- The columns of a collection that search needs, after an entry number.
-- engine: sqlite
SELECT GROUP_CONCAT(e.docid), GROUP_CONCAT(e.address_id), GROUP_CONCAT(e.seq), GROUP_CONCAT(e.occurred_at),
  GROUP_CONCAT(COALESCE(e.expires_at, 4611686018427387904)), GROUP_CONCAT(OCTET_LENGTH(e.content)), GROUP_CONCAT(e.asks),
  JSON_GROUP_ARRAY(e.kind), JSON_GROUP_ARRAY(e.role), JSON_GROUP_ARRAY(e.name)
FROM entry e
CROSS JOIN address a
WHERE e.tenant = :tenant AND a.tenant = :tenant AND e.docid > :after AND a.id = e.address_id AND a.collection_id = :id
  AND e.retired_at IS NULL;
-- engine: postgres
SELECT STRING_AGG(CAST(e.docid AS TEXT), ','), STRING_AGG(CAST(e.address_id AS TEXT), ','),
  STRING_AGG(CAST(e.seq AS TEXT), ','), STRING_AGG(CAST(e.occurred_at AS TEXT), ','),
  STRING_AGG(CAST(COALESCE(e.expires_at, 4611686018427387904) AS TEXT), ','),
  STRING_AGG(CAST(OCTET_LENGTH(e.content) AS TEXT), ','), STRING_AGG(CAST(e.asks AS TEXT), ','),
  CAST(JSON_AGG(e.kind) AS TEXT), CAST(JSON_AGG(e.role) AS TEXT), CAST(JSON_AGG(e.name) AS TEXT)
FROM entry e
JOIN address a ON a.tenant = e.tenant AND a.id = e.address_id
WHERE e.tenant = :tenant AND a.tenant = :tenant AND e.docid > :after AND a.collection_id = :id
  AND e.retired_at IS NULL;

-- name: add_vector
-- Store the vectors of an entry, if the entry and the model still exist.
-- engine: sqlite
INSERT INTO vector (tenant, model, docid, value)
SELECT :tenant, :model, e.docid, :value FROM entry e
JOIN model m ON m.tenant = :tenant AND m.id = :model AND m.name = :name
WHERE e.tenant = :tenant AND e.id = :id AND e.version = :version
ON CONFLICT (tenant, model, docid) DO NOTHING;
-- engine: postgres
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
-- engine: sqlite
SELECT docid, value FROM vector WHERE tenant = :tenant AND model = :model AND docid BETWEEN :first AND :last;
-- engine: postgres
SELECT docid, STRING_AGG(SUBSTRING(HALFVEC_SEND(value) FROM 5), CAST('' AS BYTEA) ORDER BY part) FROM vector
WHERE tenant = :tenant AND model = :model AND docid BETWEEN :first AND :last
GROUP BY docid;

-- name: find_graph
-- A row if a collection is searched by a graph. SQLite has no graphs: all vectors of a file fit into memory as bytes.
-- engine: sqlite
SELECT 1 FROM model WHERE tenant = :tenant AND id = :model AND :collection IS NULL;
-- engine: postgres
SELECT 1 FROM graph WHERE tenant = :tenant AND model = :model AND collection_id = :collection AND state = 'ready';

-- name: kinds_of
-- The kinds of some current entries.
SELECT docid, kind FROM entry
WHERE tenant = :tenant AND docid IN NUMBERS(:docids) AND retired_at IS NULL;

-- name: lives_of
-- Periods in which some entries were known and true, and their origins.
SELECT e.docid, e.recorded_at, e.retired_at, COALESCE(f.valid_from, e.occurred_at), f.valid_to, e.origin
FROM entry e
LEFT JOIN fact f ON f.tenant = :tenant AND f.docid = e.docid
WHERE e.tenant = :tenant AND e.docid IN NUMBERS(:docids);

-- name: add_removals
-- Record that some addresses were removed from search, so that every index in memory drops them.
-- engine: sqlite
INSERT INTO removal (tenant, seq, docid, address_id)
SELECT :tenant, (SELECT COALESCE(MAX(seq), 0) FROM removal WHERE tenant = :tenant) + 1 + key, NULL, value
FROM json_each(:addresses);
-- engine: postgres
INSERT INTO removal (tenant, seq, docid, address_id)
SELECT :tenant, last.seq + one.place, NULL, one.id
FROM (SELECT COALESCE(MAX(seq), 0) AS seq FROM removal WHERE tenant = :tenant) AS last
CROSS JOIN UNNEST(CAST(STRING_TO_ARRAY(BTRIM(:addresses, '[]'), ',') AS BIGINT[])) WITH ORDINALITY AS one (id, place);

-- name: graph_sizes
-- The number of vectors of each collection and model, and the state of the graph.
-- engine: postgres
SELECT v.model, v.collection_id, v.dimensions, COUNT(*),
  (SELECT g.state FROM graph g WHERE g.tenant = :tenant AND g.model = v.model AND g.collection_id = v.collection_id)
FROM vector v
WHERE v.tenant = :tenant AND v.part = 0
GROUP BY v.model, v.collection_id, v.dimensions;

-- name: add_graph
-- Begin to add a collection to a graph. Vectors that are written from now on are added to it.
-- engine: postgres
INSERT INTO graph (tenant, model, collection_id, dimensions, state)
VALUES (:tenant, :model, :collection, :dimensions, 'marking')
ON CONFLICT (tenant, model, collection_id) DO NOTHING;

-- name: finish_graph
-- Mark the graph of a collection as complete.
-- engine: postgres
UPDATE graph SET state = 'ready' WHERE tenant = :tenant AND model = :model AND collection_id = :collection;

-- name: delete_graph
-- Stop searching a collection by a graph.
-- engine: postgres
DELETE FROM graph WHERE tenant = :tenant AND model = :model AND collection_id = :collection;

-- name: mark_vectors
-- Add some vectors of a collection to the graph, or remove them.
-- engine: postgres
UPDATE vector SET graph = CAST(:graph AS BOOLEAN) WHERE tenant = :tenant AND model = :model AND docid IN (
  SELECT docid FROM vector
  WHERE tenant = :tenant AND model = :model AND collection_id = :collection AND graph <> CAST(:graph AS BOOLEAN)
  LIMIT :limit);

-- name: nearest
-- The entries of a collection that are nearest to a vector, found by the graph.
-- engine: postgres
SELECT docid FROM vector
WHERE tenant = :tenant AND model = :model AND collection_id = :collection AND graph AND dimensions = /*dimensions*/
ORDER BY CAST(value AS HALFVEC(/*dimensions*/)) <=> (CAST(:value AS HALFVEC[]))[1]
LIMIT :limit;

-- name: nearest_of
-- The entries among these that are nearest to a vector, found by comparing all.
-- engine: postgres
SELECT docid FROM vector
WHERE tenant = :tenant AND model = :model
  AND docid = ANY(CAST(STRING_TO_ARRAY(BTRIM(:docids, '[]'), ',') AS BIGINT[]))
ORDER BY (value <=> (CAST(:value AS HALFVEC[]))[1]) + 0
LIMIT :limit;

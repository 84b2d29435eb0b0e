-- Collections, addresses, entries, documents, events, stored answers and spending.

-- name: find_collection
-- A collection by dialect, name and kind.
SELECT id, policy FROM collection
WHERE tenant = :tenant AND dialect = :dialect AND name = :name AND kind = :kind;

-- name: add_collection
-- Add a collection, unless another writer has just added it.
INSERT INTO collection (tenant, id, dialect, name, kind, sealed, policy, created_at)
VALUES (:tenant, :id, :dialect, :name, :kind, :sealed, :policy, :now)
ON CONFLICT (tenant, dialect, name, kind) DO NOTHING;

-- name: set_policy
-- Change the policy of a collection.
UPDATE collection SET policy = :policy WHERE tenant = :tenant AND id = :id;

-- name: find_address
-- A live address, by the names of its collection and its path.
SELECT a.id, a.collection_id, a.path, a.last_seq, a.created_at, a.last_seen_at, a.ended_at, a.ended_seq, a.expires_at, a.metadata,
  a.distilled_seq
FROM collection c
JOIN address a ON a.tenant = c.tenant AND a.collection_id = c.id AND a.path = :path
WHERE c.tenant = :tenant AND a.tenant = :tenant AND c.dialect = :dialect AND c.name = :name AND c.kind = :kind
  AND (a.expires_at IS NULL OR a.expires_at > :now);

-- name: touch_address
-- Reserve the next :count sequence numbers of an address. Creates the address if it is new and reopens it if it was ended.
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
-- Mark a session as ended, up to its last entry.
UPDATE address SET ended_at = :now, ended_seq = last_seq WHERE tenant = :tenant AND id = :id;

-- name: address_from
-- The first live address of a named collection with at least this path.
SELECT a.id, a.path, a.created_at, a.ended_at, a.distilled_seq
FROM collection c
JOIN address a ON a.tenant = c.tenant AND a.collection_id = c.id
WHERE c.tenant = :tenant AND a.tenant = :tenant AND c.dialect = :dialect AND c.name = :name AND c.kind = :kind
  AND a.path >= :path AND (a.expires_at IS NULL OR a.expires_at > :now)
ORDER BY a.path
LIMIT 1;

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

-- name: recent_addresses
-- The addresses of a named collection, the most recently used first.
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

-- name: retire_entry
-- Close the current version of an entry, if it is still the expected one.
UPDATE entry SET retired_at = :now
WHERE tenant = :tenant AND id = :id AND version = :version AND retired_at IS NULL
RETURNING docid;

-- name: addresses_of_name
-- Every address of a dialect's named collections.
SELECT a.id, a.collection_id, c.kind FROM collection c
JOIN address a ON a.tenant = c.tenant AND a.collection_id = c.id
WHERE c.tenant = :tenant AND a.tenant = :tenant AND c.dialect = :dialect AND c.name = :name;

-- name: collections_of_name
-- The ids of a dialect's collections of one name.
SELECT id FROM collection WHERE tenant = :tenant AND dialect = :dialect AND name = :name;

-- name: find_idempotency
-- The stored answer to a request with this key.
SELECT request_hash, response FROM idempotency WHERE tenant = :tenant AND key_hash = :key_hash AND expires_at > :now;

-- name: add_idempotency
-- Store the answer to a request. It replaces an expired one of the same key.
INSERT INTO idempotency (tenant, key_hash, request_hash, response, expires_at)
VALUES (:tenant, :key_hash, :request_hash, :response, :expires_at)
ON CONFLICT (tenant, key_hash) DO UPDATE SET
  request_hash = excluded.request_hash, response = excluded.response, expires_at = excluded.expires_at;

-- name: add_idempotency_touch
-- Record the address that a stored answer contains, and the entry if it is a single one, so that the answer is erased with it.
INSERT INTO idempotency_touch (tenant, address_id, entry_id, key_hash)
VALUES (:tenant, :address_id, :entry_id, :key_hash)
ON CONFLICT (tenant, address_id, key_hash) DO NOTHING;

-- name: list_events
-- The events after a number, in order, with the names of addresses that still exist.
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

-- name: add_spending
-- Add calls and tokens of a language model to the sums of a day.
INSERT INTO spending (tenant, day, calls, tokens_in, tokens_out)
VALUES (:tenant, :day, :calls, :tokens_in, :tokens_out)
ON CONFLICT (tenant, day) DO UPDATE SET calls = spending.calls + excluded.calls,
  tokens_in = spending.tokens_in + excluded.tokens_in, tokens_out = spending.tokens_out + excluded.tokens_out;

-- name: spent_since
-- Calls and tokens of language models since a day.
SELECT CAST(COALESCE(SUM(calls), 0) AS BIGINT), CAST(COALESCE(SUM(tokens_in), 0) AS BIGINT),
  CAST(COALESCE(SUM(tokens_out), 0) AS BIGINT)
FROM spending WHERE tenant = :tenant AND day >= :day;

-- name: lives_after
-- Periods in which the versions at an address, after a sequence number, were known and true, in order, with their facts.
SELECT e.docid, e.recorded_at, e.retired_at, COALESCE(f.valid_from, e.occurred_at), f.valid_to, e.seq, e.kind, f.subject,
  f.valid_from, f.held
FROM entry e
LEFT JOIN fact f ON f.tenant = :tenant AND f.docid = e.docid
WHERE e.tenant = :tenant AND e.address_id = :address_id AND e.seq > :after
  AND (e.expires_at IS NULL OR e.expires_at > :now)
  /*filter*/
ORDER BY e.seq
LIMIT :limit;

-- name: facts_after_path
-- The facts at the addresses of a collection after a path, by path, the oldest of an address first.
SELECT e.id, e.version, e.seq, e.kind, e.role, e.name, e.content, e.metadata, e.tool, e.origin, e.importance, e.confidence,
  e.occurred_at, e.recorded_at, COALESCE(e.created_at, e.recorded_at), a.path
FROM (SELECT id, path FROM address WHERE tenant = :tenant AND collection_id = :collection_id AND path > :path
  AND (expires_at IS NULL OR expires_at > :now)) a
JOIN entry e ON e.tenant = :tenant AND e.address_id = a.id
WHERE e.tenant = :tenant AND e.kind = 'fact' AND e.retired_at IS NULL AND (e.expires_at IS NULL OR e.expires_at > :now)
  /*filter*/
ORDER BY a.path, e.seq
LIMIT :limit;

-- name: lives_after_path
-- Like `lives_after`, for the addresses of a collection after a path, with their paths.
SELECT e.docid, e.recorded_at, e.retired_at, COALESCE(f.valid_from, e.occurred_at), f.valid_to, e.seq, e.kind, f.subject,
  f.valid_from, f.held, a.path
FROM (SELECT id, path FROM address WHERE tenant = :tenant AND collection_id = :collection_id AND path > :path
  AND (expires_at IS NULL OR expires_at > :now)) a
JOIN entry e ON e.tenant = :tenant AND e.address_id = a.id
LEFT JOIN fact f ON f.tenant = :tenant AND f.docid = e.docid
WHERE e.tenant = :tenant AND (e.expires_at IS NULL OR e.expires_at > :now)
  /*filter*/
ORDER BY a.path, e.seq
LIMIT :limit;

-- name: last_used
-- The last time at which an address of a collection was used.
SELECT MAX(last_seen_at) FROM address
WHERE tenant = :tenant AND collection_id = :collection_id AND (expires_at IS NULL OR expires_at > :now);

-- name: lives_of_entry
-- Periods in which the versions of one entry of a named collection were known and true, the oldest first.
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
-- A document by its kind and id.
SELECT id, name, version, body, created_at, updated_at FROM document
WHERE tenant = :tenant AND kind = :kind AND id = :id;

-- name: named_documents
-- The documents of a kind with this name.
SELECT id, name, version, body, created_at, updated_at FROM document
WHERE tenant = :tenant AND kind = :kind AND name = :name
ORDER BY id;

-- name: list_documents
-- The documents of a kind, by id.
SELECT id, name, version, body, created_at, updated_at FROM document
WHERE tenant = :tenant AND kind = :kind AND id > :after
ORDER BY id
LIMIT :limit;

-- name: count_documents
-- The number of documents of a kind.
SELECT COUNT(*) FROM document WHERE tenant = :tenant AND kind = :kind;

-- name: add_document
-- Add a document.
INSERT INTO document (tenant, kind, id, name, version, body, created_at, updated_at)
VALUES (:tenant, :kind, :id, :name, :version, :body, :now, :now);

-- name: set_document
-- Change a document, if it still has the version that was read.
UPDATE document SET name = :name, version = version + 1, body = :body, updated_at = :now
WHERE tenant = :tenant AND kind = :kind AND id = :id AND version = :seen;

-- name: delete_document
-- Remove a document.
DELETE FROM document WHERE tenant = :tenant AND kind = :kind AND id = :id;

-- name: lengthen_entries
-- Set the expiry of the entries of a collection to a lifetime after they were recorded, or to never.
UPDATE entry SET expires_at = recorded_at + CAST(:lifetime AS BIGINT)
WHERE tenant = :tenant AND (expires_at IS NULL OR expires_at > :now)
  AND address_id IN (SELECT a.id FROM address a WHERE a.tenant = :tenant AND a.collection_id = :collection_id);

-- name: lengthen_addresses
-- Set the expiry of the addresses of a collection to a lifetime after they were last used, or to never.
UPDATE address SET expires_at = last_seen_at + CAST(:lifetime AS BIGINT)
WHERE tenant = :tenant AND collection_id = :collection_id AND (expires_at IS NULL OR expires_at > :now);

-- name: add_event
-- Record a write. Writers of a tenant take turns, so the next number is the highest plus one.
INSERT INTO event (tenant, seq, at, operation, collection_id, address_id, entries, actor)
SELECT :tenant, COALESCE(MAX(seq), 0) + 1, CAST(:at AS BIGINT), :operation, CAST(:collection_id AS BIGINT),
  CAST(:address_id AS BIGINT), CAST(:entries AS BIGINT), :actor
FROM event WHERE tenant = :tenant;

-- name: add_entry
-- Add an entry. Its number is never used again.
-- engine: sqlite
INSERT INTO entry (tenant, id, version, address_id, seq, kind, role, name, content, metadata, tool, origin,
  importance, confidence, occurred_at, recorded_at, created_at, expires_at, asks)
VALUES (:tenant, :id, :version, :address_id, :seq, :kind, :role, :name, :content, :metadata, :tool, :origin,
  :importance, :confidence, :occurred_at, :recorded_at, :created_at, :expires_at, :asks)
RETURNING docid;
-- engine: postgres
INSERT INTO entry (tenant, docid, id, version, address_id, seq, kind, role, name, content, metadata, tool, origin,
  importance, confidence, occurred_at, recorded_at, created_at, expires_at, asks)
VALUES (:tenant, :next_docid, :id, :version, :address_id, :seq, :kind, :role, :name, :content, :metadata, :tool, :origin,
  :importance, :confidence, :occurred_at, :recorded_at, :created_at, :expires_at, :asks)
RETURNING docid;

-- name: entries_exist
-- The ids among these that are in use, and their addresses, retired entries included.
-- engine: sqlite
SELECT DISTINCT id, address_id FROM entry WHERE tenant = :tenant AND id IN TEXTS(:ids);
-- engine: postgres
SELECT wanted.id, found.address_id
FROM JSON_ARRAY_ELEMENTS_TEXT(CAST(:ids AS JSON)) AS wanted (id)
CROSS JOIN LATERAL (SELECT e.address_id FROM entry e WHERE e.tenant = :tenant AND e.id = wanted.id LIMIT 1) AS found;

-- name: add_events
-- Record a write that changed several addresses: the collection, the address and the number of new entries of each.
-- engine: sqlite
INSERT INTO event (tenant, seq, at, operation, collection_id, address_id, entries, actor)
SELECT :tenant, (SELECT COALESCE(MAX(seq), 0) FROM event WHERE tenant = :tenant) + 1 + key, :at, :operation,
  json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'), :actor
FROM json_each(:changed);
-- engine: postgres
INSERT INTO event (tenant, seq, at, operation, collection_id, address_id, entries, actor)
SELECT :tenant, last.seq + one.place, CAST(:at AS BIGINT), :operation, CAST(one.of ->> 0 AS BIGINT),
  CAST(one.of ->> 1 AS BIGINT), CAST(one.of ->> 2 AS BIGINT), :actor
FROM (SELECT COALESCE(MAX(seq), 0) AS seq FROM event WHERE tenant = :tenant) AS last
CROSS JOIN JSON_ARRAY_ELEMENTS(CAST(:changed AS JSON)) WITH ORDINALITY AS one (of, place);

-- name: hold_tenant_row
-- Prevent the removal of a tenant until the end of the transaction. No row if it was removed already.
-- engine: postgres
SELECT docid FROM writer WHERE tenant = :tenant FOR KEY SHARE;

-- name: count_all_entries
-- The number of entries.
SELECT COUNT(*) FROM entry WHERE tenant = :tenant;

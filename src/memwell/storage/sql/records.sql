-- Records, their versions and their ties.

-- name: find_record
-- A live record with its value, by its collection and path.
SELECT a.id, a.collection_id, a.path, r.version, r.value, r.created_at, r.updated_at, r.expires_at
FROM collection c
JOIN address a ON a.tenant = c.tenant AND a.collection_id = c.id AND a.path = :path
JOIN record r ON r.tenant = a.tenant AND r.address_id = a.id
WHERE c.tenant = :tenant AND a.tenant = :tenant AND r.tenant = :tenant
  AND c.dialect = :dialect AND c.name = :name AND c.kind = 'record' AND (r.expires_at IS NULL OR r.expires_at > :now);

-- name: find_record_head
-- A live record without its value.
SELECT a.id, a.collection_id, a.path, r.version, 'null', r.created_at, r.updated_at, r.expires_at
FROM collection c
JOIN address a ON a.tenant = c.tenant AND a.collection_id = c.id AND a.path = :path
JOIN record r ON r.tenant = a.tenant AND r.address_id = a.id
WHERE c.tenant = :tenant AND a.tenant = :tenant AND r.tenant = :tenant
  AND c.dialect = :dialect AND c.name = :name AND c.kind = 'record' AND (r.expires_at IS NULL OR r.expires_at > :now);

-- name: find_record_with_definition
-- A live record with its value, and the definition whose slug is its path, if there is one.
SELECT a.id, a.collection_id, a.path, r.version, r.value, r.created_at, r.updated_at, r.expires_at, d.id, d.body
FROM collection c
JOIN address a ON a.tenant = c.tenant AND a.collection_id = c.id AND a.path = :path
JOIN record r ON r.tenant = a.tenant AND r.address_id = a.id
LEFT JOIN document s ON s.tenant = c.tenant AND s.tenant = :tenant AND s.kind = 'definition_slug' AND s.id = a.path
LEFT JOIN document d ON d.tenant = s.tenant AND d.tenant = :tenant AND d.kind = 'definition' AND d.id = s.body
WHERE c.tenant = :tenant AND a.tenant = :tenant AND r.tenant = :tenant
  AND c.dialect = :dialect AND c.name = :name AND c.kind = 'record' AND (r.expires_at IS NULL OR r.expires_at > :now);

-- name: record_sizes
-- The addresses of a collection between two paths, by path, with the size of the live record, or NULL. Sub-selects: with a
-- join, PostgreSQL would sort all later paths.
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
-- Reserve the next version of a record. Create its address if it is new. The address expires with the value.
INSERT INTO address (tenant, id, collection_id, path, last_seq, created_at, last_seen_at, ended_seq, expires_at, metadata)
VALUES (:tenant, :id, :collection_id, :path, 1, :now, :now, 0, :expires_at, NULL)
ON CONFLICT (tenant, collection_id, path) DO UPDATE SET
  last_seq = address.last_seq + 1, last_seen_at = excluded.last_seen_at, expires_at = excluded.expires_at
RETURNING id, last_seq;

-- name: put_value
-- Set the value of a record.
INSERT INTO record (tenant, address_id, version, value, created_at, updated_at, expires_at)
VALUES (:tenant, :address_id, :version, :value, :created_at, :now, :expires_at)
ON CONFLICT (tenant, address_id) DO UPDATE SET version = excluded.version, value = excluded.value,
  created_at = excluded.created_at, updated_at = excluded.updated_at, expires_at = excluded.expires_at;

-- name: add_record_version
-- Add a change of a record.
INSERT INTO record_version (tenant, address_id, version, mode, data, actor, written_at, expires_at)
VALUES (:tenant, :address_id, :version, :mode, :data, :actor, :now, :expires_at);

-- name: record_versions
-- The changes of a record, newest first.
SELECT version, mode, data, actor, written_at, expires_at FROM record_version
WHERE tenant = :tenant AND address_id = :address_id AND version < :before
ORDER BY version DESC
LIMIT :limit;

-- name: record_version_sizes
-- The sizes of the changes of a record, newest first.
SELECT OCTET_LENGTH(data) FROM record_version
WHERE tenant = :tenant AND address_id = :address_id AND version < :before
ORDER BY version DESC
LIMIT :limit;

-- name: record_version_at
-- The last change of a record up to a time.
SELECT version, expires_at, written_at FROM record_version
WHERE tenant = :tenant AND address_id = :address_id AND written_at <= :moment
ORDER BY version DESC
LIMIT 1;

-- name: record_changes
-- The changes of a record up to a version, starting with the last complete value.
SELECT v.version, v.mode, v.data FROM record_version v
WHERE v.tenant = :tenant AND v.address_id = :address_id AND v.version <= :version AND v.version >= (
  SELECT MAX(w.version) FROM record_version w
  WHERE w.tenant = :tenant AND w.address_id = :address_id AND w.version <= :version AND w.mode = 'replace')
ORDER BY v.version;

-- name: delete_record_versions_below
-- Remove the changes of a record before a version.
DELETE FROM record_version WHERE tenant = :tenant AND address_id = :address_id AND version < :version;

-- name: add_tie
-- Tie a record to a user, session, definition or store. It is deleted together with that.
INSERT INTO record_tie (tenant, tie, address_id) VALUES (:tenant, :tie, :address_id)
ON CONFLICT (tenant, tie, address_id) DO NOTHING;

-- name: tied_addresses
-- The addresses of records and file texts with a tie, after an address. Sub-selects: with joins, PostgreSQL would begin at the
-- first address.
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
-- The addresses with a tie, after an address, with the size of the live record, or NULL.
SELECT t.address_id, (
  SELECT OCTET_LENGTH(r.value) FROM record r
  WHERE r.tenant = :tenant AND r.address_id = t.address_id AND (r.expires_at IS NULL OR r.expires_at > :now))
FROM record_tie t
WHERE t.tenant = :tenant AND t.tie = :tie AND t.address_id > :after
ORDER BY t.address_id
LIMIT :limit;

-- name: ties_of
-- The ties of a record.
SELECT tie FROM record_tie WHERE tenant = :tenant AND address_id = :address_id;

-- name: delete_ties
-- Remove the ties of a record.
DELETE FROM record_tie WHERE tenant = :tenant AND address_id = :address_id;

-- name: anchor_record
-- Add an address without a value that stands for its whole collection.
INSERT INTO address (tenant, id, collection_id, path, last_seq, created_at, last_seen_at, ended_seq, expires_at, metadata)
VALUES (:tenant, :id, :collection_id, '', 0, :now, :now, 0, NULL, NULL)
ON CONFLICT (tenant, collection_id, path) DO UPDATE SET last_seen_at = excluded.last_seen_at
RETURNING id;

-- name: tied_sizes_at
-- The addresses of one collection with a tie, between two paths and by path, with the size of the live record, or NULL.
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
-- The user that a record belongs to, if there is one.
SELECT tie FROM record_tie WHERE tenant = :tenant AND address_id = :address_id AND tie >= 'user/' AND tie < 'user0';

-- name: ties_between
-- The ties between two names.
SELECT DISTINCT tie FROM record_tie WHERE tenant = :tenant AND tie >= :first AND tie < :last;

-- name: shorten_tied_records
-- Limit the lifetime of the records with a tie.
UPDATE record SET expires_at = updated_at + CAST(:lifetime AS BIGINT)
WHERE tenant = :tenant AND (expires_at IS NULL OR expires_at > updated_at + CAST(:lifetime AS BIGINT))
  AND address_id IN (SELECT t.address_id FROM record_tie t WHERE t.tenant = :tenant AND t.tie = :tie);

-- name: tie_to_sessions
-- Tie the records with a tie also to their session, if it is known.
INSERT INTO record_tie (tenant, tie, address_id)
SELECT :tenant, 'session' || SUBSTR(s.tie, 3), t.address_id FROM record_tie t
JOIN record_tie s ON s.tenant = t.tenant AND s.address_id = t.address_id
WHERE t.tenant = :tenant AND s.tenant = :tenant AND t.tie = :tie AND s.tie >= 'in/' AND s.tie < 'in0'
ON CONFLICT (tenant, tie, address_id) DO NOTHING;

-- name: end_tied_records
-- Expire the records with a tie whose session has ended. A session is open as long as it has its meta record.
UPDATE record SET expires_at = :now
WHERE tenant = :tenant AND (expires_at IS NULL OR expires_at > :now) AND address_id IN (
  SELECT a.id FROM record_tie t
  JOIN address a ON a.tenant = t.tenant AND a.id = t.address_id
  WHERE t.tenant = :tenant AND a.tenant = :tenant AND t.tie = :tie AND NOT EXISTS (
    SELECT 1 FROM address m WHERE m.tenant = :tenant AND m.collection_id = a.collection_id
      AND m.path = 'sessionMeta' || SUBSTR(a.path, CAST(:skip AS INTEGER))));

-- name: expire_tied_addresses
-- Expire the addresses of the records with a tie together with their values.
UPDATE address SET expires_at = (
  SELECT r.expires_at FROM record r WHERE r.tenant = :tenant AND r.address_id = address.id)
WHERE tenant = :tenant AND id IN (
  SELECT r.address_id FROM record_tie t
  JOIN record r ON r.tenant = t.tenant AND r.address_id = t.address_id
  WHERE t.tenant = :tenant AND r.tenant = :tenant AND t.tie = :tie);

-- name: expire_tied_versions
-- Expire the last changes of the records with a tie together with their values.
UPDATE record_version SET expires_at = (
  SELECT r.expires_at FROM record r WHERE r.tenant = :tenant AND r.address_id = record_version.address_id)
WHERE tenant = :tenant AND (address_id, version) IN (
  SELECT r.address_id, r.version FROM record_tie t
  JOIN record r ON r.tenant = t.tenant AND r.address_id = t.address_id
  WHERE t.tenant = :tenant AND r.tenant = :tenant AND t.tie = :tie);

-- name: erase_answers_about_tied
-- Empty the stored responses about records that have a tie and expire before a time.
UPDATE idempotency SET request_hash = NULL, response = NULL
WHERE tenant = :tenant AND response IS NOT NULL AND key_hash IN (
  SELECT i.key_hash FROM record_tie t
  JOIN record r ON r.tenant = t.tenant AND r.address_id = t.address_id
  JOIN idempotency_touch i ON i.tenant = t.tenant AND i.address_id = t.address_id
  WHERE t.tenant = :tenant AND r.tenant = :tenant AND i.tenant = :tenant AND t.tie = :tie AND r.expires_at <= :until);

-- name: count_tied_to_no_session
-- The number of live records that have a tie, but not to a session.
SELECT COUNT(*) FROM record_tie t
JOIN record r ON r.tenant = t.tenant AND r.address_id = t.address_id
WHERE t.tenant = :tenant AND r.tenant = :tenant AND t.tie = :tie AND (r.expires_at IS NULL OR r.expires_at > :now)
  AND NOT EXISTS (SELECT 1 FROM record_tie s WHERE s.tenant = :tenant AND s.address_id = t.address_id
    AND s.tie >= 'session/' AND s.tie < 'session0');

-- name: idle_records
-- The paths of a collection's records between two paths that were last written before a time.
SELECT a.path FROM collection c
JOIN address a ON a.tenant = c.tenant AND a.collection_id = c.id AND a.path > :after AND a.path < :until
JOIN record r ON r.tenant = a.tenant AND r.address_id = a.id
WHERE c.tenant = :tenant AND a.tenant = :tenant AND r.tenant = :tenant
  AND c.dialect = :dialect AND c.name = :name AND c.kind = 'record' AND r.updated_at <= :before
ORDER BY a.path
LIMIT :limit;

-- name: oldest_records
-- The time of the oldest last write of a collection's records between two paths.
SELECT MIN(r.updated_at) FROM collection c
JOIN address a ON a.tenant = c.tenant AND a.collection_id = c.id AND a.path > :after AND a.path < :until
JOIN record r ON r.tenant = a.tenant AND r.address_id = a.id
WHERE c.tenant = :tenant AND a.tenant = :tenant AND r.tenant = :tenant
  AND c.dialect = :dialect AND c.name = :name AND c.kind = 'record';

-- name: records_at_path
-- The addresses of a dialect's records with this path, in all collections.
SELECT a.id FROM collection c
JOIN address a ON a.tenant = c.tenant AND a.collection_id = c.id AND a.path = :path
WHERE c.tenant = :tenant AND a.tenant = :tenant AND c.dialect = :dialect AND c.kind = 'record';

-- name: records_of
-- The records at some addresses, with the names of their collections.
-- engine: sqlite
SELECT a.id, a.collection_id, a.path, r.version, r.value, r.created_at, r.updated_at, r.expires_at, c.name
FROM record r
CROSS JOIN address a
CROSS JOIN collection c
WHERE r.tenant = :tenant AND a.tenant = :tenant AND c.tenant = :tenant
  AND r.address_id IN NUMBERS(:addresses) AND a.id = r.address_id AND c.id = a.collection_id;
-- engine: postgres
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
WHERE tenant = :tenant AND address_id IN NUMBERS(:addresses);

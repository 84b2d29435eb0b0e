-- Sessions of users and flows.

-- name: list_collections
-- The names of a dialect's collections, with the number of live sessions and the time of the last use.
SELECT c.name, COUNT(DISTINCT CASE WHEN c.kind = 'timeline' THEN a.id END) AS sessions, MAX(a.last_seen_at) AS last_seen_at
FROM collection c
JOIN address a ON a.tenant = c.tenant AND a.collection_id = c.id
WHERE c.tenant = :tenant AND a.tenant = :tenant AND c.dialect = :dialect AND c.name > :after
  AND (a.expires_at IS NULL OR a.expires_at > :now)
GROUP BY c.name
ORDER BY c.name
LIMIT :limit;

-- name: latest_address
-- The newest session between two names, which decides by its idle time if a new one begins.
SELECT a.path, a.last_seen_at, a.ended_at FROM address a
WHERE a.tenant = :tenant AND a.collection_id = :collection_id AND a.path >= :low AND a.path < :high
  AND (a.expires_at IS NULL OR a.expires_at > :now)
ORDER BY a.path DESC
LIMIT 1;

-- name: list_addresses
-- The sessions of a collection, the newest first, with the numbers of their entries.
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

-- name: names_of_session
-- The names of a dialect's collections that have a session with this id.
SELECT DISTINCT c.name FROM address a
JOIN collection c ON c.tenant = a.tenant AND c.id = a.collection_id
WHERE a.tenant = :tenant AND c.tenant = :tenant AND a.path = :path AND c.dialect = :dialect
  AND (a.expires_at IS NULL OR a.expires_at > :now)
ORDER BY c.name;

-- name: count_entries
-- The number of live entries of an address.
SELECT COUNT(*) FROM entry
WHERE tenant = :tenant AND address_id = :address_id
  AND retired_at IS NULL AND (expires_at IS NULL OR expires_at > :now);

-- name: entry_exists
-- The address of the entry with an id, also if the entry is retired.
SELECT address_id FROM entry WHERE tenant = :tenant AND id = :id LIMIT 1;

-- name: addresses_of_path
-- The addresses with a path in the collections with a dialect and a name.
SELECT a.id, a.collection_id, c.kind FROM collection c
JOIN address a ON a.tenant = c.tenant AND a.collection_id = c.id
WHERE c.tenant = :tenant AND a.tenant = :tenant AND c.dialect = :dialect AND c.name = :name AND a.path = :path;

-- Files of sessions, and the bytes of files where the database holds them.

-- name: add_file
-- Add a file to a session.
INSERT INTO file (tenant, id, address_id, text_id, seq, digest, filename, mimetype, size, active, state, reason, tokens,
  created_at)
VALUES (:tenant, :id, :address_id, :text_id, :seq, :digest, :filename, :mimetype, :size, :active, :state, NULL, 0, :now);

-- name: files_of
-- The files of a session, in the order in which they were added.
SELECT id, address_id, text_id, seq, digest, filename, mimetype, size, active, state, reason, tokens, created_at
FROM file WHERE tenant = :tenant AND address_id = :address_id
ORDER BY seq;

-- name: find_file
-- A file by its id, in any session.
SELECT id, address_id, text_id, seq, digest, filename, mimetype, size, active, state, reason, tokens, created_at
FROM file WHERE tenant = :tenant AND id = :id;

-- name: live_file
-- A file by its id, in any session, unless it is being erased.
SELECT f.id, f.address_id, f.text_id, f.seq, f.digest, f.filename, f.mimetype, f.size, f.active, f.state, f.reason, f.tokens,
  f.created_at
FROM file f
JOIN address a ON a.tenant = f.tenant AND a.id = f.address_id
JOIN collection c ON c.tenant = a.tenant AND c.id = a.collection_id
WHERE f.tenant = :tenant AND a.tenant = :tenant AND c.tenant = :tenant AND f.id = :id AND c.dialect = 'app';

-- name: file_is_awaited
-- A row if a job to extract the text at an address is queued.
SELECT 1 FROM job WHERE tenant = :tenant AND address_id = :address_id AND kind = 'extract' AND state IN ('ready', 'running')
LIMIT 1;

-- name: set_file
-- Set the state of a file and the address of its text.
UPDATE file SET active = :active, text_id = :text_id, state = :state, reason = :reason, tokens = :tokens
WHERE tenant = :tenant AND id = :id;

-- name: file_tokens
-- The number of tokens in the other files of a session.
SELECT CAST(COALESCE(SUM(tokens), 0) AS BIGINT) FROM file WHERE tenant = :tenant AND address_id = :address_id AND id <> :id;

-- name: digest_named
-- A row if any file has these bytes.
SELECT 1 FROM file WHERE tenant = :tenant AND digest = :digest LIMIT 1;

-- name: put_blob
-- Store the bytes of a file. Storing them again renews the time.
-- engine: postgres
INSERT INTO blob (tenant, digest, content, stored_at) VALUES (:tenant, :digest, :content, :stored_at)
ON CONFLICT (tenant, digest) DO UPDATE SET content = excluded.content, stored_at = excluded.stored_at;

-- name: find_blob
-- The bytes of a file.
-- engine: postgres
SELECT content FROM blob WHERE tenant = :tenant AND digest = :digest;

-- name: piece_of_blob
-- A range of the bytes of a file.
-- engine: postgres
SELECT SUBSTRING(content FROM CAST(:first AS INTEGER) FOR CAST(:size AS INTEGER)) FROM blob
WHERE tenant = :tenant AND digest = :digest;

-- name: has_blob
-- A row if these bytes are stored.
-- engine: postgres
SELECT 1 FROM blob WHERE tenant = :tenant AND digest = :digest;

-- name: delete_blob
-- Remove the bytes of a file.
-- engine: postgres
DELETE FROM blob WHERE tenant = :tenant AND digest = :digest;

-- name: list_blobs
-- The digests of stored bytes after a digest, and the times when they were stored.
-- engine: postgres
SELECT digest, stored_at FROM blob WHERE tenant = :tenant AND digest > :after ORDER BY digest LIMIT :limit;

-- name: page_digests
-- The files after an id, with the digests of their bytes.
SELECT id, digest FROM file WHERE tenant = :tenant AND id > :after
ORDER BY id
LIMIT :limit;

-- Entries and summaries of banks.

-- name: next_shown
-- The entries of an address after a sequence number, the oldest first, with the number of entries that each summarizes.
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
-- The entries of an address after a sequence number, the oldest first, also those behind summaries, with the number of
-- entries that each summarizes and the summary that it is behind.
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

-- name: last_said
-- The newest turns up to a sequence number, the newest first, for an array of messages.
SELECT seq, role, content, 0 FROM entry
WHERE tenant = :tenant AND address_id = :address_id AND seq <= :upto AND kind <> 'summary'
  AND retired_at IS NULL AND (expires_at IS NULL OR expires_at > :now)
ORDER BY seq DESC
LIMIT :limit;

-- name: entries_down
-- The visible entries of an address without summaries, the newest first.
SELECT id, version, seq, kind, role, name, content, metadata, tool, origin, importance, confidence, occurred_at, recorded_at,
  COALESCE(created_at, recorded_at)
FROM entry
WHERE tenant = :tenant AND address_id = :address_id AND kind <> 'summary'
  AND retired_at IS NULL AND (expires_at IS NULL OR expires_at > :now)
ORDER BY seq DESC
LIMIT :limit;

-- name: entries_up
-- The visible entries of an address without summaries, the oldest first.
SELECT id, version, seq, kind, role, name, content, metadata, tool, origin, importance, confidence, occurred_at, recorded_at,
  COALESCE(created_at, recorded_at)
FROM entry
WHERE tenant = :tenant AND address_id = :address_id AND kind <> 'summary'
  AND retired_at IS NULL AND (expires_at IS NULL OR expires_at > :now)
ORDER BY seq
LIMIT :limit;

-- name: every_entry_down
-- The entries of an address that are not summaries, the newest first, each with the summary that it is behind.
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
-- The entries of an address that are not summaries, the oldest first, each with the summary that it is behind.
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
-- The summaries of an address that are not behind another, the latest first, with their positions and numbers of entries.
SELECT s.position, s.entries, e.id, e.version, e.seq, e.kind, e.role, e.name, e.content, e.metadata, e.tool, e.origin, e.importance, e.confidence,
  e.occurred_at, e.recorded_at, COALESCE(e.created_at, e.recorded_at)
FROM summary s
JOIN entry e ON e.tenant = s.tenant AND e.docid = s.docid
WHERE s.tenant = :tenant AND e.tenant = :tenant AND e.address_id = :address_id AND s.position <= :upto
  AND e.kind = 'summary' AND e.retired_at IS NULL AND (e.expires_at IS NULL OR e.expires_at > :now)
ORDER BY s.position DESC, s.docid DESC
LIMIT :limit;

-- name: shown_summaries_up
-- The summaries of an address that are not behind another, the earliest first, with their positions and numbers of entries.
SELECT s.position, s.entries, e.id, e.version, e.seq, e.kind, e.role, e.name, e.content, e.metadata, e.tool, e.origin, e.importance, e.confidence,
  e.occurred_at, e.recorded_at, COALESCE(e.created_at, e.recorded_at)
FROM summary s
JOIN entry e ON e.tenant = s.tenant AND e.docid = s.docid
WHERE s.tenant = :tenant AND e.tenant = :tenant AND e.address_id = :address_id
  AND e.kind = 'summary' AND e.retired_at IS NULL AND (e.expires_at IS NULL OR e.expires_at > :now)
ORDER BY s.position, s.docid
LIMIT :limit;

-- name: summaries_down
-- All summaries of an address, the latest first, with their positions, numbers of entries, and the summary that each is
-- behind.
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
-- All summaries of an address, the earliest first, with their positions, numbers of entries, and the summary that each is
-- behind.
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
-- A row if an address has more than :turns live entries. This reads the index alone.
SELECT 1 FROM entry
WHERE tenant = :tenant AND address_id = :address_id AND retired_at IS NULL
LIMIT 1 OFFSET :turns;

-- name: beyond_turns
-- A row if an address has more than :turns live turns.
SELECT seq FROM entry
WHERE tenant = :tenant AND address_id = :address_id AND kind <> 'summary'
  AND retired_at IS NULL AND (expires_at IS NULL OR expires_at > :now)
ORDER BY seq DESC
LIMIT 1 OFFSET :turns;

-- name: oldest_turn
-- The time of the oldest live turn of an address.
SELECT recorded_at FROM entry
WHERE tenant = :tenant AND address_id = :address_id AND kind <> 'summary'
  AND retired_at IS NULL AND (expires_at IS NULL OR expires_at > :now)
ORDER BY seq
LIMIT 1;

-- name: turns_from
-- The live turns of an address from a sequence number on, in order.
SELECT seq, id, content FROM entry
WHERE tenant = :tenant AND address_id = :address_id AND seq >= :first AND kind <> 'summary'
  AND retired_at IS NULL AND (expires_at IS NULL OR expires_at > :now)
ORDER BY seq
LIMIT :limit;

-- name: add_summary
-- Store the position of a summary and its number of entries.
INSERT INTO summary (tenant, docid, id, address_id, position, entries)
SELECT :tenant, e.docid, e.id, e.address_id, :position, :entries
FROM entry e WHERE e.tenant = :tenant AND e.id = :id AND e.version = 1;

-- name: bank_address
-- The collection and path of an address, by its number.
SELECT a.id, c.name, a.path FROM address a
JOIN collection c ON c.tenant = a.tenant AND c.id = a.collection_id
WHERE a.tenant = :tenant AND c.tenant = :tenant AND a.id = :id AND c.dialect = 'bank';

-- name: bank_keys
-- The paths of a named collection, with their numbers of live entries.
SELECT a.path, (SELECT COUNT(*) FROM entry e WHERE e.tenant = :tenant AND e.address_id = a.id AND e.retired_at IS NULL
  AND (e.expires_at IS NULL OR e.expires_at > :now)) AS entries
FROM collection c
JOIN address a ON a.tenant = c.tenant AND a.collection_id = c.id
WHERE c.tenant = :tenant AND a.tenant = :tenant AND c.dialect = :dialect AND c.name = :name AND c.kind = :kind
  AND (a.expires_at IS NULL OR a.expires_at > :now)
ORDER BY a.path
LIMIT 10000;

-- name: bank_folded
-- The number of entries of a named collection that were written in a period and are behind summaries. Summaries do not count.
SELECT COUNT(*) FROM collection c
JOIN address a ON a.tenant = c.tenant AND a.collection_id = c.id
JOIN folded f ON f.tenant = a.tenant AND f.address_id = a.id
JOIN entry e ON e.tenant = f.tenant AND e.docid = f.docid
WHERE c.tenant = :tenant AND a.tenant = :tenant AND f.tenant = :tenant AND e.tenant = :tenant
  AND c.dialect = :dialect AND c.name = :name AND c.kind = :kind
  AND e.kind <> 'summary' AND e.recorded_at >= :since AND e.recorded_at < :until
  AND (e.expires_at IS NULL OR e.expires_at > :now);

-- name: summary_place
-- The position of a summary and its number of entries.
SELECT s.position, s.entries FROM summary s
JOIN entry e ON e.tenant = s.tenant AND e.docid = s.docid
WHERE s.tenant = :tenant AND e.tenant = :tenant AND e.id = :id;

-- name: fold_entry
-- Hide an entry behind a summary.
INSERT INTO folded (tenant, docid, address_id, summary_id) VALUES (:tenant, :docid, :address_id, :summary_id);

-- name: summary_of
-- The summary that an entry is behind.
SELECT f.summary_id FROM folded f
JOIN entry e ON e.tenant = f.tenant AND e.docid = f.docid
WHERE f.tenant = :tenant AND e.tenant = :tenant AND e.id = :id;

-- name: first_kept
-- The sequence number of the first entry of an address, hidden ones included.
SELECT seq FROM entry
WHERE tenant = :tenant AND address_id = :address_id AND seq > 0 AND (expires_at IS NULL OR expires_at > :now)
ORDER BY seq
LIMIT 1;

-- name: folds_of
-- The entries directly behind a summary.
SELECT e.seq, e.id, e.kind FROM folded f
JOIN entry e ON e.tenant = f.tenant AND e.docid = f.docid
WHERE f.tenant = :tenant AND e.tenant = :tenant AND f.summary_id = :id AND (e.expires_at IS NULL OR e.expires_at > :now);

-- name: entries_behind
-- The entries of an address from a sequence number on that are behind summaries.
SELECT e.id, e.version, e.seq, e.kind, e.role, e.name, e.content, e.metadata, e.tool, e.origin, e.importance, e.confidence,
  e.occurred_at, e.recorded_at, COALESCE(e.created_at, e.recorded_at)
FROM entry e
WHERE e.tenant = :tenant AND e.address_id = :address_id AND e.seq >= :first AND e.kind <> 'summary'
  AND e.retired_at IS NOT NULL AND (e.expires_at IS NULL OR e.expires_at > :now)
ORDER BY e.seq;

-- name: unfold
-- Restore the entries behind a summary.
UPDATE entry SET retired_at = NULL
WHERE tenant = :tenant AND docid IN (SELECT f.docid FROM folded f WHERE f.tenant = :tenant AND f.summary_id = :id)
RETURNING docid;

-- name: sources_of_summary
-- The entries directly behind a summary after a sequence number, the oldest first, in the columns of `next_of_all`.
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
-- A row if an address has a readable entry, hidden ones included.
SELECT 1 FROM entry e
WHERE e.tenant = :tenant AND e.address_id = :address_id
  AND (e.retired_at IS NULL OR EXISTS (SELECT 1 FROM folded f WHERE f.tenant = :tenant AND f.docid = e.docid))
  AND (e.expires_at IS NULL OR e.expires_at > :now)
LIMIT 1;

-- name: forget_folds
-- Delete the list of the entries behind a summary.
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

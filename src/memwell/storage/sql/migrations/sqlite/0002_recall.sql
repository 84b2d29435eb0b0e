-- Search: words, vectors, and how an index in memory learns of what is new and what is gone.

-- An entry's number is never used again, so that rows above a number are the new ones.
CREATE TABLE entry_numbered (
  docid INTEGER PRIMARY KEY AUTOINCREMENT,
  tenant TEXT NOT NULL,
  id TEXT NOT NULL,
  version INTEGER NOT NULL,
  address_id INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  kind TEXT NOT NULL,
  role TEXT,
  name TEXT,
  content TEXT NOT NULL,
  metadata TEXT,
  tool TEXT,
  origin TEXT NOT NULL,
  importance REAL,
  confidence REAL,
  occurred_at INTEGER NOT NULL,
  recorded_at INTEGER NOT NULL,
  created_at INTEGER,
  expires_at INTEGER,
  retired_at INTEGER,
  asks REAL NOT NULL DEFAULT 0,
  FOREIGN KEY (tenant, address_id) REFERENCES address (tenant, id)
);

INSERT INTO entry_numbered (docid, tenant, id, version, address_id, seq, kind, role, name, content, metadata, tool, origin,
  importance, confidence, occurred_at, recorded_at, created_at, expires_at, retired_at)
SELECT docid, tenant, id, version, address_id, seq, kind, role, name, content, metadata, tool, origin, importance, confidence,
  occurred_at, recorded_at, created_at, expires_at, retired_at
FROM entry ORDER BY docid;

DROP TABLE entry;

ALTER TABLE entry_numbered RENAME TO entry;

CREATE UNIQUE INDEX entry_order ON entry (tenant, address_id, seq);

CREATE UNIQUE INDEX entry_version ON entry (tenant, id, version);

CREATE INDEX entry_expiry ON entry (tenant, expires_at) WHERE expires_at IS NOT NULL;

-- What was taken out of search: one entry, or all of an address.
CREATE TABLE removal (
  tenant TEXT NOT NULL,
  seq INTEGER NOT NULL,
  docid INTEGER,
  address_id INTEGER,
  PRIMARY KEY (tenant, seq)
) WITHOUT ROWID;

-- The words of an entry as the analyser gave them, with an opaque token for its address, its collection and its kind.
-- They are kept, so that deleting needs no analyser: its next version, or another Python, might cut words differently.
CREATE VIRTUAL TABLE word USING fts5 (tokens, tokenize = 'ascii', detail = 'none', columnsize = 0);

INSERT INTO word (word, rank) VALUES ('secure-delete', 1);

-- The models that vectors are of. Entries up to embedded_to have theirs.
CREATE TABLE model (
  tenant TEXT NOT NULL,
  id INTEGER NOT NULL,
  name TEXT NOT NULL,
  dimensions INTEGER NOT NULL,
  embedded_to INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (tenant, id)
) WITHOUT ROWID;

CREATE UNIQUE INDEX model_name ON model (tenant, name);

-- The vectors of an entry's parts, one after the other, in half precision.
CREATE TABLE vector (
  tenant TEXT NOT NULL,
  model INTEGER NOT NULL,
  docid INTEGER NOT NULL,
  value BLOB NOT NULL,
  PRIMARY KEY (tenant, model, docid)
) WITHOUT ROWID;

INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
  ('entry', 'entry_order', '1000000 1000000 100 1'),
  ('entry', 'entry_version', '1000000 1000000 1 1'),
  ('entry', 'entry_expiry', '1000000 1000000 10'),
  ('model', 'model', '2 2 1'),
  ('model', 'model_name', '2 2 1'),
  ('vector', 'vector', '1000000 1000000 1000000 1');

-- What was written before this step has no words yet.
INSERT INTO job (tenant, id, kind, slot, state, payload, attempts, max_attempts, run_at, fence, created_at)
SELECT tenant, lower(hex(randomblob(13))), 'index', 'index', 'ready', '{}', 0, 5, 0, 0, 0
FROM collection WHERE tenant IN (SELECT tenant FROM entry) GROUP BY tenant;

-- Files of sessions: what they are called, whether they are used, and what became of their text. Their bytes lie elsewhere,
-- by their digest.

CREATE TABLE file (
  tenant TEXT NOT NULL,
  id TEXT NOT NULL,
  address_id INTEGER NOT NULL,
  text_id INTEGER,
  seq INTEGER NOT NULL,
  digest TEXT NOT NULL,
  filename TEXT NOT NULL,
  mimetype TEXT NOT NULL,
  size INTEGER NOT NULL,
  active INTEGER NOT NULL,
  state TEXT NOT NULL,
  reason TEXT,
  tokens INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (tenant, id)
) WITHOUT ROWID;

CREATE UNIQUE INDEX file_session ON file (tenant, address_id, seq);

CREATE INDEX file_digest ON file (tenant, digest);

INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
  ('file', 'file', '100000 100000 1'),
  ('file', 'file_session', '100000 100000 10 1'),
  ('file', 'file_digest', '100000 100000 2');

-- Records: one JSON value at an address, and the changes that led to it.

CREATE TABLE record (
  tenant TEXT NOT NULL,
  address_id INTEGER NOT NULL,
  version INTEGER NOT NULL,
  value TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  expires_at INTEGER,
  PRIMARY KEY (tenant, address_id)
) WITHOUT ROWID;

-- What was written, as it was given; now and then, and to begin with, the whole value.
CREATE TABLE record_version (
  tenant TEXT NOT NULL,
  address_id INTEGER NOT NULL,
  version INTEGER NOT NULL,
  mode TEXT NOT NULL,
  data TEXT NOT NULL,
  actor TEXT NOT NULL,
  written_at INTEGER NOT NULL,
  expires_at INTEGER,
  PRIMARY KEY (tenant, address_id, version)
) WITHOUT ROWID;

INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
  ('record', 'record', '100000 100000 1'),
  ('record_version', 'record_version', '1000000 1000000 10 1');

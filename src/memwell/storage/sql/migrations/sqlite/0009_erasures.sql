-- What was erased, by marks that tell nothing: a restored backup is told what was erased since it was made. It is never
-- pruned, since nobody knows how old the backups are that are still kept.

CREATE TABLE erasure (
  tenant TEXT NOT NULL,
  seq INTEGER NOT NULL,
  kind TEXT NOT NULL,
  id TEXT NOT NULL,
  at INTEGER NOT NULL,
  PRIMARY KEY (tenant, seq)
) WITHOUT ROWID;

INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES ('erasure', 'erasure', '100000 100000 1');

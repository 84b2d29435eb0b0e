-- What records are tied to: what they are held to, whose they are, a session, a run. They go when that goes.

CREATE TABLE record_tie (
  tenant TEXT NOT NULL,
  tie TEXT NOT NULL,
  address_id INTEGER NOT NULL,
  PRIMARY KEY (tenant, tie, address_id)
) WITHOUT ROWID;
CREATE INDEX record_tie_by_address ON record_tie (tenant, address_id);

INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
  ('record_tie', 'record_tie', '200000 200000 10 1'),
  ('record_tie', 'record_tie_by_address', '200000 200000 2 1');

-- What was erased, by marks that tell nothing: a restored backup is told what was erased since it was made. It is never
-- pruned, since nobody knows how old the backups are that are still kept.

CREATE TABLE erasure (
  tenant TEXT COLLATE "C" NOT NULL,
  seq BIGINT NOT NULL,
  kind TEXT COLLATE "C" NOT NULL,
  id TEXT COLLATE "C" NOT NULL,
  at BIGINT NOT NULL,
  PRIMARY KEY (tenant, seq)
);

-- The same for whole tenants.
CREATE TABLE dropped (
  id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
  at BIGINT NOT NULL
);

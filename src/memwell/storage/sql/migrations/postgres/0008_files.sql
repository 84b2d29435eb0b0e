-- Files of sessions: what they are called, whether they are used, and what became of their text. Their bytes lie elsewhere,
-- by their digest.

CREATE TABLE file (
  tenant TEXT COLLATE "C" NOT NULL,
  id TEXT COLLATE "C" NOT NULL,
  address_id BIGINT NOT NULL,
  text_id BIGINT,
  seq BIGINT NOT NULL,
  digest TEXT COLLATE "C" NOT NULL,
  filename TEXT COLLATE "C" NOT NULL,
  mimetype TEXT COLLATE "C" NOT NULL,
  size BIGINT NOT NULL,
  active BIGINT NOT NULL,
  state TEXT COLLATE "C" NOT NULL,
  reason TEXT COLLATE "C",
  tokens BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (tenant, id)
);

CREATE UNIQUE INDEX file_session ON file (tenant, address_id, seq);

CREATE INDEX file_digest ON file (tenant, digest);

-- The bytes themselves: servers that share a database share no disk.
CREATE TABLE blob (
  tenant TEXT COLLATE "C" NOT NULL,
  digest TEXT COLLATE "C" NOT NULL,
  content BYTEA NOT NULL,
  stored_at BIGINT NOT NULL,
  PRIMARY KEY (tenant, digest)
);

-- What people upload is compressed already.
ALTER TABLE blob ALTER COLUMN content SET STORAGE EXTERNAL;

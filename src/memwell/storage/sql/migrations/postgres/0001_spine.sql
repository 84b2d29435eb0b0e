-- All tenants share these tables: the tenant leads every key, and a row of another tenant cannot be seen. There are no
-- sequences and no triggers, and references are added last, so that the tables can be distributed by tenant as they are.
-- Text is compared byte by byte, as SQLite does.

CREATE TABLE tenant (
  id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
  created_at BIGINT NOT NULL
);

CREATE TABLE api_key (
  id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
  tenant TEXT COLLATE "C" NOT NULL REFERENCES tenant (id),
  name TEXT COLLATE "C" NOT NULL,
  hash BYTEA NOT NULL UNIQUE,
  role TEXT NOT NULL,
  tie_kind TEXT,
  tie_name TEXT COLLATE "C",
  rate BIGINT,
  created_at BIGINT NOT NULL,
  expires_at BIGINT,
  revoked_at BIGINT
);

CREATE INDEX api_key_tenant ON api_key (tenant, id);

-- A hint may be lost without harm: a slow sweep over the tenants finds what it stood for.
CREATE TABLE hint (
  tenant TEXT COLLATE "C" NOT NULL PRIMARY KEY,
  due_at BIGINT NOT NULL
);

CREATE INDEX hint_due ON hint (due_at);

-- How many of a key's requests the servers that share this database have handed out, by the second.
CREATE TABLE rate (
  id TEXT COLLATE "C" NOT NULL,
  second BIGINT NOT NULL,
  used BIGINT NOT NULL,
  PRIMARY KEY (id, second)
);

-- What the servers of this database share and nobody else may know.
CREATE TABLE secret (
  name TEXT COLLATE "C" NOT NULL PRIMARY KEY,
  value BYTEA NOT NULL
);

-- One row for each tenant. Whoever writes to a tenant holds it until the commit, so that its writers come one after the
-- other, as they do in a file; and it holds the highest number that an entry was ever given.
CREATE TABLE writer (
  tenant TEXT COLLATE "C" NOT NULL PRIMARY KEY,
  docid BIGINT NOT NULL
);

CREATE TABLE collection (
  tenant TEXT COLLATE "C" NOT NULL,
  id BIGINT NOT NULL,
  dialect TEXT COLLATE "C" NOT NULL,
  name TEXT COLLATE "C" NOT NULL,
  kind TEXT COLLATE "C" NOT NULL,
  sealed BIGINT NOT NULL,
  policy TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (tenant, id)
);

CREATE UNIQUE INDEX collection_name ON collection (tenant, dialect, name, kind);

CREATE TABLE address (
  tenant TEXT COLLATE "C" NOT NULL,
  id BIGINT NOT NULL,
  collection_id BIGINT NOT NULL,
  path TEXT COLLATE "C" NOT NULL,
  last_seq BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  last_seen_at BIGINT NOT NULL,
  ended_at BIGINT,
  ended_seq BIGINT NOT NULL,
  expires_at BIGINT,
  metadata TEXT,
  PRIMARY KEY (tenant, id)
) WITH (fillfactor = 80);

CREATE UNIQUE INDEX address_path ON address (tenant, collection_id, path);

CREATE INDEX address_created ON address (tenant, collection_id, created_at, id);

CREATE INDEX address_session ON address (tenant, path);

CREATE INDEX address_expiry ON address (tenant, expires_at) WHERE expires_at IS NOT NULL;

-- created_at is set on later versions only: when the first was.
CREATE TABLE entry (
  tenant TEXT COLLATE "C" NOT NULL,
  docid BIGINT NOT NULL,
  id TEXT COLLATE "C" NOT NULL,
  version BIGINT NOT NULL,
  address_id BIGINT NOT NULL,
  seq BIGINT NOT NULL,
  kind TEXT NOT NULL,
  role TEXT,
  name TEXT,
  content TEXT NOT NULL,
  metadata TEXT,
  tool TEXT,
  origin TEXT NOT NULL,
  importance DOUBLE PRECISION,
  confidence DOUBLE PRECISION,
  occurred_at BIGINT NOT NULL,
  recorded_at BIGINT NOT NULL,
  created_at BIGINT,
  expires_at BIGINT,
  retired_at BIGINT,
  PRIMARY KEY (tenant, docid)
);

CREATE UNIQUE INDEX entry_order ON entry (tenant, address_id, seq);

CREATE UNIQUE INDEX entry_version ON entry (tenant, id, version);

CREATE INDEX entry_expiry ON entry (tenant, expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE job (
  tenant TEXT COLLATE "C" NOT NULL,
  id TEXT COLLATE "C" NOT NULL,
  kind TEXT COLLATE "C" NOT NULL,
  slot TEXT COLLATE "C",
  state TEXT COLLATE "C" NOT NULL,
  payload TEXT NOT NULL,
  attempts BIGINT NOT NULL,
  max_attempts BIGINT NOT NULL,
  run_at BIGINT NOT NULL,
  lease_until BIGINT,
  fence BIGINT NOT NULL,
  worker TEXT,
  error TEXT,
  result TEXT,
  created_at BIGINT NOT NULL,
  finished_at BIGINT,
  address_id BIGINT,
  PRIMARY KEY (tenant, id)
);

CREATE UNIQUE INDEX job_slot ON job (tenant, slot) WHERE slot IS NOT NULL;

CREATE INDEX job_due ON job (tenant, state, run_at);

CREATE INDEX job_address ON job (tenant, address_id) WHERE address_id IS NOT NULL;

-- Events hold opaque ids only: when a name is erased, its events no longer say whose they were.
CREATE TABLE event (
  tenant TEXT COLLATE "C" NOT NULL,
  seq BIGINT NOT NULL,
  at BIGINT NOT NULL,
  operation TEXT NOT NULL,
  collection_id BIGINT,
  address_id BIGINT,
  entries BIGINT NOT NULL,
  actor TEXT NOT NULL,
  PRIMARY KEY (tenant, seq)
);

CREATE TABLE idempotency (
  tenant TEXT COLLATE "C" NOT NULL,
  key_hash BYTEA NOT NULL,
  request_hash BYTEA,
  response BYTEA,
  expires_at BIGINT NOT NULL,
  PRIMARY KEY (tenant, key_hash)
);

CREATE INDEX idempotency_expiry ON idempotency (tenant, expires_at);

CREATE TABLE idempotency_touch (
  tenant TEXT COLLATE "C" NOT NULL,
  address_id BIGINT NOT NULL,
  entry_id TEXT COLLATE "C" NOT NULL,
  key_hash BYTEA NOT NULL,
  PRIMARY KEY (tenant, address_id, key_hash)
);

CREATE INDEX idempotency_touch_key ON idempotency_touch (tenant, key_hash);

ALTER TABLE address ADD CONSTRAINT address_collection
  FOREIGN KEY (tenant, collection_id) REFERENCES collection (tenant, id);

ALTER TABLE entry ADD CONSTRAINT entry_address
  FOREIGN KEY (tenant, address_id) REFERENCES address (tenant, id);

ALTER TABLE idempotency_touch ADD CONSTRAINT idempotency_touch_answer
  FOREIGN KEY (tenant, key_hash) REFERENCES idempotency (tenant, key_hash) ON DELETE CASCADE;

-- control.db: the tables above the tenants.

CREATE TABLE tenant (
  id TEXT NOT NULL PRIMARY KEY,
  created_at INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE api_key (
  id TEXT NOT NULL PRIMARY KEY,
  tenant TEXT NOT NULL REFERENCES tenant (id),
  name TEXT NOT NULL,
  hash BLOB NOT NULL UNIQUE,
  role TEXT NOT NULL,
  tie_kind TEXT,
  tie_name TEXT,
  rate INTEGER,
  created_at INTEGER NOT NULL,
  expires_at INTEGER,
  revoked_at INTEGER
) WITHOUT ROWID;

CREATE INDEX api_key_tenant ON api_key (tenant, id);

-- The time of a tenant's next work. A hint may be lost: a slow sweep over all tenants finds the work.
CREATE TABLE hint (
  tenant TEXT NOT NULL PRIMARY KEY,
  due_at INTEGER NOT NULL
) WITHOUT ROWID;

CREATE INDEX hint_due ON hint (due_at);

-- The number of requests per key and second, for all servers that share this directory.
CREATE TABLE rate (
  id TEXT NOT NULL,
  second INTEGER NOT NULL,
  used INTEGER NOT NULL,
  PRIMARY KEY (id, second)
) WITHOUT ROWID;

-- Deleted tenants, by ids that reveal nothing, so that no restored backup brings one back.
CREATE TABLE dropped (
  id TEXT NOT NULL PRIMARY KEY,
  at INTEGER NOT NULL
) WITHOUT ROWID;

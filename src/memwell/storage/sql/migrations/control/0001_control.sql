-- What is not inside one tenant: which tenants there are, who may speak for them, and where work is due.

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

-- A hint may be lost without harm: a slow sweep over the tenants finds what it stood for.
CREATE TABLE hint (
  tenant TEXT NOT NULL PRIMARY KEY,
  due_at INTEGER NOT NULL
) WITHOUT ROWID;

CREATE INDEX hint_due ON hint (due_at);

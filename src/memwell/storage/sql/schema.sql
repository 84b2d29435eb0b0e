-- Today's schema, generated from the migrations by `make format`. A test proves the two equal.

-- a tenant's file

CREATE TABLE collection (
  tenant TEXT NOT NULL,
  id INTEGER NOT NULL,
  dialect TEXT NOT NULL,
  name TEXT NOT NULL,
  kind TEXT NOT NULL,
  sealed INTEGER NOT NULL,
  policy TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (tenant, id)
) WITHOUT ROWID;

CREATE UNIQUE INDEX collection_name ON collection (tenant, dialect, name, kind);

CREATE TABLE address (
  tenant TEXT NOT NULL,
  id INTEGER NOT NULL,
  collection_id INTEGER NOT NULL,
  path TEXT NOT NULL,
  last_seq INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  last_seen_at INTEGER NOT NULL,
  ended_at INTEGER,
  ended_seq INTEGER NOT NULL,
  expires_at INTEGER,
  metadata TEXT, distilled_seq INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (tenant, id),
  FOREIGN KEY (tenant, collection_id) REFERENCES collection (tenant, id)
) WITHOUT ROWID;

CREATE UNIQUE INDEX address_path ON address (tenant, collection_id, path);

CREATE INDEX address_created ON address (tenant, collection_id, created_at, id);

CREATE INDEX address_session ON address (tenant, path);

CREATE INDEX address_expiry ON address (tenant, expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE job (
  tenant TEXT NOT NULL,
  id TEXT NOT NULL,
  kind TEXT NOT NULL,
  slot TEXT,
  state TEXT NOT NULL,
  payload TEXT NOT NULL,
  attempts INTEGER NOT NULL,
  max_attempts INTEGER NOT NULL,
  run_at INTEGER NOT NULL,
  lease_until INTEGER,
  fence INTEGER NOT NULL,
  worker TEXT,
  error TEXT,
  result TEXT,
  created_at INTEGER NOT NULL,
  finished_at INTEGER,
  address_id INTEGER,
  PRIMARY KEY (tenant, id)
) WITHOUT ROWID;

CREATE UNIQUE INDEX job_slot ON job (tenant, slot) WHERE slot IS NOT NULL;

CREATE INDEX job_due ON job (tenant, state, run_at);

CREATE INDEX job_address ON job (tenant, address_id) WHERE address_id IS NOT NULL;

CREATE TABLE event (
  tenant TEXT NOT NULL,
  seq INTEGER NOT NULL,
  at INTEGER NOT NULL,
  operation TEXT NOT NULL,
  collection_id INTEGER,
  address_id INTEGER,
  entries INTEGER NOT NULL,
  actor TEXT NOT NULL,
  PRIMARY KEY (tenant, seq)
) WITHOUT ROWID;

CREATE TABLE idempotency (
  tenant TEXT NOT NULL,
  key_hash BLOB NOT NULL,
  request_hash BLOB,
  response BLOB,
  expires_at INTEGER NOT NULL,
  PRIMARY KEY (tenant, key_hash)
) WITHOUT ROWID;

CREATE INDEX idempotency_expiry ON idempotency (tenant, expires_at);

CREATE TABLE idempotency_touch (
  tenant TEXT NOT NULL,
  address_id INTEGER NOT NULL,
  entry_id TEXT NOT NULL,
  key_hash BLOB NOT NULL,
  PRIMARY KEY (tenant, address_id, key_hash),
  FOREIGN KEY (tenant, key_hash) REFERENCES idempotency (tenant, key_hash) ON DELETE CASCADE
) WITHOUT ROWID;

CREATE INDEX idempotency_touch_key ON idempotency_touch (tenant, key_hash);

CREATE TABLE sqlite_stat1(tbl,idx,stat);

CREATE TABLE sqlite_stat4(tbl,idx,neq,nlt,ndlt,sample);

CREATE TABLE "entry" (
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

CREATE TABLE sqlite_sequence(name,seq);

CREATE UNIQUE INDEX entry_order ON entry (tenant, address_id, seq);

CREATE UNIQUE INDEX entry_version ON entry (tenant, id, version);

CREATE INDEX entry_expiry ON entry (tenant, expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE removal (
  tenant TEXT NOT NULL,
  seq INTEGER NOT NULL,
  docid INTEGER,
  address_id INTEGER,
  PRIMARY KEY (tenant, seq)
) WITHOUT ROWID;

CREATE VIRTUAL TABLE word USING fts5 (tokens, tokenize = 'ascii', detail = 'none', columnsize = 0);

CREATE TABLE 'word_data'(id INTEGER PRIMARY KEY, block BLOB);

CREATE TABLE 'word_idx'(segid, term, pgno, PRIMARY KEY(segid, term)) WITHOUT ROWID;

CREATE TABLE 'word_content'(id INTEGER PRIMARY KEY, c0);

CREATE TABLE 'word_config'(k PRIMARY KEY, v) WITHOUT ROWID;

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

CREATE TABLE vector (
  tenant TEXT NOT NULL,
  model INTEGER NOT NULL,
  docid INTEGER NOT NULL,
  value BLOB NOT NULL,
  PRIMARY KEY (tenant, model, docid)
) WITHOUT ROWID;

CREATE TABLE fact (
  tenant TEXT NOT NULL,
  docid INTEGER NOT NULL,
  collection_id INTEGER NOT NULL,
  subject TEXT,
  same TEXT NOT NULL,
  topic TEXT,
  valid_from INTEGER NOT NULL,
  valid_to INTEGER,
  plan_id TEXT,
  held TEXT, ended_by TEXT,
  PRIMARY KEY (tenant, docid)
) WITHOUT ROWID;

CREATE INDEX fact_same ON fact (tenant, collection_id, same);

CREATE INDEX fact_topic ON fact (tenant, collection_id, topic) WHERE topic IS NOT NULL;

CREATE TABLE evidence (
  tenant TEXT NOT NULL,
  id INTEGER NOT NULL,
  fact_id TEXT NOT NULL,
  entry_id TEXT NOT NULL,
  address_id INTEGER NOT NULL,
  first_char INTEGER NOT NULL,
  end_char INTEGER NOT NULL,
  origin TEXT NOT NULL,
  said_at INTEGER NOT NULL,
  plan_id TEXT NOT NULL,
  PRIMARY KEY (tenant, id)
) WITHOUT ROWID;

CREATE UNIQUE INDEX evidence_fact ON evidence (tenant, fact_id, entry_id, first_char);

CREATE INDEX evidence_entry ON evidence (tenant, entry_id);

CREATE INDEX evidence_address ON evidence (tenant, address_id);

CREATE INDEX evidence_plan ON evidence (tenant, plan_id);

CREATE TABLE plan (
  tenant TEXT NOT NULL,
  id TEXT NOT NULL,
  collection_id INTEGER NOT NULL,
  address_id INTEGER NOT NULL,
  state TEXT NOT NULL,
  method TEXT NOT NULL,
  note TEXT,
  head INTEGER NOT NULL,
  first_seq INTEGER NOT NULL,
  last_seq INTEGER NOT NULL,
  steps TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  applied_at INTEGER,
  reverted_at INTEGER,
  PRIMARY KEY (tenant, id)
) WITHOUT ROWID;

CREATE INDEX plan_collection ON plan (tenant, collection_id, id);

CREATE INDEX plan_address ON plan (tenant, address_id);

CREATE TABLE spending (
  tenant TEXT NOT NULL,
  day INTEGER NOT NULL,
  calls INTEGER NOT NULL,
  tokens_in INTEGER NOT NULL,
  tokens_out INTEGER NOT NULL,
  PRIMARY KEY (tenant, day)
) WITHOUT ROWID;

CREATE INDEX fact_ended ON fact (tenant, ended_by) WHERE ended_by IS NOT NULL;

CREATE TABLE document (
  tenant TEXT NOT NULL,
  kind TEXT NOT NULL,
  id TEXT NOT NULL,
  name TEXT NOT NULL,
  version INTEGER NOT NULL,
  body TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  PRIMARY KEY (tenant, kind, id)
) WITHOUT ROWID;

CREATE INDEX document_name ON document (tenant, kind, name);

CREATE TABLE summary (
  tenant TEXT NOT NULL,
  docid INTEGER NOT NULL,
  id TEXT NOT NULL,
  address_id INTEGER NOT NULL,
  position INTEGER NOT NULL,
  entries INTEGER NOT NULL,
  PRIMARY KEY (tenant, docid)
) WITHOUT ROWID;

CREATE INDEX summary_order ON summary (tenant, address_id, position);

CREATE TABLE folded (
  tenant TEXT NOT NULL,
  docid INTEGER NOT NULL,
  address_id INTEGER NOT NULL,
  summary_id TEXT NOT NULL,
  PRIMARY KEY (tenant, docid)
) WITHOUT ROWID;

CREATE INDEX folded_summary ON folded (tenant, summary_id);

CREATE INDEX folded_address ON folded (tenant, address_id);

CREATE INDEX entry_live ON entry (tenant, address_id, seq) WHERE retired_at IS NULL;

CREATE INDEX entry_summary ON entry (tenant, address_id) WHERE kind = 'summary' AND retired_at IS NULL;

CREATE TABLE run (
  tenant TEXT NOT NULL,
  id TEXT NOT NULL,
  workflow_id TEXT,
  workflow_version INTEGER,
  name TEXT NOT NULL,
  state TEXT NOT NULL,
  asked TEXT NOT NULL,
  output TEXT,
  error TEXT,
  started_at INTEGER NOT NULL,
  ended_at INTEGER,
  lease_until INTEGER,
  PRIMARY KEY (tenant, id)
) WITHOUT ROWID;

CREATE INDEX run_workflow ON run (tenant, workflow_id, id) WHERE workflow_id IS NOT NULL;

CREATE INDEX run_started ON run (tenant, started_at);

CREATE TABLE run_step (
  tenant TEXT NOT NULL,
  run_id TEXT NOT NULL,
  number INTEGER NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY (tenant, run_id, number)
) WITHOUT ROWID;

CREATE TABLE run_touch (
  tenant TEXT NOT NULL,
  address_id INTEGER NOT NULL,
  run_id TEXT NOT NULL,
  PRIMARY KEY (tenant, address_id, run_id)
) WITHOUT ROWID;

CREATE INDEX run_touch_run ON run_touch (tenant, run_id);

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

CREATE TABLE record_tie (
  tenant TEXT NOT NULL,
  tie TEXT NOT NULL,
  address_id INTEGER NOT NULL,
  PRIMARY KEY (tenant, tie, address_id)
) WITHOUT ROWID;

CREATE INDEX record_tie_by_address ON record_tie (tenant, address_id);

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

CREATE TABLE erasure (
  tenant TEXT NOT NULL,
  seq INTEGER NOT NULL,
  kind TEXT NOT NULL,
  id TEXT NOT NULL,
  at INTEGER NOT NULL,
  PRIMARY KEY (tenant, seq)
) WITHOUT ROWID;

-- control.db

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

CREATE TABLE hint (
  tenant TEXT NOT NULL PRIMARY KEY,
  due_at INTEGER NOT NULL
) WITHOUT ROWID;

CREATE INDEX hint_due ON hint (due_at);

CREATE TABLE rate (
  id TEXT NOT NULL,
  second INTEGER NOT NULL,
  used INTEGER NOT NULL,
  PRIMARY KEY (id, second)
) WITHOUT ROWID;

CREATE TABLE dropped (
  id TEXT NOT NULL PRIMARY KEY,
  at INTEGER NOT NULL
) WITHOUT ROWID;

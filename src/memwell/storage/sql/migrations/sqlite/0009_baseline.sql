-- The tables of a tenant's file. The tenant leads every key, so that PostgreSQL and Citus run the same queries.

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
  metadata TEXT,
  distilled_seq INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (tenant, id),
  FOREIGN KEY (tenant, collection_id) REFERENCES collection (tenant, id)
) WITHOUT ROWID;

CREATE UNIQUE INDEX address_path ON address (tenant, collection_id, path);

CREATE INDEX address_created ON address (tenant, collection_id, created_at, id);

CREATE INDEX address_session ON address (tenant, path);

CREATE INDEX address_expiry ON address (tenant, expires_at) WHERE expires_at IS NOT NULL;

-- docid is SQLite's rowid, which the full-text index points at. It is never used again, so that rows above a number are the
-- new ones. created_at is set on later versions only: the time of the first.
CREATE TABLE entry (
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

CREATE UNIQUE INDEX entry_order ON entry (tenant, address_id, seq);

CREATE UNIQUE INDEX entry_version ON entry (tenant, id, version);

CREATE INDEX entry_expiry ON entry (tenant, expires_at) WHERE expires_at IS NOT NULL;

-- The current entries of an address, and the summaries among them.
CREATE INDEX entry_live ON entry (tenant, address_id, seq) WHERE retired_at IS NULL;

CREATE INDEX entry_summary ON entry (tenant, address_id) WHERE kind = 'summary' AND retired_at IS NULL;

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

-- Events contain opaque ids only: when a name is erased, its events no longer reveal it.
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

-- Removals from search: one entry, or a whole address.
CREATE TABLE removal (
  tenant TEXT NOT NULL,
  seq INTEGER NOT NULL,
  docid INTEGER,
  address_id INTEGER,
  PRIMARY KEY (tenant, seq)
) WITHOUT ROWID;

-- The tokens of an entry, with an opaque token each for its address, its collection and its kind. They are stored, so that
-- deleting does not depend on the version of the tokenizer.
CREATE VIRTUAL TABLE word USING fts5 (tokens, tokenize = 'ascii', detail = 'none', columnsize = 0);

INSERT INTO word (word, rank) VALUES ('secure-delete', 1);

-- Embedding models. Entries up to embedded_to have vectors.
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

-- The vectors of the chunks of an entry, one after the other, in half precision.
CREATE TABLE vector (
  tenant TEXT NOT NULL,
  model INTEGER NOT NULL,
  docid INTEGER NOT NULL,
  value BLOB NOT NULL,
  PRIMARY KEY (tenant, model, docid)
) WITHOUT ROWID;

-- The columns of a fact that its entry does not have, one row for each version.
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
  held TEXT,
  ended_by TEXT,
  PRIMARY KEY (tenant, docid)
) WITHOUT ROWID;

CREATE INDEX fact_same ON fact (tenant, collection_id, same);

CREATE INDEX fact_topic ON fact (tenant, collection_id, topic) WHERE topic IS NOT NULL;

CREATE INDEX fact_ended ON fact (tenant, ended_by) WHERE ended_by IS NOT NULL;

-- Evidence: the passage of an entry, from one character to another, that a fact rests on.
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

-- Plans: the decisions about the candidates of a session.
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

-- Calls and tokens of language models, by day.
CREATE TABLE spending (
  tenant TEXT NOT NULL,
  day INTEGER NOT NULL,
  calls INTEGER NOT NULL,
  tokens_in INTEGER NOT NULL,
  tokens_out INTEGER NOT NULL,
  PRIMARY KEY (tenant, day)
) WITHOUT ROWID;

-- Banks, hooks, apps, stores, definitions, workflows and their versions, each as JSON.
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

-- The position of a summary: that of the last entry behind it.
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

-- The entries behind a summary. An entry is behind one summary at most.
CREATE TABLE folded (
  tenant TEXT NOT NULL,
  docid INTEGER NOT NULL,
  address_id INTEGER NOT NULL,
  summary_id TEXT NOT NULL,
  PRIMARY KEY (tenant, docid)
) WITHOUT ROWID;

CREATE INDEX folded_summary ON folded (tenant, summary_id);

CREATE INDEX folded_address ON folded (tenant, address_id);

-- Runs of workflows: inputs, steps and results.
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

-- The addresses that a run has written or read, so that what it knows of them is erased with them.
CREATE TABLE run_touch (
  tenant TEXT NOT NULL,
  address_id INTEGER NOT NULL,
  run_id TEXT NOT NULL,
  PRIMARY KEY (tenant, address_id, run_id)
) WITHOUT ROWID;

CREATE INDEX run_touch_run ON run_touch (tenant, run_id);

-- Records: one JSON value at an address.
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

-- The changes of a record as they were given. The first, and one now and then, is the complete value.
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

-- Ties of records to a definition or store, a user, a session or a run. A record is deleted together with what it is tied to.
CREATE TABLE record_tie (
  tenant TEXT NOT NULL,
  tie TEXT NOT NULL,
  address_id INTEGER NOT NULL,
  PRIMARY KEY (tenant, tie, address_id)
) WITHOUT ROWID;

CREATE INDEX record_tie_by_address ON record_tie (tenant, address_id);

-- Files of sessions. Their bytes are stored elsewhere, by digest.
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

-- The erasure log, by ids that reveal nothing: a restored backup erases again what was erased since it was made. It is never
-- pruned, because older backups may still exist.
CREATE TABLE erasure (
  tenant TEXT NOT NULL,
  seq INTEGER NOT NULL,
  kind TEXT NOT NULL,
  id TEXT NOT NULL,
  at INTEGER NOT NULL,
  PRIMARY KEY (tenant, seq)
) WITHOUT ROWID;

-- Statistics for the planner. A file has one tenant, so the tenant alone selects every row, and SQLite must be told.
ANALYZE sqlite_schema;

INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
  ('collection', 'collection', '100000 100000 1'),
  ('collection', 'collection_name', '100000 100000 20000 2 1'),
  ('address', 'address', '1000000 1000000 1'),
  ('address', 'address_path', '1000000 1000000 100 1'),
  ('address', 'address_created', '1000000 1000000 100 1 1'),
  ('address', 'address_session', '1000000 1000000 10'),
  ('address', 'address_expiry', '1000000 1000000 10'),
  ('job', 'job', '100000 100000 1'),
  ('job', 'job_slot', '10 10 1'),
  ('job', 'job_due', '100000 100000 1000 1'),
  ('job', 'job_address', '100000 100000 10'),
  ('idempotency', 'idempotency', '1000000 1000000 1'),
  ('idempotency', 'idempotency_expiry', '1000000 1000000 10'),
  ('idempotency_touch', 'idempotency_touch', '1000000 1000000 100 1'),
  ('idempotency_touch', 'idempotency_touch_key', '1000000 1000000 2'),
  ('entry', 'entry_order', '1000000 1000000 100 1'),
  ('entry', 'entry_version', '1000000 1000000 1 1'),
  ('entry', 'entry_expiry', '1000000 1000000 10'),
  ('model', 'model', '2 2 1'),
  ('model', 'model_name', '2 2 1'),
  ('vector', 'vector', '1000000 1000000 1000000 1'),
  ('fact', 'fact', '100000 100000 1'),
  ('fact', 'fact_same', '100000 100000 1000 1'),
  ('fact', 'fact_topic', '10000 10000 1000 1'),
  ('evidence', 'evidence', '100000 100000 1'),
  ('evidence', 'evidence_fact', '100000 100000 2 1 1'),
  ('evidence', 'evidence_entry', '100000 100000 2'),
  ('evidence', 'evidence_address', '100000 100000 20'),
  ('evidence', 'evidence_plan', '100000 100000 20'),
  ('plan', 'plan', '10000 10000 1'),
  ('plan', 'plan_collection', '10000 10000 100 1'),
  ('plan', 'plan_address', '10000 10000 2'),
  ('spending', 'spending', '100 100 1'),
  ('fact', 'fact_ended', '10000 10000 2'),
  ('document', 'document', '1000 1000 300 1'),
  ('document', 'document_name', '1000 1000 300 2 1'),
  ('summary', 'summary', '10000 10000 1'),
  ('summary', 'summary_order', '10000 10000 2 1 1'),
  ('folded', 'folded', '1000000 1000000 1'),
  ('folded', 'folded_summary', '1000000 1000000 100 1'),
  ('folded', 'folded_address', '1000000 1000000 100 1'),
  ('entry', 'entry_live', '900000 900000 90 1'),
  ('entry', 'entry_summary', '10000 10000 2'),
  ('run', 'run', '100000 100000 1'),
  ('run', 'run_workflow', '100000 100000 1000 1'),
  ('run', 'run_started', '100000 100000 1'),
  ('run_step', 'run_step', '1000000 1000000 10 1'),
  ('run_touch', 'run_touch', '100000 100000 10 1'),
  ('run_touch', 'run_touch_run', '100000 100000 2'),
  ('record', 'record', '100000 100000 1'),
  ('record_version', 'record_version', '1000000 1000000 10 1'),
  ('record_tie', 'record_tie', '200000 200000 10 1'),
  ('record_tie', 'record_tie_by_address', '200000 200000 2 1'),
  ('file', 'file', '100000 100000 1'),
  ('file', 'file_session', '100000 100000 10 1'),
  ('file', 'file_digest', '100000 100000 2'),
  ('erasure', 'erasure', '100000 100000 1');

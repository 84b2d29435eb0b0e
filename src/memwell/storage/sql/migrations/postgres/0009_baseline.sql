-- All tenants share these tables. The tenant leads every key, and row-level security hides the rows of other tenants. There
-- are no sequences and no triggers, and references are added last, so that the tables can be distributed by tenant. Text is
-- compared byte by byte, as SQLite does.

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

-- The time of a tenant's next work. A hint may be lost: a slow sweep over all tenants finds the work.
CREATE TABLE hint (
  tenant TEXT COLLATE "C" NOT NULL PRIMARY KEY,
  due_at BIGINT NOT NULL
);

CREATE INDEX hint_due ON hint (due_at);

-- The number of requests per key and second, for all servers that share this database.
CREATE TABLE rate (
  id TEXT COLLATE "C" NOT NULL,
  second BIGINT NOT NULL,
  used BIGINT NOT NULL,
  PRIMARY KEY (id, second)
);

-- The secret that key hashes are keyed with.
CREATE TABLE secret (
  name TEXT COLLATE "C" NOT NULL PRIMARY KEY,
  value BYTEA NOT NULL
);

-- One row for each tenant. A writer locks it until the commit, so that the writers of a tenant take turns, as in a file.
-- docid is the highest number that an entry was ever given.
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
  distilled_seq BIGINT NOT NULL DEFAULT 0,
  PRIMARY KEY (tenant, id)
) WITH (fillfactor = 80);

CREATE UNIQUE INDEX address_path ON address (tenant, collection_id, path);

CREATE INDEX address_created ON address (tenant, collection_id, created_at, id);

CREATE INDEX address_session ON address (tenant, path);

CREATE INDEX address_expiry ON address (tenant, expires_at) WHERE expires_at IS NOT NULL;

-- created_at is set on later versions only: the time of the first.
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
  asks DOUBLE PRECISION NOT NULL DEFAULT 0,
  PRIMARY KEY (tenant, docid)
);

CREATE UNIQUE INDEX entry_order ON entry (tenant, address_id, seq);

CREATE UNIQUE INDEX entry_version ON entry (tenant, id, version);

CREATE INDEX entry_expiry ON entry (tenant, expires_at) WHERE expires_at IS NOT NULL;

-- The current entries of an address, and the summaries among them.
CREATE INDEX entry_live ON entry (tenant, address_id, seq) WHERE retired_at IS NULL;

CREATE INDEX entry_summary ON entry (tenant, address_id) WHERE kind = 'summary' AND retired_at IS NULL;

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

-- Events contain opaque ids only: when a name is erased, its events no longer reveal it.
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

-- Removals from search: one entry, or a whole address.
CREATE TABLE removal (
  tenant TEXT COLLATE "C" NOT NULL,
  seq BIGINT NOT NULL,
  docid BIGINT,
  address_id BIGINT,
  PRIMARY KEY (tenant, seq)
);

-- The tokens of an entry, with an opaque token each for its address and its collection. A very long entry has several parts,
-- each with both.
CREATE TABLE word (
  tenant TEXT COLLATE "C" NOT NULL,
  docid BIGINT NOT NULL,
  part BIGINT NOT NULL,
  tokens TSVECTOR NOT NULL,
  PRIMARY KEY (tenant, docid, part)
);

-- Every search reads the whole pending list, so it is kept short.
CREATE INDEX word_tokens ON word USING gin (tokens) WITH (gin_pending_list_limit = 256);

-- Embedding models. Entries up to embedded_to have vectors.
CREATE TABLE model (
  tenant TEXT COLLATE "C" NOT NULL,
  id BIGINT NOT NULL,
  name TEXT COLLATE "C" NOT NULL,
  dimensions BIGINT NOT NULL,
  embedded_to BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (tenant, id)
);

CREATE UNIQUE INDEX model_name ON model (tenant, name);

-- The vectors of the chunks of an entry, in half precision. Marked ones are in the graph of their dimension.
CREATE TABLE vector (
  tenant TEXT COLLATE "C" NOT NULL,
  model BIGINT NOT NULL,
  docid BIGINT NOT NULL,
  part BIGINT NOT NULL,
  collection_id BIGINT NOT NULL,
  dimensions BIGINT NOT NULL,
  graph BOOLEAN NOT NULL DEFAULT FALSE,
  value HALFVEC NOT NULL,
  PRIMARY KEY (tenant, model, docid, part)
);

ALTER TABLE vector ALTER COLUMN value SET STORAGE PLAIN;

CREATE INDEX vector_collection ON vector (tenant, collection_id, model, graph);

-- The collections that are searched by a graph, or will be once all their vectors are in it.
CREATE TABLE graph (
  tenant TEXT COLLATE "C" NOT NULL,
  model BIGINT NOT NULL,
  collection_id BIGINT NOT NULL,
  dimensions BIGINT NOT NULL,
  state TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (tenant, model, collection_id)
);

-- The match operator is not leakproof, so under row-level security PostgreSQL evaluates it last and cannot use an index.
-- This function evaluates it first, inside the tenant of the transaction. It is planned for each set of values, because
-- tenants differ too much in size, and words in frequency.
CREATE FUNCTION postings(asked TEXT, wanted TSQUERY, above BIGINT) RETURNS BYTEA
  LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT SET plan_cache_mode = force_custom_plan
AS $$ BEGIN RETURN (
  SELECT STRING_AGG(INT8SEND(word.docid), CAST('' AS BYTEA)) FROM word
  WHERE word.tenant = asked AND asked = CURRENT_SETTING('memwell.tenant', TRUE)
    AND word.tokens @@ wanted AND word.docid > above
); END $$;

REVOKE ALL ON FUNCTION postings FROM PUBLIC;

GRANT EXECUTE ON FUNCTION postings TO memwell_app;

-- The columns of a fact that its entry does not have, one row for each version.
CREATE TABLE fact (
  tenant TEXT COLLATE "C" NOT NULL,
  docid BIGINT NOT NULL,
  collection_id BIGINT NOT NULL,
  subject TEXT COLLATE "C",
  same TEXT COLLATE "C" NOT NULL,
  topic TEXT COLLATE "C",
  valid_from BIGINT NOT NULL,
  valid_to BIGINT,
  plan_id TEXT COLLATE "C",
  held TEXT COLLATE "C",
  ended_by TEXT COLLATE "C",
  PRIMARY KEY (tenant, docid)
);

CREATE INDEX fact_same ON fact (tenant, collection_id, same);

CREATE INDEX fact_topic ON fact (tenant, collection_id, topic) WHERE topic IS NOT NULL;

CREATE INDEX fact_ended ON fact (tenant, ended_by) WHERE ended_by IS NOT NULL;

-- Evidence: the passage of an entry, from one character to another, that a fact rests on.
CREATE TABLE evidence (
  tenant TEXT COLLATE "C" NOT NULL,
  id BIGINT NOT NULL,
  fact_id TEXT COLLATE "C" NOT NULL,
  entry_id TEXT COLLATE "C" NOT NULL,
  address_id BIGINT NOT NULL,
  first_char BIGINT NOT NULL,
  end_char BIGINT NOT NULL,
  origin TEXT COLLATE "C" NOT NULL,
  said_at BIGINT NOT NULL,
  plan_id TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (tenant, id)
);

CREATE UNIQUE INDEX evidence_fact ON evidence (tenant, fact_id, entry_id, first_char);

CREATE INDEX evidence_entry ON evidence (tenant, entry_id);

CREATE INDEX evidence_address ON evidence (tenant, address_id);

CREATE INDEX evidence_plan ON evidence (tenant, plan_id);

-- Plans: the decisions about the candidates of a session.
CREATE TABLE plan (
  tenant TEXT COLLATE "C" NOT NULL,
  id TEXT COLLATE "C" NOT NULL,
  collection_id BIGINT NOT NULL,
  address_id BIGINT NOT NULL,
  state TEXT COLLATE "C" NOT NULL,
  method TEXT COLLATE "C" NOT NULL,
  note TEXT COLLATE "C",
  head BIGINT NOT NULL,
  first_seq BIGINT NOT NULL,
  last_seq BIGINT NOT NULL,
  steps TEXT COLLATE "C" NOT NULL,
  created_at BIGINT NOT NULL,
  applied_at BIGINT,
  reverted_at BIGINT,
  PRIMARY KEY (tenant, id)
);

CREATE INDEX plan_collection ON plan (tenant, collection_id, id);

CREATE INDEX plan_address ON plan (tenant, address_id);

-- Calls and tokens of language models, by day.
CREATE TABLE spending (
  tenant TEXT COLLATE "C" NOT NULL,
  day BIGINT NOT NULL,
  calls BIGINT NOT NULL,
  tokens_in BIGINT NOT NULL,
  tokens_out BIGINT NOT NULL,
  PRIMARY KEY (tenant, day)
);

-- Banks, hooks, apps, stores, definitions, workflows and their versions, each as JSON.
CREATE TABLE document (
  tenant TEXT COLLATE "C" NOT NULL,
  kind TEXT COLLATE "C" NOT NULL,
  id TEXT COLLATE "C" NOT NULL,
  name TEXT COLLATE "C" NOT NULL,
  version BIGINT NOT NULL,
  body TEXT COLLATE "C" NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  PRIMARY KEY (tenant, kind, id)
);

CREATE INDEX document_name ON document (tenant, kind, name);

-- The position of a summary: that of the last entry behind it.
CREATE TABLE summary (
  tenant TEXT COLLATE "C" NOT NULL,
  docid BIGINT NOT NULL,
  id TEXT COLLATE "C" NOT NULL,
  address_id BIGINT NOT NULL,
  position BIGINT NOT NULL,
  entries BIGINT NOT NULL,
  PRIMARY KEY (tenant, docid)
);

CREATE INDEX summary_order ON summary (tenant, address_id, position);

-- The entries behind a summary. An entry is behind one summary at most.
CREATE TABLE folded (
  tenant TEXT COLLATE "C" NOT NULL,
  docid BIGINT NOT NULL,
  address_id BIGINT NOT NULL,
  summary_id TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (tenant, docid)
);

CREATE INDEX folded_summary ON folded (tenant, summary_id);

CREATE INDEX folded_address ON folded (tenant, address_id);

-- Runs of workflows: inputs, steps and results.
CREATE TABLE run (
  tenant TEXT COLLATE "C" NOT NULL,
  id TEXT COLLATE "C" NOT NULL,
  workflow_id TEXT COLLATE "C",
  workflow_version BIGINT,
  name TEXT COLLATE "C" NOT NULL,
  state TEXT COLLATE "C" NOT NULL,
  asked TEXT COLLATE "C" NOT NULL,
  output TEXT COLLATE "C",
  error TEXT COLLATE "C",
  started_at BIGINT NOT NULL,
  ended_at BIGINT,
  lease_until BIGINT,
  PRIMARY KEY (tenant, id)
);

CREATE INDEX run_workflow ON run (tenant, workflow_id, id) WHERE workflow_id IS NOT NULL;

CREATE INDEX run_started ON run (tenant, started_at);

CREATE TABLE run_step (
  tenant TEXT COLLATE "C" NOT NULL,
  run_id TEXT COLLATE "C" NOT NULL,
  number BIGINT NOT NULL,
  body TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (tenant, run_id, number)
);

-- The addresses that a run has written or read, so that what it knows of them is erased with them.
CREATE TABLE run_touch (
  tenant TEXT COLLATE "C" NOT NULL,
  address_id BIGINT NOT NULL,
  run_id TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (tenant, address_id, run_id)
);

CREATE INDEX run_touch_run ON run_touch (tenant, run_id);

-- Records: one JSON value at an address.
CREATE TABLE record (
  tenant TEXT COLLATE "C" NOT NULL,
  address_id BIGINT NOT NULL,
  version BIGINT NOT NULL,
  value TEXT COLLATE "C" NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  expires_at BIGINT,
  PRIMARY KEY (tenant, address_id)
);

-- The changes of a record as they were given. The first, and one now and then, is the complete value.
CREATE TABLE record_version (
  tenant TEXT COLLATE "C" NOT NULL,
  address_id BIGINT NOT NULL,
  version BIGINT NOT NULL,
  mode TEXT COLLATE "C" NOT NULL,
  data TEXT COLLATE "C" NOT NULL,
  actor TEXT COLLATE "C" NOT NULL,
  written_at BIGINT NOT NULL,
  expires_at BIGINT,
  PRIMARY KEY (tenant, address_id, version)
);

-- Ties of records to a definition or store, a user, a session or a run. A record is deleted together with what it is tied to.
CREATE TABLE record_tie (
  tenant TEXT COLLATE "C" NOT NULL,
  tie TEXT COLLATE "C" NOT NULL,
  address_id BIGINT NOT NULL,
  PRIMARY KEY (tenant, tie, address_id)
);

CREATE INDEX record_tie_by_address ON record_tie (tenant, address_id);

-- Files of sessions. Their bytes are stored elsewhere, by digest.
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

-- The bytes of files: servers that share a database do not share a disk.
CREATE TABLE blob (
  tenant TEXT COLLATE "C" NOT NULL,
  digest TEXT COLLATE "C" NOT NULL,
  content BYTEA NOT NULL,
  stored_at BIGINT NOT NULL,
  PRIMARY KEY (tenant, digest)
);

-- Uploads are mostly compressed already.
ALTER TABLE blob ALTER COLUMN content SET STORAGE EXTERNAL;

-- The erasure log, by ids that reveal nothing: a restored backup erases again what was erased since it was made. It is never
-- pruned, because older backups may still exist.
CREATE TABLE erasure (
  tenant TEXT COLLATE "C" NOT NULL,
  seq BIGINT NOT NULL,
  kind TEXT COLLATE "C" NOT NULL,
  id TEXT COLLATE "C" NOT NULL,
  at BIGINT NOT NULL,
  PRIMARY KEY (tenant, seq)
);

-- Deleted tenants, by ids that reveal nothing, so that no restored backup brings one back.
CREATE TABLE dropped (
  id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
  at BIGINT NOT NULL
);

ALTER TABLE address ADD CONSTRAINT address_collection
  FOREIGN KEY (tenant, collection_id) REFERENCES collection (tenant, id);

ALTER TABLE entry ADD CONSTRAINT entry_address
  FOREIGN KEY (tenant, address_id) REFERENCES address (tenant, id);

ALTER TABLE idempotency_touch ADD CONSTRAINT idempotency_touch_answer
  FOREIGN KEY (tenant, key_hash) REFERENCES idempotency (tenant, key_hash) ON DELETE CASCADE;

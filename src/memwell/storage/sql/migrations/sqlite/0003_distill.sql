-- From what was said to what is known: facts with their evidence, and the plans that made them.

-- Up to which entry a session has been distilled.
ALTER TABLE address ADD COLUMN distilled_seq INTEGER NOT NULL DEFAULT 0;

-- What a fact is besides its entry, one row for each version: what it is found again by, and when it is true.
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
  PRIMARY KEY (tenant, docid)
) WITHOUT ROWID;

CREATE INDEX fact_same ON fact (tenant, collection_id, same);

CREATE INDEX fact_topic ON fact (tenant, collection_id, topic) WHERE topic IS NOT NULL;

-- What a fact is based on: the words of an entry, from one character to another.
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

-- What was decided about the candidates of a session: proposed, applied, or taken back.
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

-- What language models were paid for, by day.
CREATE TABLE spending (
  tenant TEXT NOT NULL,
  day INTEGER NOT NULL,
  calls INTEGER NOT NULL,
  tokens_in INTEGER NOT NULL,
  tokens_out INTEGER NOT NULL,
  PRIMARY KEY (tenant, day)
) WITHOUT ROWID;

INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
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
  ('spending', 'spending', '100 100 1');

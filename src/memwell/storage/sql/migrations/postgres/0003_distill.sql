-- From what was said to what is known: facts with their evidence, and the plans that made them.

-- Up to which entry a session has been distilled.
ALTER TABLE address ADD COLUMN distilled_seq BIGINT NOT NULL DEFAULT 0;

-- What a fact is besides its entry, one row for each version: what it is found again by, and when it is true.
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
  PRIMARY KEY (tenant, docid)
);

CREATE INDEX fact_same ON fact (tenant, collection_id, same);

CREATE INDEX fact_topic ON fact (tenant, collection_id, topic) WHERE topic IS NOT NULL;

-- What a fact is based on: the words of an entry, from one character to another.
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

-- What was decided about the candidates of a session: proposed, applied, or taken back.
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

-- What language models were paid for, by day.
CREATE TABLE spending (
  tenant TEXT COLLATE "C" NOT NULL,
  day BIGINT NOT NULL,
  calls BIGINT NOT NULL,
  tokens_in BIGINT NOT NULL,
  tokens_out BIGINT NOT NULL,
  PRIMARY KEY (tenant, day)
);


-- Search: words, vectors, and how an index in memory learns of what is new and what is gone.

ALTER TABLE entry ADD COLUMN asks DOUBLE PRECISION NOT NULL DEFAULT 0;

-- What was taken out of search: one entry, or all of an address.
CREATE TABLE removal (
  tenant TEXT COLLATE "C" NOT NULL,
  seq BIGINT NOT NULL,
  docid BIGINT,
  address_id BIGINT,
  PRIMARY KEY (tenant, seq)
);

-- The words of an entry as the analyser gave them, with an opaque token for its address and its collection. A very long
-- entry has several parts, each with both.
CREATE TABLE word (
  tenant TEXT COLLATE "C" NOT NULL,
  docid BIGINT NOT NULL,
  part BIGINT NOT NULL,
  tokens TSVECTOR NOT NULL,
  PRIMARY KEY (tenant, docid, part)
);

-- Every search reads all of the list of what is yet to be sorted in, so it is kept short.
CREATE INDEX word_tokens ON word USING gin (tokens) WITH (gin_pending_list_limit = 256);

-- The models that vectors are of. Entries up to embedded_to have theirs.
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

-- The vectors of an entry's parts, in half precision. Those marked are in the graph of their dimension.
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

-- The match operator is not trusted to keep quiet about rows that it is shown, so under row-level security it is asked last
-- and no index serves it. This function asks it first, within the tenant of the transaction and no other. It is planned for
-- the values that it is given: tenants differ too much in size, and words in how many entries hold them.
CREATE FUNCTION postings(asked TEXT, wanted TSQUERY, above BIGINT) RETURNS BYTEA
  LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT SET plan_cache_mode = force_custom_plan
AS $$ BEGIN RETURN (
  SELECT STRING_AGG(INT8SEND(word.docid), CAST('' AS BYTEA)) FROM word
  WHERE word.tenant = asked AND asked = CURRENT_SETTING('memwell.tenant', TRUE)
    AND word.tokens @@ wanted AND word.docid > above
); END $$;

REVOKE ALL ON FUNCTION postings FROM PUBLIC;

GRANT EXECUTE ON FUNCTION postings TO memwell_app;

-- What was written before this step has no words yet.
INSERT INTO job (tenant, id, kind, slot, state, payload, attempts, max_attempts, run_at, fence, created_at)
SELECT DISTINCT tenant, 'index', 'index', 'index', 'ready', '{}', 0, 5, 0, 0, 0 FROM entry;

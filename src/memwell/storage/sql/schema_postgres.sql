-- Today's schema on PostgreSQL, as its catalog tells it once the migrations are made. A test proves the two equal.

CREATE TABLE address (
  tenant text COLLATE "C" NOT NULL,
  id bigint NOT NULL,
  collection_id bigint NOT NULL,
  path text COLLATE "C" NOT NULL,
  last_seq bigint NOT NULL,
  created_at bigint NOT NULL,
  last_seen_at bigint NOT NULL,
  ended_at bigint,
  ended_seq bigint NOT NULL,
  expires_at bigint,
  metadata text,
  distilled_seq bigint NOT NULL DEFAULT 0,
  CONSTRAINT address_pkey PRIMARY KEY (tenant, id)
) WITH (fillfactor=80);

CREATE INDEX address_created ON address USING btree (tenant, collection_id, created_at, id);
CREATE INDEX address_expiry ON address USING btree (tenant, expires_at) WHERE expires_at IS NOT NULL;
CREATE UNIQUE INDEX address_path ON address USING btree (tenant, collection_id, path);
CREATE INDEX address_session ON address USING btree (tenant, path);

ALTER TABLE address ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY its_own ON address AS PERMISSIVE FOR ALL TO public
  USING ((tenant = current_setting('memwell.tenant'::text, true)))
  WITH CHECK ((tenant = current_setting('memwell.tenant'::text, true)));

CREATE TABLE api_key (
  id text COLLATE "C" NOT NULL,
  tenant text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL,
  hash bytea NOT NULL,
  role text NOT NULL,
  tie_kind text,
  tie_name text COLLATE "C",
  rate bigint,
  created_at bigint NOT NULL,
  expires_at bigint,
  revoked_at bigint,
  CONSTRAINT api_key_hash_key UNIQUE (hash),
  CONSTRAINT api_key_pkey PRIMARY KEY (id)
);

CREATE INDEX api_key_tenant ON api_key USING btree (tenant, id);

ALTER TABLE api_key ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY its_own ON api_key AS PERMISSIVE FOR ALL TO public
  USING ((current_setting('memwell.system'::text, true) = 'on'::text))
  WITH CHECK ((current_setting('memwell.system'::text, true) = 'on'::text));

CREATE TABLE blob (
  tenant text COLLATE "C" NOT NULL,
  digest text COLLATE "C" NOT NULL,
  content bytea NOT NULL,
  stored_at bigint NOT NULL,
  CONSTRAINT blob_pkey PRIMARY KEY (tenant, digest)
);

ALTER TABLE blob ALTER COLUMN content SET STORAGE EXTERNAL;

ALTER TABLE blob ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY its_own ON blob AS PERMISSIVE FOR ALL TO public
  USING ((tenant = current_setting('memwell.tenant'::text, true)))
  WITH CHECK ((tenant = current_setting('memwell.tenant'::text, true)));

CREATE TABLE collection (
  tenant text COLLATE "C" NOT NULL,
  id bigint NOT NULL,
  dialect text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL,
  kind text COLLATE "C" NOT NULL,
  sealed bigint NOT NULL,
  policy text NOT NULL,
  created_at bigint NOT NULL,
  CONSTRAINT collection_pkey PRIMARY KEY (tenant, id)
);

CREATE UNIQUE INDEX collection_name ON collection USING btree (tenant, dialect, name, kind);

ALTER TABLE collection ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY its_own ON collection AS PERMISSIVE FOR ALL TO public
  USING ((tenant = current_setting('memwell.tenant'::text, true)))
  WITH CHECK ((tenant = current_setting('memwell.tenant'::text, true)));

CREATE TABLE document (
  tenant text COLLATE "C" NOT NULL,
  kind text COLLATE "C" NOT NULL,
  id text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL,
  version bigint NOT NULL,
  body text COLLATE "C" NOT NULL,
  created_at bigint NOT NULL,
  updated_at bigint NOT NULL,
  CONSTRAINT document_pkey PRIMARY KEY (tenant, kind, id)
);

CREATE INDEX document_name ON document USING btree (tenant, kind, name);

ALTER TABLE document ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY its_own ON document AS PERMISSIVE FOR ALL TO public
  USING ((tenant = current_setting('memwell.tenant'::text, true)))
  WITH CHECK ((tenant = current_setting('memwell.tenant'::text, true)));

CREATE TABLE dropped (
  id text COLLATE "C" NOT NULL,
  at bigint NOT NULL,
  CONSTRAINT dropped_pkey PRIMARY KEY (id)
);

ALTER TABLE dropped ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY its_own ON dropped AS PERMISSIVE FOR ALL TO public
  USING ((current_setting('memwell.system'::text, true) = 'on'::text))
  WITH CHECK ((current_setting('memwell.system'::text, true) = 'on'::text));

CREATE TABLE entry (
  tenant text COLLATE "C" NOT NULL,
  docid bigint NOT NULL,
  id text COLLATE "C" NOT NULL,
  version bigint NOT NULL,
  address_id bigint NOT NULL,
  seq bigint NOT NULL,
  kind text NOT NULL,
  role text,
  name text,
  content text NOT NULL,
  metadata text,
  tool text,
  origin text NOT NULL,
  importance double precision,
  confidence double precision,
  occurred_at bigint NOT NULL,
  recorded_at bigint NOT NULL,
  created_at bigint,
  expires_at bigint,
  retired_at bigint,
  asks double precision NOT NULL DEFAULT 0,
  CONSTRAINT entry_pkey PRIMARY KEY (tenant, docid)
);

CREATE INDEX entry_expiry ON entry USING btree (tenant, expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX entry_live ON entry USING btree (tenant, address_id, seq) WHERE retired_at IS NULL;
CREATE UNIQUE INDEX entry_order ON entry USING btree (tenant, address_id, seq);
CREATE INDEX entry_summary ON entry USING btree (tenant, address_id) WHERE kind = 'summary'::text AND retired_at IS NULL;
CREATE UNIQUE INDEX entry_version ON entry USING btree (tenant, id, version);

ALTER TABLE entry ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY its_own ON entry AS PERMISSIVE FOR ALL TO public
  USING ((tenant = current_setting('memwell.tenant'::text, true)))
  WITH CHECK ((tenant = current_setting('memwell.tenant'::text, true)));

CREATE TABLE erasure (
  tenant text COLLATE "C" NOT NULL,
  seq bigint NOT NULL,
  kind text COLLATE "C" NOT NULL,
  id text COLLATE "C" NOT NULL,
  at bigint NOT NULL,
  CONSTRAINT erasure_pkey PRIMARY KEY (tenant, seq)
);

ALTER TABLE erasure ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY its_own ON erasure AS PERMISSIVE FOR ALL TO public
  USING ((tenant = current_setting('memwell.tenant'::text, true)))
  WITH CHECK ((tenant = current_setting('memwell.tenant'::text, true)));

CREATE TABLE event (
  tenant text COLLATE "C" NOT NULL,
  seq bigint NOT NULL,
  at bigint NOT NULL,
  operation text NOT NULL,
  collection_id bigint,
  address_id bigint,
  entries bigint NOT NULL,
  actor text NOT NULL,
  CONSTRAINT event_pkey PRIMARY KEY (tenant, seq)
);

ALTER TABLE event ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY its_own ON event AS PERMISSIVE FOR ALL TO public
  USING ((tenant = current_setting('memwell.tenant'::text, true)))
  WITH CHECK ((tenant = current_setting('memwell.tenant'::text, true)));

CREATE TABLE evidence (
  tenant text COLLATE "C" NOT NULL,
  id bigint NOT NULL,
  fact_id text COLLATE "C" NOT NULL,
  entry_id text COLLATE "C" NOT NULL,
  address_id bigint NOT NULL,
  first_char bigint NOT NULL,
  end_char bigint NOT NULL,
  origin text COLLATE "C" NOT NULL,
  said_at bigint NOT NULL,
  plan_id text COLLATE "C" NOT NULL,
  CONSTRAINT evidence_pkey PRIMARY KEY (tenant, id)
);

CREATE INDEX evidence_address ON evidence USING btree (tenant, address_id);
CREATE INDEX evidence_entry ON evidence USING btree (tenant, entry_id);
CREATE UNIQUE INDEX evidence_fact ON evidence USING btree (tenant, fact_id, entry_id, first_char);
CREATE INDEX evidence_plan ON evidence USING btree (tenant, plan_id);

ALTER TABLE evidence ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY its_own ON evidence AS PERMISSIVE FOR ALL TO public
  USING ((tenant = current_setting('memwell.tenant'::text, true)))
  WITH CHECK ((tenant = current_setting('memwell.tenant'::text, true)));

CREATE TABLE fact (
  tenant text COLLATE "C" NOT NULL,
  docid bigint NOT NULL,
  collection_id bigint NOT NULL,
  subject text COLLATE "C",
  same text COLLATE "C" NOT NULL,
  topic text COLLATE "C",
  valid_from bigint NOT NULL,
  valid_to bigint,
  plan_id text COLLATE "C",
  held text COLLATE "C",
  ended_by text COLLATE "C",
  CONSTRAINT fact_pkey PRIMARY KEY (tenant, docid)
);

CREATE INDEX fact_ended ON fact USING btree (tenant, ended_by) WHERE ended_by IS NOT NULL;
CREATE INDEX fact_same ON fact USING btree (tenant, collection_id, same);
CREATE INDEX fact_topic ON fact USING btree (tenant, collection_id, topic) WHERE topic IS NOT NULL;

ALTER TABLE fact ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY its_own ON fact AS PERMISSIVE FOR ALL TO public
  USING ((tenant = current_setting('memwell.tenant'::text, true)))
  WITH CHECK ((tenant = current_setting('memwell.tenant'::text, true)));

CREATE TABLE file (
  tenant text COLLATE "C" NOT NULL,
  id text COLLATE "C" NOT NULL,
  address_id bigint NOT NULL,
  text_id bigint,
  seq bigint NOT NULL,
  digest text COLLATE "C" NOT NULL,
  filename text COLLATE "C" NOT NULL,
  mimetype text COLLATE "C" NOT NULL,
  size bigint NOT NULL,
  active bigint NOT NULL,
  state text COLLATE "C" NOT NULL,
  reason text COLLATE "C",
  tokens bigint NOT NULL,
  created_at bigint NOT NULL,
  CONSTRAINT file_pkey PRIMARY KEY (tenant, id)
);

CREATE INDEX file_digest ON file USING btree (tenant, digest);
CREATE UNIQUE INDEX file_session ON file USING btree (tenant, address_id, seq);

ALTER TABLE file ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY its_own ON file AS PERMISSIVE FOR ALL TO public
  USING ((tenant = current_setting('memwell.tenant'::text, true)))
  WITH CHECK ((tenant = current_setting('memwell.tenant'::text, true)));

CREATE TABLE folded (
  tenant text COLLATE "C" NOT NULL,
  docid bigint NOT NULL,
  address_id bigint NOT NULL,
  summary_id text COLLATE "C" NOT NULL,
  CONSTRAINT folded_pkey PRIMARY KEY (tenant, docid)
);

CREATE INDEX folded_address ON folded USING btree (tenant, address_id);
CREATE INDEX folded_summary ON folded USING btree (tenant, summary_id);

ALTER TABLE folded ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY its_own ON folded AS PERMISSIVE FOR ALL TO public
  USING ((tenant = current_setting('memwell.tenant'::text, true)))
  WITH CHECK ((tenant = current_setting('memwell.tenant'::text, true)));

CREATE TABLE graph (
  tenant text COLLATE "C" NOT NULL,
  model bigint NOT NULL,
  collection_id bigint NOT NULL,
  dimensions bigint NOT NULL,
  state text COLLATE "C" NOT NULL,
  CONSTRAINT graph_pkey PRIMARY KEY (tenant, model, collection_id)
);

ALTER TABLE graph ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY its_own ON graph AS PERMISSIVE FOR ALL TO public
  USING ((tenant = current_setting('memwell.tenant'::text, true)))
  WITH CHECK ((tenant = current_setting('memwell.tenant'::text, true)));
CREATE POLICY known ON graph AS PERMISSIVE FOR SELECT TO public
  USING ((current_setting('memwell.system'::text, true) = 'on'::text));

CREATE TABLE hint (
  tenant text COLLATE "C" NOT NULL,
  due_at bigint NOT NULL,
  CONSTRAINT hint_pkey PRIMARY KEY (tenant)
);

CREATE INDEX hint_due ON hint USING btree (due_at);

ALTER TABLE hint ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY its_own ON hint AS PERMISSIVE FOR ALL TO public
  USING ((current_setting('memwell.system'::text, true) = 'on'::text))
  WITH CHECK ((current_setting('memwell.system'::text, true) = 'on'::text));

CREATE TABLE idempotency (
  tenant text COLLATE "C" NOT NULL,
  key_hash bytea NOT NULL,
  request_hash bytea,
  response bytea,
  expires_at bigint NOT NULL,
  CONSTRAINT idempotency_pkey PRIMARY KEY (tenant, key_hash)
);

CREATE INDEX idempotency_expiry ON idempotency USING btree (tenant, expires_at);

ALTER TABLE idempotency ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY its_own ON idempotency AS PERMISSIVE FOR ALL TO public
  USING ((tenant = current_setting('memwell.tenant'::text, true)))
  WITH CHECK ((tenant = current_setting('memwell.tenant'::text, true)));

CREATE TABLE idempotency_touch (
  tenant text COLLATE "C" NOT NULL,
  address_id bigint NOT NULL,
  entry_id text COLLATE "C" NOT NULL,
  key_hash bytea NOT NULL,
  CONSTRAINT idempotency_touch_pkey PRIMARY KEY (tenant, address_id, key_hash)
);

CREATE INDEX idempotency_touch_key ON idempotency_touch USING btree (tenant, key_hash);

ALTER TABLE idempotency_touch ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY its_own ON idempotency_touch AS PERMISSIVE FOR ALL TO public
  USING ((tenant = current_setting('memwell.tenant'::text, true)))
  WITH CHECK ((tenant = current_setting('memwell.tenant'::text, true)));

CREATE TABLE job (
  tenant text COLLATE "C" NOT NULL,
  id text COLLATE "C" NOT NULL,
  kind text COLLATE "C" NOT NULL,
  slot text COLLATE "C",
  state text COLLATE "C" NOT NULL,
  payload text NOT NULL,
  attempts bigint NOT NULL,
  max_attempts bigint NOT NULL,
  run_at bigint NOT NULL,
  lease_until bigint,
  fence bigint NOT NULL,
  worker text,
  error text,
  result text,
  created_at bigint NOT NULL,
  finished_at bigint,
  address_id bigint,
  CONSTRAINT job_pkey PRIMARY KEY (tenant, id)
);

CREATE INDEX job_address ON job USING btree (tenant, address_id) WHERE address_id IS NOT NULL;
CREATE INDEX job_due ON job USING btree (tenant, state, run_at);
CREATE UNIQUE INDEX job_slot ON job USING btree (tenant, slot) WHERE slot IS NOT NULL;

ALTER TABLE job ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY its_own ON job AS PERMISSIVE FOR ALL TO public
  USING ((tenant = current_setting('memwell.tenant'::text, true)))
  WITH CHECK ((tenant = current_setting('memwell.tenant'::text, true)));

CREATE TABLE migration (
  number bigint NOT NULL,
  name text NOT NULL,
  CONSTRAINT migration_pkey PRIMARY KEY (number)
);

ALTER TABLE migration ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY its_own ON migration AS PERMISSIVE FOR ALL TO public
  USING ((current_setting('memwell.system'::text, true) = 'on'::text))
  WITH CHECK ((current_setting('memwell.system'::text, true) = 'on'::text));

CREATE TABLE model (
  tenant text COLLATE "C" NOT NULL,
  id bigint NOT NULL,
  name text COLLATE "C" NOT NULL,
  dimensions bigint NOT NULL,
  embedded_to bigint NOT NULL,
  created_at bigint NOT NULL,
  CONSTRAINT model_pkey PRIMARY KEY (tenant, id)
);

CREATE UNIQUE INDEX model_name ON model USING btree (tenant, name);

ALTER TABLE model ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY its_own ON model AS PERMISSIVE FOR ALL TO public
  USING ((tenant = current_setting('memwell.tenant'::text, true)))
  WITH CHECK ((tenant = current_setting('memwell.tenant'::text, true)));

CREATE TABLE plan (
  tenant text COLLATE "C" NOT NULL,
  id text COLLATE "C" NOT NULL,
  collection_id bigint NOT NULL,
  address_id bigint NOT NULL,
  state text COLLATE "C" NOT NULL,
  method text COLLATE "C" NOT NULL,
  note text COLLATE "C",
  head bigint NOT NULL,
  first_seq bigint NOT NULL,
  last_seq bigint NOT NULL,
  steps text COLLATE "C" NOT NULL,
  created_at bigint NOT NULL,
  applied_at bigint,
  reverted_at bigint,
  CONSTRAINT plan_pkey PRIMARY KEY (tenant, id)
);

CREATE INDEX plan_address ON plan USING btree (tenant, address_id);
CREATE INDEX plan_collection ON plan USING btree (tenant, collection_id, id);

ALTER TABLE plan ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY its_own ON plan AS PERMISSIVE FOR ALL TO public
  USING ((tenant = current_setting('memwell.tenant'::text, true)))
  WITH CHECK ((tenant = current_setting('memwell.tenant'::text, true)));

CREATE TABLE rate (
  id text COLLATE "C" NOT NULL,
  second bigint NOT NULL,
  used bigint NOT NULL,
  CONSTRAINT rate_pkey PRIMARY KEY (id, second)
);

ALTER TABLE rate ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY its_own ON rate AS PERMISSIVE FOR ALL TO public
  USING ((current_setting('memwell.system'::text, true) = 'on'::text))
  WITH CHECK ((current_setting('memwell.system'::text, true) = 'on'::text));

CREATE TABLE record (
  tenant text COLLATE "C" NOT NULL,
  address_id bigint NOT NULL,
  version bigint NOT NULL,
  value text COLLATE "C" NOT NULL,
  created_at bigint NOT NULL,
  updated_at bigint NOT NULL,
  expires_at bigint,
  CONSTRAINT record_pkey PRIMARY KEY (tenant, address_id)
);

ALTER TABLE record ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY its_own ON record AS PERMISSIVE FOR ALL TO public
  USING ((tenant = current_setting('memwell.tenant'::text, true)))
  WITH CHECK ((tenant = current_setting('memwell.tenant'::text, true)));

CREATE TABLE record_tie (
  tenant text COLLATE "C" NOT NULL,
  tie text COLLATE "C" NOT NULL,
  address_id bigint NOT NULL,
  CONSTRAINT record_tie_pkey PRIMARY KEY (tenant, tie, address_id)
);

CREATE INDEX record_tie_by_address ON record_tie USING btree (tenant, address_id);

ALTER TABLE record_tie ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY its_own ON record_tie AS PERMISSIVE FOR ALL TO public
  USING ((tenant = current_setting('memwell.tenant'::text, true)))
  WITH CHECK ((tenant = current_setting('memwell.tenant'::text, true)));

CREATE TABLE record_version (
  tenant text COLLATE "C" NOT NULL,
  address_id bigint NOT NULL,
  version bigint NOT NULL,
  mode text COLLATE "C" NOT NULL,
  data text COLLATE "C" NOT NULL,
  actor text COLLATE "C" NOT NULL,
  written_at bigint NOT NULL,
  expires_at bigint,
  CONSTRAINT record_version_pkey PRIMARY KEY (tenant, address_id, version)
);

ALTER TABLE record_version ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY its_own ON record_version AS PERMISSIVE FOR ALL TO public
  USING ((tenant = current_setting('memwell.tenant'::text, true)))
  WITH CHECK ((tenant = current_setting('memwell.tenant'::text, true)));

CREATE TABLE removal (
  tenant text COLLATE "C" NOT NULL,
  seq bigint NOT NULL,
  docid bigint,
  address_id bigint,
  CONSTRAINT removal_pkey PRIMARY KEY (tenant, seq)
);

ALTER TABLE removal ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY its_own ON removal AS PERMISSIVE FOR ALL TO public
  USING ((tenant = current_setting('memwell.tenant'::text, true)))
  WITH CHECK ((tenant = current_setting('memwell.tenant'::text, true)));

CREATE TABLE run (
  tenant text COLLATE "C" NOT NULL,
  id text COLLATE "C" NOT NULL,
  workflow_id text COLLATE "C",
  workflow_version bigint,
  name text COLLATE "C" NOT NULL,
  state text COLLATE "C" NOT NULL,
  asked text COLLATE "C" NOT NULL,
  output text COLLATE "C",
  error text COLLATE "C",
  started_at bigint NOT NULL,
  ended_at bigint,
  lease_until bigint,
  CONSTRAINT run_pkey PRIMARY KEY (tenant, id)
);

CREATE INDEX run_started ON run USING btree (tenant, started_at);
CREATE INDEX run_workflow ON run USING btree (tenant, workflow_id, id) WHERE workflow_id IS NOT NULL;

ALTER TABLE run ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY its_own ON run AS PERMISSIVE FOR ALL TO public
  USING ((tenant = current_setting('memwell.tenant'::text, true)))
  WITH CHECK ((tenant = current_setting('memwell.tenant'::text, true)));

CREATE TABLE run_step (
  tenant text COLLATE "C" NOT NULL,
  run_id text COLLATE "C" NOT NULL,
  number bigint NOT NULL,
  body text COLLATE "C" NOT NULL,
  CONSTRAINT run_step_pkey PRIMARY KEY (tenant, run_id, number)
);

ALTER TABLE run_step ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY its_own ON run_step AS PERMISSIVE FOR ALL TO public
  USING ((tenant = current_setting('memwell.tenant'::text, true)))
  WITH CHECK ((tenant = current_setting('memwell.tenant'::text, true)));

CREATE TABLE run_touch (
  tenant text COLLATE "C" NOT NULL,
  address_id bigint NOT NULL,
  run_id text COLLATE "C" NOT NULL,
  CONSTRAINT run_touch_pkey PRIMARY KEY (tenant, address_id, run_id)
);

CREATE INDEX run_touch_run ON run_touch USING btree (tenant, run_id);

ALTER TABLE run_touch ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY its_own ON run_touch AS PERMISSIVE FOR ALL TO public
  USING ((tenant = current_setting('memwell.tenant'::text, true)))
  WITH CHECK ((tenant = current_setting('memwell.tenant'::text, true)));

CREATE TABLE secret (
  name text COLLATE "C" NOT NULL,
  value bytea NOT NULL,
  CONSTRAINT secret_pkey PRIMARY KEY (name)
);

ALTER TABLE secret ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY its_own ON secret AS PERMISSIVE FOR ALL TO public
  USING ((current_setting('memwell.system'::text, true) = 'on'::text))
  WITH CHECK ((current_setting('memwell.system'::text, true) = 'on'::text));

CREATE TABLE spending (
  tenant text COLLATE "C" NOT NULL,
  day bigint NOT NULL,
  calls bigint NOT NULL,
  tokens_in bigint NOT NULL,
  tokens_out bigint NOT NULL,
  CONSTRAINT spending_pkey PRIMARY KEY (tenant, day)
);

ALTER TABLE spending ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY its_own ON spending AS PERMISSIVE FOR ALL TO public
  USING ((tenant = current_setting('memwell.tenant'::text, true)))
  WITH CHECK ((tenant = current_setting('memwell.tenant'::text, true)));

CREATE TABLE summary (
  tenant text COLLATE "C" NOT NULL,
  docid bigint NOT NULL,
  id text COLLATE "C" NOT NULL,
  address_id bigint NOT NULL,
  position bigint NOT NULL,
  entries bigint NOT NULL,
  CONSTRAINT summary_pkey PRIMARY KEY (tenant, docid)
);

CREATE INDEX summary_order ON summary USING btree (tenant, address_id, "position");

ALTER TABLE summary ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY its_own ON summary AS PERMISSIVE FOR ALL TO public
  USING ((tenant = current_setting('memwell.tenant'::text, true)))
  WITH CHECK ((tenant = current_setting('memwell.tenant'::text, true)));

CREATE TABLE tenant (
  id text COLLATE "C" NOT NULL,
  created_at bigint NOT NULL,
  CONSTRAINT tenant_pkey PRIMARY KEY (id)
);

ALTER TABLE tenant ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY its_own ON tenant AS PERMISSIVE FOR ALL TO public
  USING ((current_setting('memwell.system'::text, true) = 'on'::text))
  WITH CHECK ((current_setting('memwell.system'::text, true) = 'on'::text));

CREATE TABLE vector (
  tenant text COLLATE "C" NOT NULL,
  model bigint NOT NULL,
  docid bigint NOT NULL,
  part bigint NOT NULL,
  collection_id bigint NOT NULL,
  dimensions bigint NOT NULL,
  graph boolean NOT NULL DEFAULT false,
  value halfvec NOT NULL,
  CONSTRAINT vector_pkey PRIMARY KEY (tenant, model, docid, part)
);

ALTER TABLE vector ALTER COLUMN value SET STORAGE PLAIN;

CREATE INDEX vector_collection ON vector USING btree (tenant, collection_id, model, graph);

ALTER TABLE vector ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY its_own ON vector AS PERMISSIVE FOR ALL TO public
  USING ((tenant = current_setting('memwell.tenant'::text, true)))
  WITH CHECK ((tenant = current_setting('memwell.tenant'::text, true)));

CREATE TABLE word (
  tenant text COLLATE "C" NOT NULL,
  docid bigint NOT NULL,
  part bigint NOT NULL,
  tokens tsvector NOT NULL,
  CONSTRAINT word_pkey PRIMARY KEY (tenant, docid, part)
);

CREATE INDEX word_tokens ON word USING gin (tokens) WITH (gin_pending_list_limit='256');

ALTER TABLE word ENABLE ROW LEVEL SECURITY;
CREATE POLICY its_own ON word AS PERMISSIVE FOR ALL TO public
  USING ((tenant = current_setting('memwell.tenant'::text, true)))
  WITH CHECK ((tenant = current_setting('memwell.tenant'::text, true)));

CREATE TABLE writer (
  tenant text COLLATE "C" NOT NULL,
  docid bigint NOT NULL,
  CONSTRAINT writer_pkey PRIMARY KEY (tenant)
);

ALTER TABLE writer ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY its_own ON writer AS PERMISSIVE FOR ALL TO public
  USING ((tenant = current_setting('memwell.tenant'::text, true)))
  WITH CHECK ((tenant = current_setting('memwell.tenant'::text, true)));

CREATE OR REPLACE FUNCTION memwell.postings(asked text, wanted tsquery, above bigint)
 RETURNS bytea
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'memwell', 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_custom_plan'
AS $function$ BEGIN RETURN (
  SELECT STRING_AGG(INT8SEND(word.docid), CAST('' AS BYTEA)) FROM word
  WHERE word.tenant = asked AND asked = CURRENT_SETTING('memwell.tenant', TRUE)
    AND word.tokens @@ wanted AND word.docid > above
); END $function$;
REVOKE ALL ON FUNCTION postings(text,tsquery,bigint) FROM PUBLIC;

ALTER TABLE address ADD CONSTRAINT address_collection FOREIGN KEY (tenant, collection_id) REFERENCES collection(tenant, id);
ALTER TABLE api_key ADD CONSTRAINT api_key_tenant_fkey FOREIGN KEY (tenant) REFERENCES tenant(id);
ALTER TABLE entry ADD CONSTRAINT entry_address FOREIGN KEY (tenant, address_id) REFERENCES address(tenant, id);
ALTER TABLE idempotency_touch ADD CONSTRAINT idempotency_touch_answer FOREIGN KEY (tenant, key_hash) REFERENCES idempotency(tenant, key_hash) ON DELETE CASCADE;

GRANT EXECUTE ON FUNCTION postings(text,tsquery,bigint) TO memwell_app;
GRANT USAGE ON SCHEMA memwell TO memwell_app;
GRANT DELETE, INSERT, SELECT, UPDATE ON TABLE address TO memwell_app;
GRANT DELETE, INSERT, SELECT, UPDATE ON TABLE api_key TO memwell_app;
GRANT DELETE, INSERT, SELECT, UPDATE ON TABLE blob TO memwell_app;
GRANT DELETE, INSERT, SELECT, UPDATE ON TABLE collection TO memwell_app;
GRANT DELETE, INSERT, SELECT, UPDATE ON TABLE document TO memwell_app;
GRANT DELETE, INSERT, SELECT, UPDATE ON TABLE dropped TO memwell_app;
GRANT DELETE, INSERT, SELECT, UPDATE ON TABLE entry TO memwell_app;
GRANT DELETE, INSERT, SELECT, UPDATE ON TABLE erasure TO memwell_app;
GRANT DELETE, INSERT, SELECT, UPDATE ON TABLE event TO memwell_app;
GRANT DELETE, INSERT, SELECT, UPDATE ON TABLE evidence TO memwell_app;
GRANT DELETE, INSERT, SELECT, UPDATE ON TABLE fact TO memwell_app;
GRANT DELETE, INSERT, SELECT, UPDATE ON TABLE file TO memwell_app;
GRANT DELETE, INSERT, SELECT, UPDATE ON TABLE folded TO memwell_app;
GRANT DELETE, INSERT, SELECT, UPDATE ON TABLE graph TO memwell_app;
GRANT DELETE, INSERT, SELECT, UPDATE ON TABLE hint TO memwell_app;
GRANT DELETE, INSERT, SELECT, UPDATE ON TABLE idempotency TO memwell_app;
GRANT DELETE, INSERT, SELECT, UPDATE ON TABLE idempotency_touch TO memwell_app;
GRANT DELETE, INSERT, SELECT, UPDATE ON TABLE job TO memwell_app;
GRANT DELETE, INSERT, SELECT, UPDATE ON TABLE migration TO memwell_app;
GRANT DELETE, INSERT, SELECT, UPDATE ON TABLE model TO memwell_app;
GRANT DELETE, INSERT, SELECT, UPDATE ON TABLE plan TO memwell_app;
GRANT DELETE, INSERT, SELECT, UPDATE ON TABLE rate TO memwell_app;
GRANT DELETE, INSERT, SELECT, UPDATE ON TABLE record TO memwell_app;
GRANT DELETE, INSERT, SELECT, UPDATE ON TABLE record_tie TO memwell_app;
GRANT DELETE, INSERT, SELECT, UPDATE ON TABLE record_version TO memwell_app;
GRANT DELETE, INSERT, SELECT, UPDATE ON TABLE removal TO memwell_app;
GRANT DELETE, INSERT, SELECT, UPDATE ON TABLE run TO memwell_app;
GRANT DELETE, INSERT, SELECT, UPDATE ON TABLE run_step TO memwell_app;
GRANT DELETE, INSERT, SELECT, UPDATE ON TABLE run_touch TO memwell_app;
GRANT DELETE, INSERT, SELECT, UPDATE ON TABLE secret TO memwell_app;
GRANT DELETE, INSERT, SELECT, UPDATE ON TABLE spending TO memwell_app;
GRANT DELETE, INSERT, SELECT, UPDATE ON TABLE summary TO memwell_app;
GRANT DELETE, INSERT, SELECT, UPDATE ON TABLE tenant TO memwell_app;
GRANT DELETE, INSERT, SELECT, UPDATE ON TABLE vector TO memwell_app;
GRANT DELETE, INSERT, SELECT, UPDATE ON TABLE word TO memwell_app;
GRANT DELETE, INSERT, SELECT, UPDATE ON TABLE writer TO memwell_app;

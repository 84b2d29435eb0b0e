-- Runs of workflows: what they were given, what each step did, and what came out.

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

-- Which addresses a run has written to or read from, so that what it holds of them is erased with them.
CREATE TABLE run_touch (
  tenant TEXT COLLATE "C" NOT NULL,
  address_id BIGINT NOT NULL,
  run_id TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (tenant, address_id, run_id)
);

CREATE INDEX run_touch_run ON run_touch (tenant, run_id);

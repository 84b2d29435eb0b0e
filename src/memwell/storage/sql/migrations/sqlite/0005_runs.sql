-- Runs of workflows: what they were given, what each step did, and what came out.

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

-- Which addresses a run has written to or read from, so that what it holds of them is erased with them.
CREATE TABLE run_touch (
  tenant TEXT NOT NULL,
  address_id INTEGER NOT NULL,
  run_id TEXT NOT NULL,
  PRIMARY KEY (tenant, address_id, run_id)
) WITHOUT ROWID;

CREATE INDEX run_touch_run ON run_touch (tenant, run_id);

INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
  ('run', 'run', '100000 100000 1'),
  ('run', 'run_workflow', '100000 100000 1000 1'),
  ('run', 'run_started', '100000 100000 1'),
  ('run_step', 'run_step', '1000000 1000000 10 1'),
  ('run_touch', 'run_touch', '100000 100000 10 1'),
  ('run_touch', 'run_touch_run', '100000 100000 2');

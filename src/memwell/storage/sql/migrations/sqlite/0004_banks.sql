-- Banks: documents that define things, and compaction, which hides entries behind summaries and never destroys them.

-- Because of which other fact a fact is over.
ALTER TABLE fact ADD COLUMN ended_by TEXT;

CREATE INDEX fact_ended ON fact (tenant, ended_by) WHERE ended_by IS NOT NULL;

-- Banks, hooks, workflows and their versions, each as JSON.
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

-- Where a summary stands: in the place of the last entry that it was made of.
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

-- Which entries a summary was made of. An entry is behind one summary at most.
CREATE TABLE folded (
  tenant TEXT NOT NULL,
  docid INTEGER NOT NULL,
  address_id INTEGER NOT NULL,
  summary_id TEXT NOT NULL,
  PRIMARY KEY (tenant, docid)
) WITHOUT ROWID;

CREATE INDEX folded_summary ON folded (tenant, summary_id);

CREATE INDEX folded_address ON folded (tenant, address_id);

-- What an address shows, without what is behind summaries or was replaced; and which of it are summaries.
CREATE INDEX entry_live ON entry (tenant, address_id, seq) WHERE retired_at IS NULL;

CREATE INDEX entry_summary ON entry (tenant, address_id) WHERE kind = 'summary' AND retired_at IS NULL;

-- What the planner is to assume before there is anything to measure.
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
  ('fact', 'fact_ended', '10000 10000 2'),
  ('document', 'document', '1000 1000 300 1'),
  ('document', 'document_name', '1000 1000 300 2 1'),
  ('summary', 'summary', '10000 10000 1'),
  ('summary', 'summary_order', '10000 10000 2 1 1'),
  ('folded', 'folded', '1000000 1000000 1'),
  ('folded', 'folded_summary', '1000000 1000000 100 1'),
  ('folded', 'folded_address', '1000000 1000000 100 1'),
  ('entry', 'entry_live', '900000 900000 90 1'),
  ('entry', 'entry_summary', '10000 10000 2');

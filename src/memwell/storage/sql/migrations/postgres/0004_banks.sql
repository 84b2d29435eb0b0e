-- Banks: documents that define things, and compaction, which hides entries behind summaries and never destroys them.

-- Because of which other fact a fact is over.
ALTER TABLE fact ADD COLUMN ended_by TEXT COLLATE "C";

CREATE INDEX fact_ended ON fact (tenant, ended_by) WHERE ended_by IS NOT NULL;

-- Banks, hooks, workflows and their versions, each as JSON.
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

-- Where a summary stands: in the place of the last entry that it was made of.
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

-- Which entries a summary was made of. An entry is behind one summary at most.
CREATE TABLE folded (
  tenant TEXT COLLATE "C" NOT NULL,
  docid BIGINT NOT NULL,
  address_id BIGINT NOT NULL,
  summary_id TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (tenant, docid)
);

CREATE INDEX folded_summary ON folded (tenant, summary_id);

CREATE INDEX folded_address ON folded (tenant, address_id);

-- What an address shows, without what is behind summaries or was replaced; and which of it are summaries.
CREATE INDEX entry_live ON entry (tenant, address_id, seq) WHERE retired_at IS NULL;

CREATE INDEX entry_summary ON entry (tenant, address_id) WHERE kind = 'summary' AND retired_at IS NULL;

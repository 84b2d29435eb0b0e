-- What records are tied to: what they are held to, whose they are, a session, a run. They go when that goes.

CREATE TABLE record_tie (
  tenant TEXT COLLATE "C" NOT NULL,
  tie TEXT COLLATE "C" NOT NULL,
  address_id BIGINT NOT NULL,
  PRIMARY KEY (tenant, tie, address_id)
);
CREATE INDEX record_tie_by_address ON record_tie (tenant, address_id);

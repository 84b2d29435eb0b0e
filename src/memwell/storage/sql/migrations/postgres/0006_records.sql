-- Records: one JSON value at an address, and the changes that led to it.

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

-- What was written, as it was given; now and then, and to begin with, the whole value.
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

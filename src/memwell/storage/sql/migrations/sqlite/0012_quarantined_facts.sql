-- Lists of facts say how many are quarantined.
CREATE INDEX IF NOT EXISTS entry_held ON entry (tenant, address_id) WHERE kind = 'held' AND retired_at IS NULL;

-- Which tenants were deleted, by marks that tell nothing, so that no restored backup brings one back.

CREATE TABLE dropped (
  id TEXT NOT NULL PRIMARY KEY,
  at INTEGER NOT NULL
) WITHOUT ROWID;

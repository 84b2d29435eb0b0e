-- How many of a key's requests the servers that share this directory have handed out, by the second.

CREATE TABLE rate (
  id TEXT NOT NULL,
  second INTEGER NOT NULL,
  used INTEGER NOT NULL,
  PRIMARY KEY (id, second)
) WITHOUT ROWID;

-- Moving a tenant from one store to another: its rows in the order of their keys, a page at a time. Every engine runs these
-- as they stand; words and vectors, which each keeps in its own way, are asked for by their entries' numbers.

-- name: page_collection
-- The next rows of `collection`.
SELECT id, dialect, name, kind, sealed, policy, created_at
FROM collection WHERE tenant = :tenant AND id > :after
ORDER BY id
LIMIT :limit;

-- name: end_of_collection
-- The key of the last row of `collection`.
SELECT id FROM collection WHERE tenant = :tenant ORDER BY id DESC LIMIT 1;

-- name: put_collection
-- One row of `collection`, as it was elsewhere.
INSERT INTO collection (tenant, id, dialect, name, kind, sealed, policy, created_at)
VALUES (:tenant, :id, :dialect, :name, :kind, :sealed, :policy, :created_at);

-- name: page_address
-- The next rows of `address`.
SELECT id, collection_id, path, last_seq, created_at, last_seen_at, ended_at, ended_seq, expires_at, metadata,
  distilled_seq
FROM address WHERE tenant = :tenant AND id > :after
ORDER BY id
LIMIT :limit;

-- name: end_of_address
-- The key of the last row of `address`.
SELECT id FROM address WHERE tenant = :tenant ORDER BY id DESC LIMIT 1;

-- name: put_address
-- One row of `address`, as it was elsewhere.
INSERT INTO address (tenant, id, collection_id, path, last_seq, created_at, last_seen_at, ended_at, ended_seq,
  expires_at, metadata, distilled_seq)
VALUES (:tenant, :id, :collection_id, :path, :last_seq, :created_at, :last_seen_at, :ended_at, :ended_seq,
  :expires_at, :metadata, :distilled_seq);

-- name: page_entry
-- The next rows of `entry`.
SELECT docid, id, version, address_id, seq, kind, role, name, content, metadata, tool, origin, importance, confidence,
  occurred_at, recorded_at, created_at, expires_at, retired_at, asks
FROM entry WHERE tenant = :tenant AND docid > :after
ORDER BY docid
LIMIT :limit;

-- name: end_of_entry
-- The key of the last row of `entry`.
SELECT docid FROM entry WHERE tenant = :tenant ORDER BY docid DESC LIMIT 1;

-- name: put_entry
-- One row of `entry`, as it was elsewhere.
INSERT INTO entry (tenant, docid, id, version, address_id, seq, kind, role, name, content, metadata, tool, origin,
  importance, confidence, occurred_at, recorded_at, created_at, expires_at, retired_at, asks)
VALUES (:tenant, :docid, :id, :version, :address_id, :seq, :kind, :role, :name, :content, :metadata, :tool, :origin,
  :importance, :confidence, :occurred_at, :recorded_at, :created_at, :expires_at, :retired_at, :asks);

-- name: page_idempotency
-- The next rows of `idempotency`.
SELECT key_hash, request_hash, response, expires_at
FROM idempotency WHERE tenant = :tenant AND key_hash > :after
ORDER BY key_hash
LIMIT :limit;

-- name: end_of_idempotency
-- The key of the last row of `idempotency`.
SELECT key_hash FROM idempotency WHERE tenant = :tenant ORDER BY key_hash DESC LIMIT 1;

-- name: put_idempotency
-- One row of `idempotency`, as it was elsewhere.
INSERT INTO idempotency (tenant, key_hash, request_hash, response, expires_at)
VALUES (:tenant, :key_hash, :request_hash, :response, :expires_at);

-- name: page_idempotency_touch
-- The next rows of `idempotency_touch`.
SELECT address_id, entry_id, key_hash
FROM idempotency_touch WHERE tenant = :tenant AND (address_id, key_hash) > (:after, :after_too)
ORDER BY address_id, key_hash
LIMIT :limit;

-- name: end_of_idempotency_touch
-- The key of the last row of `idempotency_touch`.
SELECT address_id, key_hash FROM idempotency_touch WHERE tenant = :tenant ORDER BY address_id DESC, key_hash DESC LIMIT 1;

-- name: put_idempotency_touch
-- One row of `idempotency_touch`, as it was elsewhere.
INSERT INTO idempotency_touch (tenant, address_id, entry_id, key_hash)
VALUES (:tenant, :address_id, :entry_id, :key_hash);

-- name: page_job
-- The next rows of `job`.
SELECT id, kind, slot, state, payload, attempts, max_attempts, run_at, lease_until, fence, worker, error, result,
  created_at, finished_at, address_id
FROM job WHERE tenant = :tenant AND id > :after
ORDER BY id
LIMIT :limit;

-- name: end_of_job
-- The key of the last row of `job`.
SELECT id FROM job WHERE tenant = :tenant ORDER BY id DESC LIMIT 1;

-- name: put_job
-- One row of `job`, as it was elsewhere.
INSERT INTO job (tenant, id, kind, slot, state, payload, attempts, max_attempts, run_at, lease_until, fence, worker,
  error, result, created_at, finished_at, address_id)
VALUES (:tenant, :id, :kind, :slot, :state, :payload, :attempts, :max_attempts, :run_at, :lease_until, :fence,
  :worker, :error, :result, :created_at, :finished_at, :address_id);

-- name: page_event
-- The next rows of `event`.
SELECT seq, at, operation, collection_id, address_id, entries, actor
FROM event WHERE tenant = :tenant AND seq > :after
ORDER BY seq
LIMIT :limit;

-- name: end_of_event
-- The key of the last row of `event`.
SELECT seq FROM event WHERE tenant = :tenant ORDER BY seq DESC LIMIT 1;

-- name: put_event
-- One row of `event`, as it was elsewhere.
INSERT INTO event (tenant, seq, at, operation, collection_id, address_id, entries, actor)
VALUES (:tenant, :seq, :at, :operation, :collection_id, :address_id, :entries, :actor);

-- name: page_removal
-- The next rows of `removal`.
SELECT seq, docid, address_id
FROM removal WHERE tenant = :tenant AND seq > :after
ORDER BY seq
LIMIT :limit;

-- name: end_of_removal
-- The key of the last row of `removal`.
SELECT seq FROM removal WHERE tenant = :tenant ORDER BY seq DESC LIMIT 1;

-- name: put_removal
-- One row of `removal`, as it was elsewhere.
INSERT INTO removal (tenant, seq, docid, address_id)
VALUES (:tenant, :seq, :docid, :address_id);

-- name: page_model
-- The next rows of `model`.
SELECT id, name, dimensions, embedded_to, created_at
FROM model WHERE tenant = :tenant AND id > :after
ORDER BY id
LIMIT :limit;

-- name: end_of_model
-- The key of the last row of `model`.
SELECT id FROM model WHERE tenant = :tenant ORDER BY id DESC LIMIT 1;

-- name: put_model
-- One row of `model`, as it was elsewhere.
INSERT INTO model (tenant, id, name, dimensions, embedded_to, created_at)
VALUES (:tenant, :id, :name, :dimensions, :embedded_to, :created_at);

-- name: count_all
-- How many rows are moved.
SELECT
  (SELECT COUNT(*) FROM collection WHERE tenant = :tenant)
  + (SELECT COUNT(*) FROM address WHERE tenant = :tenant)
  + (SELECT COUNT(*) FROM entry WHERE tenant = :tenant)
  + (SELECT COUNT(*) FROM idempotency WHERE tenant = :tenant)
  + (SELECT COUNT(*) FROM idempotency_touch WHERE tenant = :tenant)
  + (SELECT COUNT(*) FROM job WHERE tenant = :tenant)
  + (SELECT COUNT(*) FROM event WHERE tenant = :tenant)
  + (SELECT COUNT(*) FROM removal WHERE tenant = :tenant)
  + (SELECT COUNT(*) FROM model WHERE tenant = :tenant);

-- name: page_fact
-- The next rows of `fact`.
SELECT docid, collection_id, subject, same, topic, valid_from, valid_to, plan_id, held, ended_by
FROM fact WHERE tenant = :tenant AND docid > :after
ORDER BY docid
LIMIT :limit;

-- name: end_of_fact
-- The key of the last row of `fact`.
SELECT docid FROM fact WHERE tenant = :tenant ORDER BY docid DESC LIMIT 1;

-- name: put_fact
-- One row of `fact`, as it was elsewhere.
INSERT INTO fact (tenant, docid, collection_id, subject, same, topic, valid_from, valid_to, plan_id, held, ended_by)
VALUES (:tenant, :docid, :collection_id, :subject, :same, :topic, :valid_from, :valid_to, :plan_id, :held, :ended_by);

-- name: page_evidence
-- The next rows of `evidence`.
SELECT id, fact_id, entry_id, address_id, first_char, end_char, origin, said_at, plan_id
FROM evidence WHERE tenant = :tenant AND id > :after
ORDER BY id
LIMIT :limit;

-- name: end_of_evidence
-- The key of the last row of `evidence`.
SELECT id FROM evidence WHERE tenant = :tenant ORDER BY id DESC LIMIT 1;

-- name: put_evidence
-- One row of `evidence`, as it was elsewhere.
INSERT INTO evidence (tenant, id, fact_id, entry_id, address_id, first_char, end_char, origin, said_at, plan_id)
VALUES (:tenant, :id, :fact_id, :entry_id, :address_id, :first_char, :end_char, :origin, :said_at, :plan_id);

-- name: page_plan
-- The next rows of `plan`.
SELECT id, collection_id, address_id, state, method, note, head, first_seq, last_seq, steps, created_at, applied_at,
  reverted_at
FROM plan WHERE tenant = :tenant AND id > :after
ORDER BY id
LIMIT :limit;

-- name: end_of_plan
-- The key of the last row of `plan`.
SELECT id FROM plan WHERE tenant = :tenant ORDER BY id DESC LIMIT 1;

-- name: put_plan
-- One row of `plan`, as it was elsewhere.
INSERT INTO plan (tenant, id, collection_id, address_id, state, method, note, head, first_seq, last_seq, steps,
  created_at, applied_at, reverted_at)
VALUES (:tenant, :id, :collection_id, :address_id, :state, :method, :note, :head, :first_seq, :last_seq, :steps,
  :created_at, :applied_at, :reverted_at);

-- name: page_spending
-- The next rows of `spending`.
SELECT day, calls, tokens_in, tokens_out
FROM spending WHERE tenant = :tenant AND day > :after
ORDER BY day
LIMIT :limit;

-- name: end_of_spending
-- The key of the last row of `spending`.
SELECT day FROM spending WHERE tenant = :tenant ORDER BY day DESC LIMIT 1;

-- name: put_spending
-- One row of `spending`, as it was elsewhere.
INSERT INTO spending (tenant, day, calls, tokens_in, tokens_out)
VALUES (:tenant, :day, :calls, :tokens_in, :tokens_out);

-- name: page_document
-- The next rows of `document`.
SELECT kind, id, name, version, body, created_at, updated_at
FROM document WHERE tenant = :tenant AND (kind, id) > (:after, :after_too)
ORDER BY kind, id
LIMIT :limit;

-- name: end_of_document
-- The key of the last row of `document`.
SELECT kind, id FROM document WHERE tenant = :tenant ORDER BY kind DESC, id DESC LIMIT 1;

-- name: put_document
-- One row of `document`, as it was elsewhere.
INSERT INTO document (tenant, kind, id, name, version, body, created_at, updated_at)
VALUES (:tenant, :kind, :id, :name, :version, :body, :created_at, :updated_at);

-- name: page_summary
-- The next rows of `summary`.
SELECT docid, id, address_id, position, entries
FROM summary WHERE tenant = :tenant AND docid > :after
ORDER BY docid
LIMIT :limit;

-- name: end_of_summary
-- The key of the last row of `summary`.
SELECT docid FROM summary WHERE tenant = :tenant ORDER BY docid DESC LIMIT 1;

-- name: put_summary
-- One row of `summary`, as it was elsewhere.
INSERT INTO summary (tenant, docid, id, address_id, position, entries)
VALUES (:tenant, :docid, :id, :address_id, :position, :entries);

-- name: page_folded
-- The next rows of `folded`.
SELECT docid, address_id, summary_id
FROM folded WHERE tenant = :tenant AND docid > :after
ORDER BY docid
LIMIT :limit;

-- name: end_of_folded
-- The key of the last row of `folded`.
SELECT docid FROM folded WHERE tenant = :tenant ORDER BY docid DESC LIMIT 1;

-- name: put_folded
-- One row of `folded`, as it was elsewhere.
INSERT INTO folded (tenant, docid, address_id, summary_id)
VALUES (:tenant, :docid, :address_id, :summary_id);

-- name: page_run
-- The next rows of `run`.
SELECT id, workflow_id, workflow_version, name, state, asked, output, error, started_at, ended_at, lease_until
FROM run WHERE tenant = :tenant AND id > :after
ORDER BY id
LIMIT :limit;

-- name: end_of_run
-- The key of the last row of `run`.
SELECT id FROM run WHERE tenant = :tenant ORDER BY id DESC LIMIT 1;

-- name: put_run
-- One row of `run`, as it was elsewhere.
INSERT INTO run (tenant, id, workflow_id, workflow_version, name, state, asked, output, error, started_at, ended_at, lease_until)
VALUES (:tenant, :id, :workflow_id, :workflow_version, :name, :state, :asked, :output, :error, :started_at, :ended_at, :lease_until);

-- name: page_run_step
-- The next rows of `run_step`.
SELECT run_id, number, body
FROM run_step WHERE tenant = :tenant AND (run_id, number) > (:after, :after_too)
ORDER BY run_id, number
LIMIT :limit;

-- name: end_of_run_step
-- The key of the last row of `run_step`.
SELECT run_id, number FROM run_step WHERE tenant = :tenant ORDER BY run_id DESC, number DESC LIMIT 1;

-- name: put_run_step
-- One row of `run_step`, as it was elsewhere.
INSERT INTO run_step (tenant, run_id, number, body)
VALUES (:tenant, :run_id, :number, :body);

-- name: page_run_touch
-- The next rows of `run_touch`.
SELECT address_id, run_id
FROM run_touch WHERE tenant = :tenant AND (address_id, run_id) > (:after, :after_too)
ORDER BY address_id, run_id
LIMIT :limit;

-- name: end_of_run_touch
-- The key of the last row of `run_touch`.
SELECT address_id, run_id FROM run_touch WHERE tenant = :tenant ORDER BY address_id DESC, run_id DESC LIMIT 1;

-- name: put_run_touch
-- One row of `run_touch`, as it was elsewhere.
INSERT INTO run_touch (tenant, address_id, run_id)
VALUES (:tenant, :address_id, :run_id);

-- name: page_record
-- The next rows of `record`.
SELECT address_id, version, value, created_at, updated_at, expires_at
FROM record WHERE tenant = :tenant AND address_id > :after
ORDER BY address_id
LIMIT :limit;

-- name: end_of_record
-- The key of the last row of `record`.
SELECT address_id FROM record WHERE tenant = :tenant ORDER BY address_id DESC LIMIT 1;

-- name: put_record
-- One row of `record`, as it was elsewhere.
INSERT INTO record (tenant, address_id, version, value, created_at, updated_at, expires_at)
VALUES (:tenant, :address_id, :version, :value, :created_at, :updated_at, :expires_at);

-- name: page_record_version
-- The next rows of `record_version`.
SELECT address_id, version, mode, data, actor, written_at, expires_at
FROM record_version WHERE tenant = :tenant AND (address_id, version) > (:after, :after_too)
ORDER BY address_id, version
LIMIT :limit;

-- name: end_of_record_version
-- The key of the last row of `record_version`.
SELECT address_id, version FROM record_version WHERE tenant = :tenant ORDER BY address_id DESC, version DESC LIMIT 1;

-- name: put_record_version
-- One row of `record_version`, as it was elsewhere.
INSERT INTO record_version (tenant, address_id, version, mode, data, actor, written_at, expires_at)
VALUES (:tenant, :address_id, :version, :mode, :data, :actor, :written_at, :expires_at);

-- name: page_record_tie
-- The next rows of `record_tie`.
SELECT tie, address_id
FROM record_tie WHERE tenant = :tenant AND (tie, address_id) > (:after, :after_too)
ORDER BY tie, address_id
LIMIT :limit;

-- name: end_of_record_tie
-- The key of the last row of `record_tie`.
SELECT tie, address_id FROM record_tie WHERE tenant = :tenant ORDER BY tie DESC, address_id DESC LIMIT 1;

-- name: put_record_tie
-- One row of `record_tie`, as it was elsewhere.
INSERT INTO record_tie (tenant, tie, address_id)
VALUES (:tenant, :tie, :address_id);

-- name: page_file
-- The next rows of `file`.
SELECT id, address_id, text_id, seq, digest, filename, mimetype, size, active, state, reason, tokens, created_at
FROM file WHERE tenant = :tenant AND id > :after
ORDER BY id
LIMIT :limit;

-- name: end_of_file
-- The key of the last row of `file`.
SELECT id FROM file WHERE tenant = :tenant ORDER BY id DESC LIMIT 1;

-- name: put_file
-- One row of `file`, as it was elsewhere.
INSERT INTO file (tenant, id, address_id, text_id, seq, digest, filename, mimetype, size, active, state, reason, tokens,
  created_at)
VALUES (:tenant, :id, :address_id, :text_id, :seq, :digest, :filename, :mimetype, :size, :active, :state, :reason, :tokens,
  :created_at);

-- name: page_erasure
-- The next rows of `erasure`.
SELECT seq, kind, id, at
FROM erasure WHERE tenant = :tenant AND seq > :after
ORDER BY seq
LIMIT :limit;

-- name: end_of_erasure
-- The key of the last row of `erasure`.
SELECT seq FROM erasure WHERE tenant = :tenant ORDER BY seq DESC LIMIT 1;

-- name: put_erasure
-- One row of `erasure`, as it was elsewhere.
INSERT INTO erasure (tenant, seq, kind, id, at)
VALUES (:tenant, :seq, :kind, :id, :at);

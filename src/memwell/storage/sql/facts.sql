-- Facts, their evidence, and the plans that wrote them.

-- name: distilled_address
-- A session that can be consolidated, and its collection.
SELECT a.path, a.last_seq, a.distilled_seq, c.id, c.dialect, c.name, c.sealed
FROM address a
JOIN collection c ON c.tenant = a.tenant AND c.id = a.collection_id
WHERE a.tenant = :tenant AND c.tenant = :tenant AND a.id = :id;

-- name: set_distilled
-- Mark a session as consolidated up to an entry, unless it is consolidated further.
UPDATE address SET distilled_seq = :upto WHERE tenant = :tenant AND id = :id AND distilled_seq < :upto;

-- name: undistilled_entry
-- The sequence number of an entry, if it is not consolidated yet.
SELECT e.seq FROM entry e
JOIN address a ON a.tenant = e.tenant AND a.id = e.address_id
WHERE e.tenant = :tenant AND a.tenant = :tenant AND e.id = :id AND e.retired_at IS NULL AND e.seq > a.distilled_seq;

-- name: settle_all_notes
-- Turn the notes of a session into ordinary turns.
UPDATE entry SET kind = 'turn' WHERE tenant = :tenant AND address_id = :address_id AND kind = 'note' RETURNING docid;

-- name: advance_distilled
-- Mark a session as consolidated up to an entry, unless its mark has changed or it was moved to another collection.
UPDATE address SET distilled_seq = :upto
WHERE tenant = :tenant AND id = :id AND collection_id = :collection_id AND distilled_seq = :seen;

-- name: add_fact
-- Add the columns of a fact that its entry does not have.
INSERT INTO fact (tenant, docid, collection_id, subject, same, topic, valid_from, valid_to, plan_id, held, ended_by)
SELECT :tenant, e.docid, :collection_id, :subject, :same, :topic, :valid_from, CAST(:valid_to AS BIGINT), :plan_id, :held,
  :ended_by
FROM entry e WHERE e.tenant = :tenant AND e.id = :id AND e.version = :version;

-- name: facts_same
-- The current facts of a collection with the same words, oldest first. `written`: the key of a fact without a subject.
SELECT e.id, e.version, e.content, f.subject, e.kind, e.confidence, e.occurred_at, f.topic, f.valid_from, f.valid_to,
  e.origin
FROM fact f
JOIN entry e ON e.tenant = f.tenant AND e.docid = f.docid
WHERE f.tenant = :tenant AND e.tenant = :tenant AND f.collection_id = :collection_id AND f.same IN (:same, :written)
  AND e.retired_at IS NULL
ORDER BY f.docid
LIMIT :limit;

-- name: facts_about
-- The current facts of a collection about a topic, newest first. `written`: the topic of a fact without a subject.
SELECT e.id, e.version, e.content, f.subject, e.kind, e.confidence, e.occurred_at, f.topic, f.valid_from, f.valid_to,
  e.origin
FROM fact f
JOIN entry e ON e.tenant = f.tenant AND e.docid = f.docid
WHERE f.tenant = :tenant AND e.tenant = :tenant AND f.collection_id = :collection_id AND f.topic IN (:topic, :written)
  AND e.retired_at IS NULL
ORDER BY f.docid DESC
LIMIT :limit;

-- name: fact_versions
-- All versions of a fact, oldest first, with the times at which they were known and true.
SELECT e.version, e.kind, e.content, e.origin, e.importance, e.confidence, e.recorded_at, e.retired_at,
  f.subject, f.valid_from, f.valid_to, f.plan_id, f.held, f.same, f.topic, e.occurred_at, e.address_id, f.ended_by
FROM entry e
LEFT JOIN fact f ON f.tenant = :tenant AND f.docid = e.docid
WHERE e.tenant = :tenant AND e.id = :id
ORDER BY e.version;

-- name: facts_ended_by
-- The facts that another fact ended, and its duplicates in quarantine.
SELECT e.id FROM fact f
JOIN entry e ON e.tenant = f.tenant AND e.docid = f.docid
WHERE f.tenant = :tenant AND e.tenant = :tenant AND f.ended_by = :id AND e.retired_at IS NULL
  AND e.kind IN ('past', 'held')
ORDER BY e.id;

-- name: set_confidence
-- Set the confidence of the current version of a fact.
UPDATE entry SET confidence = :confidence WHERE tenant = :tenant AND id = :id AND version = :version AND retired_at IS NULL;

-- name: add_evidence
-- Add evidence to a fact, unless the fact already has that passage.
INSERT INTO evidence (tenant, id, fact_id, entry_id, address_id, first_char, end_char, origin, said_at, plan_id)
VALUES (:tenant, :id, :fact_id, :entry_id, :address_id, :first_char, :end_char, :origin, :said_at, :plan_id)
ON CONFLICT (tenant, fact_id, entry_id, first_char) DO NOTHING;

-- name: evidence_of
-- The evidence of a fact, oldest first, with the text of turns that still exist.
SELECT v.entry_id, v.first_char, v.end_char, v.origin, v.said_at, v.plan_id, a.path, e.content, e.role, e.name, v.address_id
FROM evidence v
LEFT JOIN address a ON a.tenant = :tenant AND a.id = v.address_id
LEFT JOIN entry e ON e.tenant = :tenant AND e.id = v.entry_id AND e.retired_at IS NULL
  AND (e.expires_at IS NULL OR e.expires_at > :now)
WHERE v.tenant = :tenant AND v.fact_id = :fact_id
ORDER BY v.said_at, v.plan_id, v.first_char, v.id;

-- name: evidence_keys
-- The passages in the evidence of a fact, and the plans that added them.
SELECT entry_id, first_char, plan_id FROM evidence WHERE tenant = :tenant AND fact_id = :fact_id;

-- name: delete_evidence
-- Remove one passage from the evidence of a fact.
DELETE FROM evidence
WHERE tenant = :tenant AND fact_id = :fact_id AND entry_id = :entry_id AND first_char = :first_char;

-- name: facts_from_address
-- The facts with evidence in a session, and a plan of each; the plan is empty for imported facts.
SELECT fact_id, MIN(plan_id) FROM evidence WHERE tenant = :tenant AND address_id = :address_id GROUP BY fact_id ORDER BY fact_id;

-- name: facts_from_entry
-- The facts with evidence in an entry, and a plan of each; the plan is empty for imported facts.
SELECT fact_id, MIN(plan_id) FROM evidence WHERE tenant = :tenant AND entry_id = :entry_id GROUP BY fact_id ORDER BY fact_id;

-- name: facts_of_turn
-- The current versions of the facts with evidence in an entry, with their kinds.
SELECT DISTINCT v.fact_id, e.kind
FROM evidence v
JOIN entry e ON e.tenant = v.tenant AND e.id = v.fact_id
WHERE v.tenant = :tenant AND e.tenant = :tenant AND v.entry_id = :entry_id AND e.retired_at IS NULL;

-- name: delete_evidence_of_plan
-- Remove the evidence that a plan added.
DELETE FROM evidence WHERE tenant = :tenant AND plan_id = :plan_id;

-- name: add_plan
-- Add a plan.
INSERT INTO plan (tenant, id, collection_id, address_id, state, method, note, head, first_seq, last_seq, steps, created_at,
  applied_at)
VALUES (:tenant, :id, :collection_id, :address_id, :state, :method, :note, :head, :first_seq, :last_seq, :steps, :now,
  :applied_at);

-- name: find_plan
-- One plan of a collection.
SELECT id, collection_id, address_id, state, method, note, head, first_seq, last_seq, steps, created_at, applied_at, reverted_at
FROM plan WHERE tenant = :tenant AND collection_id = :collection_id AND id = :id;

-- name: list_plans
-- The plans of a collection, newest first.
SELECT id, collection_id, address_id, state, method, note, head, first_seq, last_seq, steps, created_at, applied_at, reverted_at
FROM plan WHERE tenant = :tenant AND collection_id = :collection_id AND id < :before
ORDER BY id DESC
LIMIT :limit;

-- name: settle_plan
-- Change the state of a plan, if it still has the expected one.
UPDATE plan SET state = :state, head = :head, steps = :steps, applied_at = :applied_at, reverted_at = :reverted_at
WHERE tenant = :tenant AND id = :id AND state = :seen;

-- name: plans_of_address
-- The plans for a session, their steps and states.
SELECT id, steps, state FROM plan WHERE tenant = :tenant AND address_id = :address_id ORDER BY id;

-- name: plans_of_fact
-- The plans of a collection that mention a fact.
SELECT id FROM plan WHERE tenant = :tenant AND collection_id = :collection_id AND steps LIKE :pattern;

-- name: count_held
-- The number of quarantined facts of an address.
SELECT COUNT(*) FROM entry
WHERE tenant = :tenant AND address_id = :address_id
  AND kind = 'held' AND retired_at IS NULL AND (expires_at IS NULL OR expires_at > :now);

-- name: facts_in_session
-- The current facts with evidence in a session, in the order in which they were written.
SELECT e.id, e.version, e.seq, e.kind, e.role, e.name, e.content, e.metadata, e.tool, e.origin, e.importance, e.confidence,
  e.occurred_at, e.recorded_at, COALESCE(e.created_at, e.recorded_at)
FROM entry e
WHERE e.tenant = :tenant AND e.retired_at IS NULL AND e.kind = 'fact'
  AND e.id IN (SELECT v.fact_id FROM evidence v WHERE v.tenant = :tenant AND v.address_id = :address_id)
ORDER BY e.docid
LIMIT :limit;

-- name: plan_steps
-- The steps of a plan.
SELECT steps FROM plan WHERE tenant = :tenant AND id = :id;

-- name: set_plan_steps
-- Replace the steps of a plan.
UPDATE plan SET steps = :steps WHERE tenant = :tenant AND id = :id;

-- name: revoke_address
-- Remove a session from the evidence of a fact.
DELETE FROM evidence WHERE tenant = :tenant AND fact_id = :fact_id AND address_id = :address_id;

-- name: revoke_entry
-- Remove an entry from the evidence of a fact.
DELETE FROM evidence WHERE tenant = :tenant AND fact_id = :fact_id AND entry_id = :entry_id;

-- name: audit_facts
-- The current facts of a collection, ordered by their words, with the amount of evidence.
SELECT f.docid, e.id, e.content, e.origin, f.subject, f.same, f.topic, f.valid_to, f.plan_id,
  (SELECT COUNT(*) FROM evidence v WHERE v.tenant = :tenant AND v.fact_id = e.id),
  (SELECT COUNT(*) FROM evidence v WHERE v.tenant = :tenant AND v.fact_id = e.id AND v.origin <> 'assistant'),
  e.version, e.occurred_at, f.valid_from
FROM fact f
JOIN entry e ON e.tenant = f.tenant AND e.docid = f.docid
WHERE f.tenant = :tenant AND e.tenant = :tenant AND f.collection_id = :collection_id AND (f.same, f.docid) > (:after, :after_too)
  AND e.retired_at IS NULL AND e.kind = 'fact'
ORDER BY f.same, f.docid
LIMIT :limit;

-- name: settle_notes
-- Turn notes that became facts into ordinary turns. Search finds notes only until then.
UPDATE entry SET kind = 'turn'
WHERE tenant = :tenant AND address_id = :address_id AND kind = 'note' AND id IN TEXTS(:ids)
RETURNING docid;

-- name: unsettle_notes
-- Turn notes that became ordinary turns back into notes.
UPDATE entry SET kind = 'note'
WHERE tenant = :tenant AND address_id = :address_id AND kind = 'turn' AND id IN TEXTS(:ids)
RETURNING docid;

-- name: evidence_in_session
-- The passages of a session that are evidence.
SELECT entry_id, first_char, end_char FROM evidence WHERE tenant = :tenant AND address_id = :address_id;

-- name: entry_texts
-- The texts of entries that still exist.
-- engine: sqlite
SELECT e.id, e.content FROM entry e
WHERE e.tenant = :tenant AND e.id IN TEXTS(:ids) AND e.retired_at IS NULL AND (e.expires_at IS NULL OR e.expires_at > :now);
-- engine: postgres
SELECT e.id, e.content
FROM JSON_ARRAY_ELEMENTS_TEXT(CAST(:ids AS JSON)) AS wanted (id)
CROSS JOIN LATERAL (
  SELECT one.* FROM entry one WHERE one.tenant = :tenant AND one.id = wanted.id AND one.retired_at IS NULL LIMIT 1
) AS e
WHERE e.expires_at IS NULL OR e.expires_at > :now;

-- name: facts_of
-- Current facts by their ids.
-- engine: sqlite
SELECT e.id, e.version, e.content, f.subject, e.kind, e.confidence, e.occurred_at, f.topic, f.valid_from, f.valid_to,
  e.origin, f.held
FROM entry e
LEFT JOIN fact f ON f.tenant = :tenant AND f.docid = e.docid
WHERE e.tenant = :tenant AND e.id IN TEXTS(:ids) AND e.retired_at IS NULL;
-- engine: postgres
SELECT e.id, e.version, e.content, f.subject, e.kind, e.confidence, e.occurred_at, f.topic, f.valid_from, f.valid_to,
  e.origin, f.held
FROM JSON_ARRAY_ELEMENTS_TEXT(CAST(:ids AS JSON)) AS wanted (id)
CROSS JOIN LATERAL (
  SELECT one.* FROM entry one WHERE one.tenant = :tenant AND one.id = wanted.id AND one.retired_at IS NULL LIMIT 1
) AS e
LEFT JOIN fact f ON f.tenant = :tenant AND f.docid = e.docid;

-- name: facts_at
-- Current facts by their entry numbers.
SELECT e.docid, e.id, e.version, e.content, f.subject, e.kind, e.confidence, e.occurred_at, f.topic, f.valid_from, f.valid_to,
  e.origin
FROM entry e
LEFT JOIN fact f ON f.tenant = :tenant AND f.docid = e.docid
WHERE e.tenant = :tenant AND e.docid IN NUMBERS(:docids) AND e.retired_at IS NULL;

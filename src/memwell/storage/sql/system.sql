-- Tenants, API keys, hints about due work, and request counts: the queries above the tenants.

-- name: add_tenant
-- Add a tenant unless it exists.
INSERT INTO tenant (id, created_at) VALUES (:id, :now) ON CONFLICT (id) DO NOTHING;

-- name: find_tenant
-- A tenant with its time of creation.
SELECT id, created_at FROM tenant WHERE id = :id;

-- name: hold_tenant
-- Lock a tenant until the end of the transaction.
UPDATE tenant SET created_at = created_at WHERE id = :id;

-- name: list_tenants
-- Tenants after a name, by name.
SELECT id, created_at FROM tenant WHERE id > :after ORDER BY id LIMIT :limit;

-- name: delete_tenant
-- Remove a tenant.
DELETE FROM tenant WHERE id = :id;

-- name: set_tenant_made
-- Change the creation time of a tenant, which makes it another one.
UPDATE tenant SET created_at = :created_at WHERE id = :id;

-- name: add_key
-- Store a key's hash.
INSERT INTO api_key (id, tenant, name, hash, role, tie_kind, tie_name, rate, created_at, expires_at)
VALUES (:id, :tenant, :name, :hash, :role, :tie_kind, :tie_name, :rate, :now, :expires_at);

-- name: add_first_key
-- Store the hash of an operator's key if there is no key yet.
INSERT INTO api_key (id, tenant, name, hash, role, created_at)
SELECT :id, :tenant, 'first key', :hash, 'operator', :now WHERE NOT EXISTS (SELECT 1 FROM api_key);

-- name: key_by_hash
-- The key with this hash.
SELECT id, tenant, name, role, tie_kind, tie_name, rate, created_at, expires_at, revoked_at FROM api_key
WHERE hash = :hash;

-- name: list_keys
-- The keys of a tenant after an id.
SELECT id, tenant, name, role, tie_kind, tie_name, rate, created_at, expires_at, revoked_at FROM api_key
WHERE tenant = :tenant AND id > :after
ORDER BY id
LIMIT :limit;

-- name: revoke_key
-- Revoke a key and delete its name.
UPDATE api_key SET revoked_at = :now, name = '' WHERE tenant = :tenant AND id = :id AND revoked_at IS NULL;

-- name: end_expired_keys
-- Revoke the keys that have expired, so that they stay invalid if the clock is set back.
UPDATE api_key SET revoked_at = expires_at, name = '' WHERE expires_at <= :now AND revoked_at IS NULL;

-- name: find_key
-- One key of a tenant.
SELECT id, tenant, name, role, tie_kind, tie_name, rate, created_at, expires_at, revoked_at FROM api_key
WHERE tenant = :tenant AND id = :id;

-- name: delete_key
-- Remove one key of a tenant.
DELETE FROM api_key WHERE tenant = :tenant AND id = :id;

-- name: delete_keys_of
-- Remove the keys of a tenant.
DELETE FROM api_key WHERE tenant = :tenant;

-- name: delete_tied_keys
-- Remove the keys that are scoped to one flow or user.
DELETE FROM api_key WHERE tenant = :tenant AND tie_kind = :tie_kind AND tie_name = :tie_name;

-- name: count_keys
-- The number of keys.
SELECT COUNT(*) FROM api_key;

-- name: count_valid_keys
-- The number of keys that are not revoked.
SELECT COUNT(*) FROM api_key WHERE revoked_at IS NULL;

-- name: add_hint
-- Add a hint that a tenant has work at a time. The earlier time counts.
INSERT INTO hint (tenant, due_at) VALUES (:tenant, :due_at)
ON CONFLICT (tenant) DO UPDATE SET due_at = excluded.due_at WHERE excluded.due_at < hint.due_at;

-- name: hinted
-- A row if such a hint exists for this time or an earlier one. A read is cheaper than another write.
SELECT due_at FROM hint WHERE tenant = :tenant AND due_at <= :due_at;

-- name: set_hint
-- Set the time of a tenant's next work, unless a new hint was added since.
INSERT INTO hint (tenant, due_at) VALUES (:tenant, :due_at)
ON CONFLICT (tenant) DO UPDATE SET due_at = excluded.due_at WHERE hint.due_at = :seen;

-- name: delete_hint
-- Remove a tenant's hint, unless a new one was added since.
DELETE FROM hint WHERE tenant = :tenant AND due_at = :seen;

-- name: forget_hint
-- Remove the hint of a deleted tenant.
DELETE FROM hint WHERE tenant = :tenant;

-- name: due_hints
-- Tenants with work that is due.
SELECT tenant, due_at FROM hint WHERE due_at <= :now ORDER BY due_at LIMIT :limit;

-- name: next_hint
-- The time of the next work of any tenant.
SELECT MIN(due_at) FROM hint;

-- name: take_rate
-- Count some requests of a key in one second, if that many are left.
INSERT INTO rate (id, second, used) VALUES (:id, :second, :size)
ON CONFLICT (id, second) DO UPDATE SET used = rate.used + :size WHERE rate.used + :size <= :rate;

-- name: forget_rates
-- Remove the counts of requests up to a second.
DELETE FROM rate WHERE second <= :second;

-- name: page_keys
-- All columns of a tenant's keys.
SELECT id, tenant, name, hash, role, tie_kind, tie_name, rate, created_at, expires_at, revoked_at FROM api_key
WHERE tenant = :tenant ORDER BY id;

-- name: put_key
-- Add a key with all its columns.
INSERT INTO api_key (id, tenant, name, hash, role, tie_kind, tie_name, rate, created_at, expires_at, revoked_at)
VALUES (:id, :tenant, :name, :hash, :role, :tie_kind, :tie_name, :rate, :created_at, :expires_at, :revoked_at)
ON CONFLICT (id) DO NOTHING;

-- name: add_dropped
-- Record that a tenant was deleted. The id reveals nothing.
INSERT INTO dropped (id, at) VALUES (:id, :at) ON CONFLICT (id) DO NOTHING;

-- name: list_dropped
-- Deleted tenants after an id.
SELECT id, at FROM dropped WHERE id > :after ORDER BY id LIMIT :limit;

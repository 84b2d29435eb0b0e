-- The few queries that are not inside one tenant.

-- name: add_tenant
-- Make a tenant unless it exists.
INSERT INTO tenant (id, created_at) VALUES (:id, :now) ON CONFLICT (id) DO NOTHING;

-- name: find_tenant
-- Whether there is such a tenant.
SELECT id, created_at FROM tenant WHERE id = :id;

-- name: hold_tenant
-- Have everybody wait who would hold the same tenant, until the end of the transaction.
UPDATE tenant SET created_at = created_at WHERE id = :id;

-- name: list_tenants
-- Tenants by name.
SELECT id, created_at FROM tenant WHERE id > :after ORDER BY id LIMIT :limit;

-- name: delete_tenant
-- Remove a tenant.
DELETE FROM tenant WHERE id = :id;

-- name: set_tenant_made
-- Say that a tenant is another, which was made at another moment.
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
-- Whom a key speaks for.
SELECT id, tenant, name, role, tie_kind, tie_name, rate, created_at, expires_at, revoked_at FROM api_key
WHERE hash = :hash;

-- name: list_keys
-- The keys of a tenant.
SELECT id, tenant, name, role, tie_kind, tie_name, rate, created_at, expires_at, revoked_at FROM api_key
WHERE tenant = :tenant AND id > :after
ORDER BY id
LIMIT :limit;

-- name: revoke_key
-- Make a key useless.
UPDATE api_key SET revoked_at = :now WHERE tenant = :tenant AND id = :id AND revoked_at IS NULL;

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
-- Remove the keys that were held to one flow or user.
DELETE FROM api_key WHERE tenant = :tenant AND tie_kind = :tie_kind AND tie_name = :tie_name;

-- name: count_keys
-- How many keys there are.
SELECT COUNT(*) FROM api_key;

-- name: add_hint
-- Say that a tenant has work at a moment; the earlier one counts.
INSERT INTO hint (tenant, due_at) VALUES (:tenant, :due_at)
ON CONFLICT (tenant) DO UPDATE SET due_at = excluded.due_at WHERE excluded.due_at < hint.due_at;

-- name: hinted
-- Whether it is said already that a tenant has work at a moment, or earlier: to ask is cheaper than to say it again.
SELECT due_at FROM hint WHERE tenant = :tenant AND due_at <= :due_at;

-- name: set_hint
-- Say when a tenant has its next work, after looking.
INSERT INTO hint (tenant, due_at) VALUES (:tenant, :due_at)
ON CONFLICT (tenant) DO UPDATE SET due_at = excluded.due_at WHERE hint.due_at = :seen;

-- name: delete_hint
-- A tenant has no more work, unless somebody said so since.
DELETE FROM hint WHERE tenant = :tenant AND due_at = :seen;

-- name: forget_hint
-- A tenant is gone.
DELETE FROM hint WHERE tenant = :tenant;

-- name: due_hints
-- Tenants that have work.
SELECT tenant, due_at FROM hint WHERE due_at <= :now ORDER BY due_at LIMIT :limit;

-- name: next_hint
-- When the next work is due anywhere.
SELECT MIN(due_at) FROM hint;

-- name: take_rate
-- Take some of a key's requests of one second, if there are as many left.
INSERT INTO rate (id, second, used) VALUES (:id, :second, :size)
ON CONFLICT (id, second) DO UPDATE SET used = rate.used + :size WHERE rate.used + :size <= :rate;

-- name: forget_rates
-- Forget how many requests were sent until a second.
DELETE FROM rate WHERE second <= :second;

-- name: page_keys
-- Everything that is stored of a tenant's keys.
SELECT id, tenant, name, hash, role, tie_kind, tie_name, rate, created_at, expires_at, revoked_at FROM api_key
WHERE tenant = :tenant ORDER BY id;

-- name: put_key
-- A key as it was elsewhere.
INSERT INTO api_key (id, tenant, name, hash, role, tie_kind, tie_name, rate, created_at, expires_at, revoked_at)
VALUES (:id, :tenant, :name, :hash, :role, :tie_kind, :tie_name, :rate, :created_at, :expires_at, :revoked_at)
ON CONFLICT (id) DO NOTHING;

-- name: add_dropped
-- Note that a tenant was deleted, by a mark that tells nothing.
INSERT INTO dropped (id, at) VALUES (:id, :at) ON CONFLICT (id) DO NOTHING;

-- name: list_dropped
-- The marks of deleted tenants, behind one.
SELECT id, at FROM dropped WHERE id > :after ORDER BY id LIMIT :limit;

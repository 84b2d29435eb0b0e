-- Addresses of several parts say what each part is: the conversation `ada/t1` becomes `owner=ada/thread=t1`, so that different
-- owners, threads and apps never share one.

-- A conversation is renamed if all runs that have read it are of one owner, thread and app. One that several have shared keeps
-- its path: runs read it only where their document names it, and forgetting its owner still erases it.
UPDATE address SET path = n.path
FROM (
  SELECT p.tenant, p.id, p.collection_id,
    'owner=' || REPLACE(REPLACE(p.owner, '%', '%25'), '/', '%2F')
      || CASE WHEN COALESCE(w.app, s.app, '') = '' THEN '/thread=' || REPLACE(REPLACE(p.thread, '%', '%25'), '/', '%2F')
        ELSE '/app=' || COALESCE(w.app, s.app) || '/session='
          || REPLACE(REPLACE(COALESCE(w.thread, s.session), '%', '%25'), '/', '%2F')
        END AS path
  FROM (
    SELECT a.tenant, a.id, a.collection_id, u.owner, SUBSTR(a.path, LENGTH(u.owner) + 2) AS thread
    FROM collection c
    JOIN address a ON a.tenant = c.tenant AND a.collection_id = c.id
    JOIN (
      SELECT tenant, address_id, MIN(SUBSTR(tie, 6)) AS owner FROM record_tie
      WHERE tie >= 'user/' AND tie < 'user0'
      GROUP BY tenant, address_id HAVING COUNT(*) = 1
    ) u ON u.tenant = a.tenant AND u.address_id = a.id
    WHERE c.kind = 'timeline' AND c.dialect IN ('flow', 'bank') AND SUBSTR(a.path, 1, LENGTH(u.owner) + 1) = u.owner || '/'
  ) p
  LEFT JOIN (
    SELECT tenant, address_id, MIN(owner) AS owner, MIN(thread) AS thread, MIN(app) AS app,
      COUNT(DISTINCT owner) * COUNT(DISTINCT thread) * COUNT(DISTINCT app) AS others
    FROM (
      SELECT b.tenant, b.address_id, COALESCE(JSON_EXTRACT(r.asked, '$.owner'), '') AS owner,
        COALESCE(JSON_EXTRACT(r.asked, '$.thread'), '') AS thread, COALESCE(JSON_EXTRACT(r.asked, '$.app'), '') AS app
      FROM run_touch b
      JOIN run r ON r.tenant = b.tenant AND r.id = b.run_id
      WHERE r.asked <> '{"erased": true}'
    ) o
    GROUP BY tenant, address_id
  ) w ON w.tenant = p.tenant AND w.address_id = p.id
  LEFT JOIN (
    SELECT c.tenant, c.name AS app, SUBSTR(a.path, 21) AS session
    FROM collection c
    JOIN address a ON a.tenant = c.tenant AND a.collection_id = c.id
    WHERE c.kind = 'record' AND c.dialect = 'app' AND a.path > 'sessionMeta@session/' AND a.path < 'sessionMeta@session0'
  ) s ON s.tenant = p.tenant AND p.thread = s.app || '/' || s.session AND w.address_id IS NULL
  WHERE w.address_id IS NULL OR (
    w.others = 1 AND w.owner = p.owner
    AND p.thread = CASE WHEN w.app = '' THEN w.thread ELSE w.app || '/' || w.thread END)
) n
WHERE address.tenant = n.tenant AND address.id = n.id AND NOT EXISTS (
  SELECT 1 FROM address o WHERE o.tenant = n.tenant AND o.collection_id = n.collection_id AND o.path = n.path);

-- The conversations of app sessions without a user.
UPDATE address SET path = n.path
FROM (
  SELECT a.tenant, a.id, a.collection_id,
    'app=' || w.app || '/session=' || REPLACE(REPLACE(w.thread, '%', '%25'), '/', '%2F') AS path
  FROM collection c
  JOIN address a ON a.tenant = c.tenant AND a.collection_id = c.id
  JOIN (
    SELECT tenant, address_id, MIN(owner) AS owner, MIN(thread) AS thread, MIN(app) AS app,
      COUNT(DISTINCT owner) * COUNT(DISTINCT thread) * COUNT(DISTINCT app) AS others
    FROM (
      SELECT b.tenant, b.address_id, COALESCE(JSON_EXTRACT(r.asked, '$.owner'), '') AS owner,
        COALESCE(JSON_EXTRACT(r.asked, '$.thread'), '') AS thread, COALESCE(JSON_EXTRACT(r.asked, '$.app'), '') AS app
      FROM run_touch b
      JOIN run r ON r.tenant = b.tenant AND r.id = b.run_id
      WHERE r.asked <> '{"erased": true}'
    ) o
    GROUP BY tenant, address_id
  ) w ON w.tenant = a.tenant AND w.address_id = a.id
  WHERE c.kind = 'timeline' AND c.dialect IN ('flow', 'bank')
    AND w.others = 1 AND w.owner = '' AND w.app <> '' AND a.path = w.app || '/' || w.thread
) n
WHERE address.tenant = n.tenant AND address.id = n.id AND NOT EXISTS (
  SELECT 1 FROM address o WHERE o.tenant = n.tenant AND o.collection_id = n.collection_id AND o.path = n.path);

-- The session of an app finds its conversations by a tie.
INSERT INTO record_tie (tenant, tie, address_id)
SELECT n.tenant, 'in/' || SUBSTR(n.rest, 5, INSTR(n.rest, '/') - 5) || '/'
  || REPLACE(REPLACE(SUBSTR(n.rest, INSTR(n.rest, '/') + 9), '%2F', '/'), '%25', '%'), n.id
FROM (
  SELECT a.tenant, a.id,
    CASE WHEN a.path LIKE 'owner=%' THEN SUBSTR(a.path, INSTR(a.path, '/') + 1) ELSE a.path END AS rest
  FROM collection c
  JOIN address a ON a.tenant = c.tenant AND a.collection_id = c.id
  WHERE c.kind = 'timeline' AND c.dialect IN ('flow', 'bank')
) n
WHERE n.rest LIKE 'app=%/session=%'
ON CONFLICT (tenant, tie, address_id) DO NOTHING;

-- Working memory of the sessions of apps: the thread `shop/s1` becomes `app=shop/session=s1`.
UPDATE record_tie SET tie = 'thread/app=' || n.app || '/session=' || REPLACE(REPLACE(n.session, '%', '%25'), '/', '%2F')
FROM (
  SELECT t.tenant, t.id, t.slug, s.app, s.session
  FROM (
    SELECT a.tenant, a.id, SUBSTR(a.path, 1, INSTR(a.path, '@thread/') - 1) AS slug,
      SUBSTR(a.path, INSTR(a.path, '@thread/') + 8) AS thread
    FROM collection c
    JOIN address a ON a.tenant = c.tenant AND a.collection_id = c.id
    WHERE c.kind = 'record' AND c.dialect = 'user' AND a.path LIKE '%@thread/%'
  ) t
  JOIN (
    SELECT c.tenant, c.name AS app, SUBSTR(a.path, 21) AS session
    FROM collection c
    JOIN address a ON a.tenant = c.tenant AND a.collection_id = c.id
    WHERE c.kind = 'record' AND c.dialect = 'app' AND a.path > 'sessionMeta@session/' AND a.path < 'sessionMeta@session0'
  ) s ON s.tenant = t.tenant AND t.thread = s.app || '/' || s.session
) n
WHERE record_tie.tenant = n.tenant AND record_tie.address_id = n.id
  AND record_tie.tie = 'thread/' || n.app || '/' || n.session;

UPDATE address SET path = n.slug || '@thread/app=' || n.app || '/session='
  || REPLACE(REPLACE(n.session, '%', '%25'), '/', '%2F')
FROM (
  SELECT t.tenant, t.id, t.slug, s.app, s.session
  FROM (
    SELECT a.tenant, a.id, SUBSTR(a.path, 1, INSTR(a.path, '@thread/') - 1) AS slug,
      SUBSTR(a.path, INSTR(a.path, '@thread/') + 8) AS thread
    FROM collection c
    JOIN address a ON a.tenant = c.tenant AND a.collection_id = c.id
    WHERE c.kind = 'record' AND c.dialect = 'user' AND a.path LIKE '%@thread/%'
  ) t
  JOIN (
    SELECT c.tenant, c.name AS app, SUBSTR(a.path, 21) AS session
    FROM collection c
    JOIN address a ON a.tenant = c.tenant AND a.collection_id = c.id
    WHERE c.kind = 'record' AND c.dialect = 'app' AND a.path > 'sessionMeta@session/' AND a.path < 'sessionMeta@session0'
  ) s ON s.tenant = t.tenant AND t.thread = s.app || '/' || s.session
) n
WHERE address.tenant = n.tenant AND address.id = n.id;

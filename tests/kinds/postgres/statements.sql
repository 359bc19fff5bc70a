-- What statements do.  A line that begins with "-- is" tells it for those that follow: effects,
-- then, where there are any: reads, writes, names (what DDL and locks name), calls, incomplete.

-- is read
SELECT 1
SELECT
SELECT 1 AS one, 'two' AS two
SELECT 1; SELECT 2
SELECT ALL 1
VALUES (1), (2)
SELECT NULL::int[]
SELECT '{1,2}'::int[] || 3
SELECT ARRAY[1, 2, 3]
SELECT ROW(1, 'a')
SELECT CASE WHEN true THEN 1 ELSE 2 END
SELECT COALESCE(NULL, 1)
SELECT GREATEST(1, 2), LEAST(1, 2)
SELECT CURRENT_USER, SESSION_USER, CURRENT_DATE, LOCALTIMESTAMP
SELECT 1 IN (1, 2), 1 BETWEEN 0 AND 2, 'a' LIKE 'b', 'a' ~ 'b'
SELECT 1 IS NULL, true IS NOT TRUE, 1 IS DISTINCT FROM 2
SELECT -1, +1, NOT true, 2 ^ 3, 5 % 2, 1 << 2
SELECT $1
SELECT $1::text, $2
SELECT E'\\x', U&'\0041', $$dollar$$, $tag$ tagged $tag$
SELECT 1 -- a comment
SELECT /* DROP TABLE a */ 1
/* a comment */ SELECT 1
SELECT 'DROP TABLE a; DELETE FROM b'
SELECT XMLELEMENT(NAME a, 'b')
SELECT JSON_OBJECT('a': 1)
SELECT * FROM (VALUES (1, 2)) AS t (a, b)
SELECT * FROM (SELECT 1) AS s
WITH a AS (SELECT 1) SELECT * FROM a
WITH a AS (SELECT 1), b AS (SELECT * FROM a) SELECT * FROM b, a
WITH RECURSIVE a AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM a WHERE n < 5) SELECT * FROM a
SELECT 1 UNION SELECT 2
SELECT 1 INTERSECT SELECT 2 EXCEPT SELECT 3
(SELECT 1) UNION ALL (SELECT 2 ORDER BY 1 LIMIT 1)
SHOW search_path
SHOW ALL
FETCH 10 FROM c
FETCH NEXT FROM c
MOVE FORWARD 5 IN c
CLOSE c
CLOSE ALL
EXPLAIN SELECT 1
EXPLAIN (ANALYZE, BUFFERS) SELECT 1
DECLARE c CURSOR FOR SELECT 1
DECLARE c SCROLL CURSOR WITH HOLD FOR SELECT 1
COPY (SELECT 1) TO STDOUT

-- is read; reads a
SELECT * FROM a
SELECT a.x FROM a
SELECT * FROM ONLY a
SELECT * FROM a AS b
SELECT DISTINCT x FROM a
SELECT DISTINCT ON (x) x, y FROM a ORDER BY x
SELECT x FROM a WHERE y = 1 GROUP BY x HAVING true ORDER BY x LIMIT 1 OFFSET 2
SELECT x FROM a GROUP BY GROUPING SETS ((x), ())
SELECT x FROM a GROUP BY ROLLUP (x), CUBE (y)
SELECT x FROM a FETCH FIRST 3 ROWS ONLY
SELECT x FROM a ORDER BY x FETCH FIRST 3 ROWS WITH TIES
SELECT (SELECT max FROM a)
SELECT 1 WHERE EXISTS (SELECT FROM a)
SELECT 1 WHERE 1 IN (SELECT x FROM a)
SELECT 1 WHERE 1 = ANY (SELECT x FROM a)
SELECT ARRAY(SELECT x FROM a)
SELECT * FROM a WINDOW w AS (PARTITION BY x ORDER BY y)
SELECT * FROM a JOIN a AS b USING (x)
SELECT * FROM (SELECT * FROM a) AS s
SELECT * FROM a, LATERAL (SELECT a.x) AS l
WITH b AS (SELECT * FROM a) SELECT * FROM b
WITH a AS (SELECT * FROM a) SELECT * FROM a
WITH b AS MATERIALIZED (SELECT * FROM a) SELECT 1
WITH b AS (SELECT 1) SELECT * FROM (WITH c AS (SELECT * FROM a) SELECT * FROM b, c) AS s
SELECT * FROM a WHERE x = $1 AND y > $2
SELECT x[1], x[1:2], (y).z FROM a
SELECT CAST(x AS text), x::int FROM a
SELECT x COLLATE "C" FROM a
TABLE a
TABLE a ORDER BY x
SELECT 1 UNION SELECT x FROM a
SELECT x FROM a UNION ALL SELECT 1
COPY a TO STDOUT
COPY a (x, y) TO STDOUT WITH (FORMAT csv, HEADER)
COPY (SELECT * FROM a) TO STDOUT
COPY a TO STDOUT BINARY
EXPLAIN SELECT * FROM a
EXPLAIN ANALYZE SELECT * FROM a
DECLARE c CURSOR FOR SELECT * FROM a
SELECT * FROM JSON_TABLE((SELECT x FROM a), '$[*]' COLUMNS (y int PATH '$'))
SELECT JSON_VALUE(x, '$.a') FROM a
SELECT XMLFOREST(x, y AS z) FROM a
SELECT * FROM a ORDER BY x USING <
SELECT * FROM a WHERE x ILIKE 'b%' AND y !~* 'c'

-- is read; reads a b
SELECT * FROM a, b
SELECT * FROM a JOIN b ON a.x = b.x
SELECT * FROM a LEFT JOIN b USING (x)
SELECT * FROM a NATURAL FULL OUTER JOIN b
SELECT * FROM a CROSS JOIN b
SELECT * FROM a WHERE x IN (SELECT x FROM b)
SELECT * FROM a UNION SELECT * FROM b
SELECT (SELECT x FROM a), (SELECT y FROM b)
SELECT * FROM a; SELECT * FROM b
WITH c AS (SELECT * FROM a) SELECT * FROM c JOIN b USING (x)
SELECT CASE WHEN EXISTS (SELECT FROM a) THEN (SELECT x FROM b) END
SELECT * FROM a ORDER BY (SELECT max FROM b)
SELECT * FROM a LIMIT (SELECT n FROM b)

-- is read; reads s.a
SELECT * FROM s.a
SELECT * FROM "s"."a"
SELECT s.a.x FROM s.a
WITH a AS (SELECT 1) SELECT * FROM s.a

-- is read; reads d.s.a
SELECT * FROM d.s.a

-- is read; reads "A"
SELECT * FROM "A"

-- is read; reads "a.b"
SELECT * FROM "a.b"

-- is read; calls count
SELECT count(*)
SELECT pg_catalog.count(*)
SELECT COUNT(1)

-- is read; reads a; calls count
SELECT count(*) FROM a
SELECT count(x) FILTER (WHERE y) OVER (PARTITION BY z) FROM a
SELECT x FROM a GROUP BY x HAVING count(*) > 1
SELECT * FROM a WHERE (SELECT count(*)) > 1

-- is read; calls s.f
SELECT s.f()
SELECT * FROM s.f(1, 2)
SELECT * FROM s.f() AS t (x int)
SELECT * FROM ROWS FROM (s.f(), s.f())
SELECT s.f(VARIADIC ARRAY[1])
SELECT s.f(a => 1)

-- is read; reads a; calls "F" lower
SELECT "F"(lower(x)) FROM a

-- is read; calls generate_series
SELECT * FROM generate_series(1, 10)
SELECT * FROM generate_series(1, 10) WITH ORDINALITY

-- is read; reads a; calls bernoulli
SELECT * FROM a TABLESAMPLE BERNOULLI (10)

-- is read; reads a; calls unnest
SELECT * FROM a, unnest(x)

-- is read; calls "operator s.+"
SELECT 1 OPERATOR(s.+) 2

-- is read; calls pg_sleep
SELECT pg_sleep(1)

-- is read lock; reads a
SELECT * FROM a FOR UPDATE
SELECT * FROM a FOR SHARE OF a SKIP LOCKED
SELECT * FROM a FOR NO KEY UPDATE NOWAIT
SELECT * FROM a FOR KEY SHARE
SELECT * FROM (SELECT * FROM a FOR UPDATE) AS s
WITH b AS (SELECT * FROM a FOR UPDATE) SELECT * FROM b

-- is lock; names a
LOCK TABLE a
LOCK a IN ACCESS EXCLUSIVE MODE NOWAIT

-- is lock; names a s.b
LOCK TABLE a, s.b

-- is write; writes a
INSERT INTO a VALUES (1)
INSERT INTO a DEFAULT VALUES
INSERT INTO a (x) VALUES ($1), ($2)
INSERT INTO a AS b VALUES (1)
INSERT INTO a (x) OVERRIDING SYSTEM VALUE VALUES (1)
TRUNCATE a
TRUNCATE TABLE ONLY a RESTART IDENTITY CASCADE
COPY a FROM STDIN
COPY a (x) FROM STDIN WITH (FORMAT csv)
COPY a FROM STDIN WHERE x > 1

-- is write; writes a s.b
TRUNCATE a, s.b

-- is read write; writes a
INSERT INTO a SELECT 1
INSERT INTO a (SELECT 1 UNION SELECT 2)
INSERT INTO a WITH b AS (SELECT 1) SELECT * FROM b
WITH b AS (SELECT 1) INSERT INTO a SELECT * FROM b
EXPLAIN INSERT INTO a VALUES (1)

-- is read write; reads b; writes a
INSERT INTO a SELECT * FROM b
INSERT INTO a TABLE b
INSERT INTO a VALUES ((SELECT x FROM b))
WITH c AS (SELECT * FROM b) INSERT INTO a SELECT * FROM c
SELECT * FROM b; INSERT INTO a VALUES (1)
WITH c AS (INSERT INTO a VALUES (1)) SELECT * FROM b

-- is read write; reads a; writes a
INSERT INTO a VALUES (1) RETURNING x
INSERT INTO a VALUES (1) ON CONFLICT DO NOTHING
INSERT INTO a VALUES (1) ON CONFLICT (x) DO UPDATE SET y = EXCLUDED.y WHERE a.z
UPDATE a SET x = 1
UPDATE ONLY a SET x = 1, y = DEFAULT WHERE z
UPDATE a AS b SET x = b.y
UPDATE a SET (x, y) = (1, 2)
UPDATE a SET x = 1 RETURNING *
UPDATE a SET x = 1 WHERE CURRENT OF c
DELETE FROM a
DELETE FROM a WHERE x = 1
DELETE FROM a AS b USING a AS c WHERE b.x = c.x
DELETE FROM a RETURNING *
WITH b AS (DELETE FROM a RETURNING *) SELECT * FROM b
WITH b AS (UPDATE a SET x = 1 RETURNING *), c AS (SELECT * FROM b) SELECT * FROM c
WITH a AS (SELECT 1) UPDATE a SET x = 1
WITH a AS (SELECT 1) DELETE FROM a
EXPLAIN ANALYZE DELETE FROM a
DECLARE c CURSOR FOR WITH b AS (DELETE FROM a RETURNING *) SELECT * FROM b

-- is read write; reads a b; writes a
UPDATE a SET x = b.x FROM b
UPDATE a SET x = (SELECT max FROM b)
UPDATE a SET (x, y) = (SELECT 1, 2 FROM b)
UPDATE a SET x = 1 WHERE y IN (SELECT y FROM b)
DELETE FROM a USING b WHERE a.x = b.x
DELETE FROM a WHERE x IN (SELECT x FROM b)
WITH c AS (SELECT * FROM b) DELETE FROM a USING c
INSERT INTO a SELECT * FROM b ON CONFLICT DO NOTHING
INSERT INTO a SELECT * FROM b RETURNING x
MERGE INTO a USING b ON a.x = b.x WHEN MATCHED THEN DELETE
MERGE INTO a USING b ON true WHEN MATCHED THEN UPDATE SET x = 1 WHEN NOT MATCHED THEN INSERT VALUES (1)
MERGE INTO a USING b ON true WHEN NOT MATCHED BY SOURCE THEN DELETE RETURNING merge_action(), a.*

-- is read write; reads a b; writes a b
WITH c AS (DELETE FROM a RETURNING *) DELETE FROM b
WITH c AS (DELETE FROM a RETURNING *) INSERT INTO b SELECT * FROM c RETURNING *
DELETE FROM a; DELETE FROM b

-- is read write; reads s.a; writes s.a
UPDATE s.a SET x = 1
DELETE FROM s.a

-- is read write ddl; reads a; writes b
SELECT * INTO b FROM a
SELECT * INTO TEMP b FROM a
CREATE TABLE b AS SELECT * FROM a
CREATE TABLE IF NOT EXISTS b AS SELECT * FROM a WITH NO DATA
CREATE TEMP TABLE b AS TABLE a
CREATE MATERIALIZED VIEW b AS SELECT * FROM a
CREATE UNLOGGED TABLE b AS SELECT * FROM a
EXPLAIN ANALYZE CREATE TABLE b AS SELECT * FROM a

-- is read write ddl; writes b
CREATE TABLE b AS SELECT 1
SELECT 1 INTO b

-- is write ddl; writes b
REFRESH MATERIALIZED VIEW b
REFRESH MATERIALIZED VIEW CONCURRENTLY b WITH NO DATA

-- is read write; calls nextval
SELECT nextval('s')

-- is read write; calls setval
SELECT setval('s', 1)

-- is read write; calls pg_terminate_backend
SELECT pg_terminate_backend(1)

-- is read write; reads pg_stat_activity; calls pg_cancel_backend
SELECT pg_cancel_backend(pid) FROM pg_stat_activity

-- is read notify; calls pg_notify
SELECT pg_notify('c', 'payload')
SELECT pg_catalog.pg_notify('c', '')

-- is read lock; calls pg_advisory_lock
SELECT pg_advisory_lock(1)

-- is read lock; calls pg_try_advisory_xact_lock_shared
SELECT pg_try_advisory_xact_lock_shared(1, 2)

-- is read lock; calls pg_advisory_unlock_all
SELECT pg_advisory_unlock_all()

-- is read write; calls pg_create_physical_replication_slot
SELECT pg_create_physical_replication_slot('s')

-- is read write; calls pg_create_logical_replication_slot
SELECT pg_create_logical_replication_slot('s', 'p')

-- is read write; calls pg_drop_replication_slot
SELECT pg_drop_replication_slot('s')

-- is read write; calls pg_replication_slot_advance
SELECT pg_replication_slot_advance('s', '0/0')

-- is read write; calls pg_backup_start
SELECT pg_backup_start('l')

-- is read write; calls pg_backup_stop
SELECT pg_backup_stop()

-- is read write; calls pg_start_backup
SELECT pg_start_backup('l')

-- is read write; calls pg_stat_reset
SELECT pg_stat_reset()

-- is read write; calls pg_stat_reset_shared
SELECT pg_stat_reset_shared('wal')

-- is read write; calls pg_stat_statements_reset
SELECT pg_stat_statements_reset()

-- is read write; calls pg_wal_replay_pause
SELECT pg_wal_replay_pause()

-- is read write; calls pg_restore_relation_stats
SELECT pg_restore_relation_stats('relation', 'a')

-- is read write; calls pg_replication_origin_create
SELECT pg_replication_origin_create('o')

-- is read write; calls gin_clean_pending_list
SELECT gin_clean_pending_list('i')

-- is read write; calls binary_upgrade_set_next_pg_type_oid
SELECT binary_upgrade_set_next_pg_type_oid(1)

-- is read write; calls pg_log_backend_memory_contexts
SELECT pg_log_backend_memory_contexts(1)

-- is read unsafe_io; calls pg_ls_replslotdir
SELECT * FROM pg_ls_replslotdir('s')

-- is read unsafe_io; calls pg_hba_file_rules
SELECT * FROM pg_hba_file_rules()

-- is read unsafe_io; calls dblink_disconnect
SELECT * FROM dblink_disconnect('c')

-- is read unsafe_io; calls dblink_connect_u
SELECT * FROM dblink_connect_u('c')

-- is read unsafe_io; calls postgres_fdw_disconnect_all
SELECT * FROM postgres_fdw_disconnect_all()

-- is read unsafe_io; calls dblink_get_result; incomplete
SELECT * FROM dblink_get_result('c') AS t (x int)

-- is read unsafe_io; calls dblink_fetch; incomplete
SELECT * FROM dblink_fetch('c') AS t (x int)

-- is read; calls currtid2; incomplete
SELECT * FROM currtid2('a', '(0,0)')

-- is read; calls pg_logical_slot_peek_changes; incomplete
SELECT * FROM pg_logical_slot_peek_changes('s', NULL, NULL)

-- is read; calls crosstab3; incomplete
SELECT * FROM crosstab3('SELECT 1')

-- is read; calls get_raw_page; incomplete
SELECT * FROM get_raw_page('a', 0)

-- is read write; calls pg_logical_slot_get_changes; incomplete
SELECT pg_logical_slot_get_changes('s', NULL, NULL)

-- is read; reads pg_catalog.pg_largeobject; calls lo_get
SELECT lo_get(1)

-- is read; reads pg_catalog.pg_largeobject; calls lo_open
SELECT lo_open(1, 262144)

-- is read; reads pg_catalog.pg_largeobject; calls loread
SELECT loread(0, 9)

-- is read set; calls set_config; incomplete
SELECT set_config('standard_conforming_strings', 'off', false)
SELECT set_config('Client_Encoding', 'UTF8', true)
SELECT set_config('backslash_quote', 'on', false)
SELECT set_config('client_' || 'encoding', 'GBK', false)
SELECT set_config($1, $2, false)
SELECT set_config('search_path'::text, 's', false)
SELECT set_config(new_value => 'off', setting_name => 'standard_conforming_strings', is_local => false)
SELECT * FROM pg_catalog.set_config(NULL, 'x', false)

-- is read set; calls set_config
SELECT set_config('role', 'postgres', false)
SELECT pg_catalog.set_config('search_path', '', false)

-- is read unsafe_io; calls pg_read_file
SELECT pg_read_file('/etc/passwd')
SELECT * FROM pg_read_file('/etc/passwd')

-- is read unsafe_io; calls pg_ls_dir
SELECT pg_ls_dir('.')

-- is read unsafe_io; calls lo_import
SELECT lo_import('/etc/passwd')

-- is read unsafe_io; reads pg_catalog.pg_largeobject; calls lo_export
SELECT lo_export(1, '/tmp/x')

-- is read unsafe_io; calls dblink; incomplete
SELECT * FROM dblink('host=x', 'DELETE FROM a') AS t (x int)

-- is read; calls query_to_xml; incomplete
SELECT query_to_xml('DELETE FROM a', true, true, '')

-- is read; calls ts_stat; incomplete
SELECT * FROM ts_stat('SELECT x FROM a')

-- is read unsafe_io; reads a
COPY a TO '/tmp/a'
COPY a TO PROGRAM 'cat'

-- is write unsafe_io; writes a
COPY a FROM '/tmp/a'
COPY a FROM PROGRAM 'cat'

-- is read unsafe_io
COPY (SELECT 1) TO PROGRAM 'cat'

-- is unsafe_io
LOAD 'auto_explain'

-- is ddl unsafe_io
ALTER SYSTEM SET work_mem = '1MB'
ALTER SYSTEM RESET ALL
CREATE EXTENSION dblink
CREATE EXTENSION IF NOT EXISTS file_fdw SCHEMA s
CREATE LANGUAGE plpython3u
CREATE TABLESPACE t LOCATION '/mnt'
CREATE SUBSCRIPTION s CONNECTION 'host=x' PUBLICATION p
CREATE SERVER f FOREIGN DATA WRAPPER file_fdw
CREATE USER MAPPING FOR u SERVER f OPTIONS (user 'x')
CREATE FOREIGN DATA WRAPPER w HANDLER h
IMPORT FOREIGN SCHEMA s FROM SERVER f INTO t

-- is ddl; names a
DROP TABLE a
DROP TABLE IF EXISTS a CASCADE
DROP VIEW a
DROP MATERIALIZED VIEW a
DROP INDEX CONCURRENTLY a
DROP SEQUENCE a
DROP SCHEMA a CASCADE
DROP TYPE a
DROP DOMAIN a
DROP FUNCTION a
DROP FUNCTION a(int, text)
DROP PROCEDURE a(int)
DROP AGGREGATE a(int)
DROP FOREIGN TABLE a
DROP EXTENSION a
CREATE TABLE a (x int)
CREATE TABLE a (x int PRIMARY KEY, y text NOT NULL DEFAULT '' CHECK (y <> 'z'), UNIQUE (x, y))
CREATE TABLE IF NOT EXISTS a (x int) PARTITION BY RANGE (x)
CREATE TEMPORARY TABLE a (x int) ON COMMIT DROP
CREATE TABLE a (x int GENERATED ALWAYS AS IDENTITY)
CREATE SEQUENCE a INCREMENT 2
CREATE FOREIGN TABLE a (x int) SERVER f
ALTER TABLE a ADD COLUMN x int
ALTER TABLE a DROP COLUMN x, ALTER COLUMN y TYPE text USING y::text
ALTER TABLE a RENAME TO b
ALTER TABLE a RENAME COLUMN x TO y
ALTER TABLE a OWNER TO u
ALTER TABLE a SET SCHEMA s
ALTER TABLE a ENABLE ROW LEVEL SECURITY
ALTER TABLE a DISABLE TRIGGER ALL
ALTER TABLE a REPLICA IDENTITY FULL
ALTER SEQUENCE a RESTART
ALTER VIEW a SET (security_barrier)
CREATE INDEX i ON a (x)
CREATE UNIQUE INDEX CONCURRENTLY i ON a USING btree (x DESC) WHERE y
CREATE TRIGGER t AFTER INSERT ON a FOR EACH ROW EXECUTE FUNCTION f()
CREATE RULE r AS ON DELETE TO a DO INSTEAD NOTHING
CREATE POLICY p ON a USING (true)
CREATE STATISTICS s ON x, y FROM a
DROP TRIGGER t ON a
GRANT SELECT ON a TO u
GRANT ALL ON TABLE a TO PUBLIC WITH GRANT OPTION
REVOKE INSERT, UPDATE (x) ON a FROM u
COMMENT ON TABLE a IS 'x'
VACUUM a
VACUUM (FULL, ANALYZE) a (x)
ANALYZE a
CLUSTER a USING i
REINDEX TABLE a
DROP RULE r ON a
DROP POLICY p ON a
COMMENT ON COLUMN a.x IS NULL
COMMENT ON VIEW a IS 'x'
CREATE PUBLICATION p FOR TABLE a

-- is ddl; names a b
DROP TABLE a, b
CREATE TABLE a (x int REFERENCES b (x))
CREATE TABLE a (LIKE b INCLUDING ALL)
CREATE TABLE a () INHERITS (b)
CREATE TABLE a PARTITION OF b FOR VALUES FROM (1) TO (2)
ALTER TABLE a ATTACH PARTITION b FOR VALUES IN (1)
ALTER TABLE a ADD FOREIGN KEY (x) REFERENCES b
ALTER TABLE a INHERIT b

-- is ddl; names s.a
DROP TABLE s.a
DROP TYPE s.a
DROP FUNCTION s.a(int)
CREATE TABLE s.a (x int)

-- is ddl read; reads b; names a
CREATE VIEW a AS SELECT * FROM b
CREATE OR REPLACE TEMP VIEW a AS SELECT * FROM b

-- is ddl read; names a
CREATE VIEW a AS VALUES (1)
CREATE RULE r AS ON INSERT TO a DO ALSO SELECT 1

-- is ddl
CREATE SCHEMA s
CREATE SCHEMA IF NOT EXISTS s AUTHORIZATION u
CREATE DATABASE d
CREATE DATABASE d OWNER u ENCODING 'UTF8'
DROP DATABASE d
DROP DATABASE IF EXISTS d WITH (FORCE)
ALTER DATABASE d SET work_mem = '1MB'
CREATE ROLE u LOGIN PASSWORD 'x'
CREATE USER u
ALTER ROLE u SUPERUSER
ALTER ROLE u SET search_path = s
DROP ROLE u
DROP OWNED BY u
REASSIGN OWNED BY u TO v
GRANT u TO v
REVOKE u FROM v
ALTER DEFAULT PRIVILEGES IN SCHEMA s GRANT SELECT ON TABLES TO u
CREATE DOMAIN d AS int CHECK (VALUE > 0)
CREATE TYPE t AS ENUM ('a', 'b')
CREATE TYPE t AS RANGE (subtype = int)
ALTER TYPE t ADD VALUE 'c'
CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'DELETE FROM a'
CREATE OR REPLACE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN END $$
CREATE PROCEDURE p() LANGUAGE sql AS ''
CREATE AGGREGATE g (int) (sfunc = f, stype = int)
CREATE OPERATOR + (leftarg = int, rightarg = int, function = f)
CREATE CAST (int AS text) WITH FUNCTION f (int)
CREATE EVENT TRIGGER t ON ddl_command_start EXECUTE FUNCTION f()
CREATE TEXT SEARCH CONFIGURATION c (COPY = english)
CREATE COLLATION c (locale = 'C')
VACUUM
ANALYZE
CHECKPOINT
ALTER GROUP g ADD USER u
REINDEX DATABASE d

-- is set; incomplete
SET standard_conforming_strings = off
SET standard_conforming_strings TO false
SET standard_conforming_strings = 0
SET "Standard_Conforming_Strings" = 'off'
SET LOCAL standard_conforming_strings = off
SET client_encoding = 'GBK'
SET client_encoding = UTF8, GBK
SET client_encoding TO sjis
SET NAMES 'LATIN1'
SET SESSION backslash_quote = on

-- is read set; incomplete
SET standard_conforming_strings = off; SELECT 1

-- is read write; reads pg_settings; writes pg_settings; incomplete
UPDATE pg_settings SET setting = 'off' WHERE name = 'standard_conforming_strings'
WITH x AS (UPDATE pg_settings SET setting = 'off' RETURNING 1) SELECT 1
EXPLAIN ANALYZE UPDATE pg_settings SET setting = 'off'

-- is read write; reads pg_catalog.pg_settings; writes pg_catalog.pg_settings; incomplete
UPDATE pg_catalog.pg_settings AS a SET setting = 'off'

-- is read; reads pg_settings
SELECT setting FROM pg_settings

-- is ddl set; incomplete
CREATE FUNCTION f() RETURNS int LANGUAGE sql SET client_encoding = 'GBK' AS ''

-- is ddl
ALTER ROLE u SET standard_conforming_strings = off
ALTER ROLE u IN DATABASE d SET client_encoding = 'GBK'
ALTER DATABASE d SET standard_conforming_strings = off
ALTER ROLE ALL RESET ALL

-- is set
SET standard_conforming_strings = on
SET standard_conforming_strings = 'TRUE'
SET standard_conforming_strings FROM CURRENT
SET client_encoding = 'UTF8'
SET client_encoding TO unicode
SET client_encoding TO DEFAULT
SET NAMES 'utf-8'
SET NAMES
RESET client_encoding
RESET standard_conforming_strings
RESET backslash_quote
SET escape_string_warning = off
SET search_path TO s
SET SESSION work_mem = '1MB'
SET LOCAL statement_timeout = 0
SET TIME ZONE 'UTC'
SET NAMES 'UTF8'
SET ROLE u
SET ROLE NONE
RESET ROLE
RESET ALL
RESET search_path
SET SESSION AUTHORIZATION u
RESET SESSION AUTHORIZATION
SET default_transaction_read_only = off
SET TRANSACTION ISOLATION LEVEL SERIALIZABLE
SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY
DISCARD ALL
DISCARD PLANS
DISCARD TEMP
DEALLOCATE ALL

-- is set; frees p
DEALLOCATE p

-- is transaction
BEGIN
START TRANSACTION READ ONLY
BEGIN ISOLATION LEVEL REPEATABLE READ
COMMIT
END
COMMIT AND CHAIN
ROLLBACK
ABORT
ROLLBACK TO SAVEPOINT p
SAVEPOINT p
RELEASE SAVEPOINT p
PREPARE TRANSACTION 'x'
COMMIT PREPARED 'x'
ROLLBACK PREPARED 'x'
SET CONSTRAINTS ALL DEFERRED

-- is read transaction
BEGIN; SELECT 1; COMMIT

-- is notify
LISTEN c
UNLISTEN c
UNLISTEN *
NOTIFY c
NOTIFY c, 'payload'

-- is call; calls p
CALL p()
CALL p(1, 'a')

-- is call read; reads a; calls p
CALL p((SELECT x FROM a))

-- is call; incomplete
DO $$ BEGIN DELETE FROM a; END $$
DO LANGUAGE plpgsql 'BEGIN END'

-- is nothing; executes p
EXECUTE p (1, 2)
-- is read; executes p
EXPLAIN ANALYZE EXECUTE p

-- is write ddl; writes t; executes p
CREATE TABLE t AS EXECUTE p

-- is read; reads a; prepares p
PREPARE p AS SELECT * FROM a

-- is read write; reads a; writes a; prepares p
PREPARE p (int) AS DELETE FROM a WHERE x = $1

-- is read; reads a; prepares p; executes p
PREPARE p AS SELECT * FROM a; EXECUTE p

-- is nothing

;
-- nothing but a comment

-- is nothing; incomplete
SELEC 1
SELECT FROM WHERE
DROP
SELECT 'open
SELECT "open
SELECT 1 /* open
SELECT 1; DROP
\d a
svc_denied_0123456789abcdef0123456789abcdef

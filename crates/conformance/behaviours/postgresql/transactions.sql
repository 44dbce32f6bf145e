-- about: transactions, savepoints, failed ones, prepared ones, isolation, DDL inside
-- bytes: yes
-- tls: yes
CREATE TABLE t (id int PRIMARY KEY, v text);
BEGIN;
INSERT INTO t VALUES (1, 'one'), (2, 'two');
SAVEPOINT s;
INSERT INTO t VALUES (1, 'again');
SELECT 1;
ROLLBACK TO s;
SELECT * FROM t ORDER BY id;
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY;
SELECT count(*) FROM t;
DELETE FROM t;
COMMIT;
BEGIN;
CREATE TABLE u (a int);
ROLLBACK;
SELECT * FROM u;
BEGIN;
UPDATE t SET v = 'zwei' WHERE id = 2;
PREPARE TRANSACTION 'p';
SELECT gid FROM pg_prepared_xacts;
COMMIT PREPARED 'p';
SELECT * FROM t ORDER BY id;
COMMIT;
INSERT INTO t VALUES (3, 'three')\; INSERT INTO t VALUES (1, 'no');
SELECT count(*) FROM t;
DROP TABLE t;

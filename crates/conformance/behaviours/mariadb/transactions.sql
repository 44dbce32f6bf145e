-- about: transactions, savepoints, implicit commits, autocommit off, read-only ones
-- bytes: yes
-- tls: yes
DROP TABLE IF EXISTS t, u;
CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(40)) ENGINE=InnoDB;
START TRANSACTION;
INSERT INTO t VALUES (1, 'one'), (2, 'two');
SAVEPOINT s;
UPDATE t SET v = 'zwei' WHERE id = 2;
ROLLBACK TO s;
SELECT * FROM t ORDER BY id;
COMMIT;
BEGIN;
DELETE FROM t WHERE id = 1;
ROLLBACK;
SELECT COUNT(*) FROM t;
SET autocommit = 0;
INSERT INTO t VALUES (3, 'three');
CREATE TABLE u (a INT);
ROLLBACK;
SELECT * FROM t ORDER BY id;
INSERT INTO t VALUES (4, 'four');
ROLLBACK;
SET autocommit = 1;
START TRANSACTION READ ONLY;
SELECT MAX(id) FROM t;
UPDATE t SET v = 'no' WHERE id = 1;
COMMIT AND CHAIN;
INSERT INTO t VALUES (5, 'five');
COMMIT;
DROP TABLE t, u;
BEGIN;
SELECT 1;
COMMIT RELEASE;

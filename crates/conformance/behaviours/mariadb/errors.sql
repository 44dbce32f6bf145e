-- about: errors in the middle of a transaction
-- bytes: yes
DROP TABLE IF EXISTS t, u;
CREATE TABLE t (id INT PRIMARY KEY) ENGINE=InnoDB;
BEGIN;
INSERT INTO t VALUES (1);
INSERT INTO t VALUES (1);
SELECT nonsense FROM t;
SELEKT 1;
INSERT INTO t VALUES (2);
COMMIT;
SELECT * FROM t;
DROP TABLE t;

-- about: a little of everything; its connection is also cut after every byte
-- bytes: yes
SELECT 1;
BEGIN;
DROP TABLE IF EXISTS c;
CREATE TABLE c (a INT) ENGINE=InnoDB;
BEGIN;
INSERT INTO c VALUES (1);
SELECT a FROM c FOR UPDATE;
COMMIT;
SELECT GET_LOCK('cut', 1);
PREPARE p FROM 'SELECT ? + 1';
SET @a = 41;
EXECUTE p USING @a;
LOCK TABLES c WRITE;
UNLOCK TABLES;
DROP TABLE c;
SELECT RELEASE_LOCK('cut');

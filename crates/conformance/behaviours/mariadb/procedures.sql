-- about: stored procedures with several results, functions, triggers, multi-statement texts
-- bytes: yes
DELIMITER //
CREATE PROCEDURE two(IN n INT) BEGIN SELECT n AS first; SELECT n + 1 AS second, 'x' AS y; END//
CREATE FUNCTION plus(a INT) RETURNS INT DETERMINISTIC RETURN a + 1//
CALL two(5)//
SELECT plus(1)//
CREATE TABLE log (a INT)//
CREATE TABLE src (a INT)//
CREATE TRIGGER tr AFTER INSERT ON src FOR EACH ROW INSERT INTO log VALUES (NEW.a)//
INSERT INTO src VALUES (1), (2)//
SELECT * FROM log; SELECT COUNT(*) FROM src//
DROP PROCEDURE two//
DROP FUNCTION plus//
DROP TABLE src, log//

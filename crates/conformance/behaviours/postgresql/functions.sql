-- about: functions, notices, errors with details, DO blocks that commit
-- bytes: yes
-- tls: yes
CREATE FUNCTION f(n int) RETURNS SETOF int LANGUAGE plpgsql AS $$
BEGIN
  RAISE NOTICE 'n is %', n;
  FOR i IN 1..n LOOP RETURN NEXT i; END LOOP;
  IF n > 3 THEN RAISE EXCEPTION 'too many' USING DETAIL = 'more than three', HINT = 'ask for fewer'; END IF;
END $$;
SELECT * FROM f(2);
SELECT * FROM f(4);
CREATE TABLE ft (a int);
CREATE PROCEDURE pr() LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO ft VALUES (1);
  COMMIT;
  INSERT INTO ft VALUES (2);
  ROLLBACK;
END $$;
CALL pr();
SELECT * FROM ft;
SELECT 1/0;
DROP PROCEDURE pr;
DROP FUNCTION f;
DROP TABLE ft;

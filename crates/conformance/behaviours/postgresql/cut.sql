-- about: a little of everything; its connection is also cut after every byte
-- bytes: yes
SELECT 1;
BEGIN;
CREATE TEMP TABLE c (a int);
COPY c FROM STDIN;
1
2
3
\.
SELECT sum(a) FROM c;
COPY c TO STDOUT;
PREPARE p (int) AS SELECT $1 + 1;
EXECUTE p (41);
COMMIT;
SELECT pg_advisory_lock(99);
LISTEN cut;
SELECT pg_advisory_unlock(99);
DECLARE d CURSOR WITH HOLD FOR SELECT 1;
FETCH d;

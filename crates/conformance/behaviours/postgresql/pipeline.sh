# about: pgbench's pipelines, in the extended and the prepared protocol
# tls: yes
p() { psql -XAtq "$@" 2>&1; }
p -c "CREATE TABLE b (id int PRIMARY KEY, v int)" -c "INSERT INTO b SELECT g, 0 FROM generate_series(1, 10) g"
cat > script.sql <<'S'
\startpipeline
BEGIN;
UPDATE b SET v = v + 1 WHERE id = 1;
SELECT v FROM b WHERE id = 2;
UPDATE b SET v = v + 2 WHERE id = 3;
COMMIT;
SELECT 1;
\endpipeline
S
for mode in extended prepared; do
    pgbench -n -M $mode -c 8 -t 50 -f script.sql postgres 2>&1 | grep -E "processed|failed"
done
p -c "SELECT id, v FROM b WHERE v > 0 ORDER BY id" -c "DROP TABLE b"

# about: pg_dump, loaded again
# tls: yes
p() { psql -XAtq "$@" 2>&1; }
p -c "CREATE TABLE d (id int PRIMARY KEY, v text)" -c "INSERT INTO d SELECT g, md5(g::text) FROM generate_series(1, 5000) g"
pg_dump -t d postgres > dump.sql
grep -v "^--\|^\\\\" dump.sql | md5sum
createdb other
psql -XAtq -d other -f dump.sql > /dev/null
psql -XAtq -d other -c "SELECT md5(string_agg(v, ',' ORDER BY id)) FROM d"
dropdb other
p -c "DROP TABLE d"

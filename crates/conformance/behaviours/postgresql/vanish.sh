# about: clients killed in the middle of transactions and locks leave nothing behind
# tls: yes
p() { psql -XAtq "$@" 2>&1; }
p -c "CREATE TABLE v (id int PRIMARY KEY)"
for i in 1 2 3; do
    mkfifo "in$i"
    psql -XAtq < "in$i" > /dev/null 2>&1 &
    pid=$!
    exec 9> "in$i"
    echo "BEGIN; INSERT INTO v VALUES (1); SELECT pg_advisory_lock(77);" >&9
    until [ "$(p -c "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 77")" = 1 ]; do :; done
    kill -9 $pid
    exec 9>&-
    wait $pid 2> /dev/null || true
    p -c "SELECT pg_advisory_lock(77), pg_advisory_unlock(77)"
done
p -c "INSERT INTO v VALUES (1)" -c "SELECT * FROM v" -c "DROP TABLE v"

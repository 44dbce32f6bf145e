# about: connections by TLS: which version, statements in a row, many connections one after the other, what is no TLS
# tls: only
p() { psql -XAtq "$@" 2>&1; }
p -c "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
for version in TLSv1.2 TLSv1.3; do
    PGOPTIONS="" p "sslmode=require ssl_min_protocol_version=$version ssl_max_protocol_version=$version" -c "SELECT version FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
done
p -c "CREATE TABLE e (a int)"
for i in $(seq 15); do p -c "BEGIN; INSERT INTO e VALUES ($i); COMMIT"; done
(for i in $(seq 200); do echo "INSERT INTO e VALUES ($i);"; done) | p
p -c "SELECT count(*), sum(a) FROM e" -c "DROP TABLE e"
# A request for TLS that is answered, and no TLS after it.
(printf '\0\0\0\10\4\322\26\57'; sleep 0.2; printf 'nonsense'; sleep 0.2) | timeout 5 bash -c 'exec 3<>"/dev/tcp/$HOST/$PORT"; cat >&3; head -c 1 <&3' || true
echo

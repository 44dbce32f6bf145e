# about: connections by TLS: which version, statements in a row, many connections one after the other, changes of user
# tls: only
m() { mariadb --no-defaults --protocol=tcp -h"$HOST" -P"$PORT" -uapp $TLS rig -N "$@" 2>&1; }
for version in TLSv1.2 TLSv1.3; do
    m --tls-version=$version -e "SHOW STATUS LIKE 'Ssl_version'; SELECT VARIABLE_VALUE <> '' FROM information_schema.SESSION_STATUS WHERE VARIABLE_NAME = 'Ssl_cipher'"
done
m -e "CREATE TABLE e (a INT) ENGINE=InnoDB"
for i in $(seq 15); do m -e "BEGIN; INSERT INTO e VALUES ($i); COMMIT"; done
(for i in $(seq 200); do echo "INSERT INTO e VALUES ($i);"; done) | m
m -e "SELECT COUNT(*), SUM(a) FROM e; DROP TABLE e"
# Not MariaDB's protocol: an answer of some kind, and the end.
(printf 'GET / HTTP/1.1\r\n\r\n'; sleep 0.3) | timeout 20 bash -c 'exec 3<>"/dev/tcp/$HOST/$PORT"; cat >&3; cat <&3 > /dev/null; echo ended'

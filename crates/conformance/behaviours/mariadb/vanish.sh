# about: clients killed in the middle of transactions and locks leave nothing behind
# tls: yes
m() { mariadb --no-defaults --protocol=tcp -h"$HOST" -P"$PORT" -uapp $TLS rig -N "$@" 2>&1; }
m -e "CREATE TABLE v (id INT PRIMARY KEY) ENGINE=InnoDB"
for i in 1 2 3; do
    mkfifo "in$i"
    mariadb --no-defaults --protocol=tcp -h"$HOST" -P"$PORT" -uapp $TLS rig < "in$i" > /dev/null 2>&1 &
    pid=$!
    exec 9> "in$i"
    echo "BEGIN; INSERT INTO v VALUES (1); SELECT GET_LOCK('v', 5);" >&9
    until [ "$(m -e "SELECT IS_USED_LOCK('v') IS NOT NULL")" = 1 ]; do :; done
    kill -9 $pid
    exec 9>&-
    wait $pid 2> /dev/null || true
    m -e "SELECT GET_LOCK('v', 20), RELEASE_LOCK('v')"
done
m -e "INSERT INTO v VALUES (1); SELECT * FROM v; DROP TABLE v"

# about: KILL QUERY, KILL CONNECTION and a client that is interrupted
# tls: yes
m() { mariadb --no-defaults --protocol=tcp -h"$HOST" -P"$PORT" -uapp $TLS rig -N "$@" 2>&1; }
victim() { m -e "SELECT ID FROM information_schema.PROCESSLIST WHERE INFO LIKE 'SELECT SLEEP(100$1)%' AND ID <> CONNECTION_ID()"; }
find() { local id=""; while [ -z "$id" ]; do id=$(victim "$1"); done; echo "$id"; }
m -e "SELECT SLEEP(1001)" > one.txt &
m -e "KILL QUERY $(find 1)"
wait $! || true
cat one.txt
m -e "SELECT SLEEP(1002)" > two.txt &
m -e "KILL CONNECTION $(find 2)"
wait $! || true
sed 's/at line.*//' two.txt
timeout -s INT 2 mariadb --no-defaults --protocol=tcp -h"$HOST" -P"$PORT" -uapp $TLS rig -e "SELECT SLEEP(1003)" > three.txt 2>&1 || true
grep -o "Query execution was interrupted" three.txt | head -1
m -e "SELECT 'still there'"

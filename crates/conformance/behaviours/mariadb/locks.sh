# about: GET_LOCK, LOCK TABLES and row locks between sessions, each waiting for the other's end
# tls: yes
m() { mariadb --no-defaults --protocol=tcp -h"$HOST" -P"$PORT" -uapp $TLS rig -N "$@" 2>&1; }
m -e "CREATE TABLE l (id INT PRIMARY KEY, v INT) ENGINE=InnoDB; INSERT INTO l VALUES (1, 0)"
(echo "SELECT 'a', GET_LOCK('x', 10);"; sleep 0.5; echo "SELECT 'a', RELEASE_LOCK('x');") | m > a.txt &
sleep 0.2
m -e "SELECT 'b', GET_LOCK('x', 10), RELEASE_LOCK('x')" > b.txt
wait
cat a.txt b.txt
(echo "LOCK TABLES l WRITE; UPDATE l SET v = v + 1;"; sleep 0.5; echo "UNLOCK TABLES;") | m &
sleep 0.2
m -e "SELECT v FROM l"
wait
(echo "BEGIN; UPDATE l SET v = v + 10 WHERE id = 1;"; sleep 0.5; echo "COMMIT;") | m &
sleep 0.2
m -e "BEGIN; SELECT v FROM l WHERE id = 1 FOR UPDATE; UPDATE l SET v = v + 100 WHERE id = 1; COMMIT; SELECT v FROM l"
wait
m -e "SET innodb_lock_wait_timeout = 1; FLUSH TABLES WITH READ LOCK; SELECT 1; UNLOCK TABLES; DROP TABLE l"

# about: twenty clients at once add to one row
# tls: yes
m() { mariadb --no-defaults --protocol=tcp -h"$HOST" -P"$PORT" -uapp $TLS rig -N "$@" 2>&1; }
m -e "CREATE TABLE w (id INT PRIMARY KEY, v INT) ENGINE=InnoDB; INSERT INTO w VALUES (1, 0)"
for i in $(seq 20); do
    (for j in $(seq 10); do echo "BEGIN; UPDATE w SET v = v + 1 WHERE id = 1; COMMIT;"; done) | m &
done
wait
m -e "SELECT v FROM w; DROP TABLE w"

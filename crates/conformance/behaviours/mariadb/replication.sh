# about: the binary log read as a replica reads it, while writes go on
m() { mariadb --no-defaults --protocol=tcp -h"$HOST" -P"$PORT" -uapp rig -N "$@" 2>&1; }
m -e "RESET MASTER; CREATE TABLE r (id INT PRIMARY KEY, v TEXT) ENGINE=InnoDB"
mariadb-binlog --no-defaults --protocol=tcp -h"$HOST" -P"$PORT" -uapp --read-from-remote-server --stop-never --stop-never-slave-server-id=77 --verbose --base64-output=decode-rows log.000001 > stream.txt 2> errors.txt &
reader=$!
for i in $(seq 20); do m -e "INSERT INTO r VALUES ($i, 'v$i'); UPDATE r SET v = 'w$i' WHERE id = $i"; done
m -e "INSERT INTO r VALUES (1000, 'last')"
until grep -q "@1=1000" stream.txt; do sleep 0.02; kill -0 $reader 2> /dev/null || { cat errors.txt; exit 1; }; done
kill $reader
wait $reader 2> /dev/null || true
grep "^###" stream.txt | md5sum
m -e "DROP TABLE r"

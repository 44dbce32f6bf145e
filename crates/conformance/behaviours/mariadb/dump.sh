# about: mariadb-dump in one transaction, loaded again
# tls: yes
m() { mariadb --no-defaults --protocol=tcp -h"$HOST" -P"$PORT" -uapp $TLS -N "$@" 2>&1; }
m rig -e "CREATE TABLE d (id INT PRIMARY KEY, v TEXT) ENGINE=InnoDB; INSERT INTO d SELECT seq, MD5(seq) FROM seq_1_to_5000"
mariadb-dump --no-defaults --protocol=tcp -h"$HOST" -P"$PORT" -uapp $TLS --single-transaction --skip-dump-date --skip-comments rig d > dump.sql
md5sum < dump.sql
m -e "CREATE DATABASE other"
m other < dump.sql
m other -e "CHECKSUM TABLE rig.d, other.d; DROP DATABASE other; DROP TABLE rig.d"

# about: a statement of 18 MB (more than one packet), and LOAD DATA LOCAL of 20 MB
# tls: yes
m() { mariadb --no-defaults --protocol=tcp --local-infile=1 --max-allowed-packet=64M -h"$HOST" -P"$PORT" -uapp $TLS rig -N "$@" 2>&1; }
m -e "CREATE TABLE u (id INT, v LONGTEXT) ENGINE=InnoDB"
(printf "INSERT INTO u VALUES (1, '"; head -c 18000000 /dev/zero | tr '\0' 'z'; printf "');") | m
seq 1 400000 | awk '{print $1 "\trow " $1 " of a bulk load, with some text"}' > rows.txt
m -e "LOAD DATA LOCAL INFILE 'rows.txt' INTO TABLE u; SELECT COUNT(*), SUM(id), MAX(LENGTH(v)) FROM u"
m -e "LOAD DATA LOCAL INFILE 'none.txt' INTO TABLE u" || true
m -e "SELECT COUNT(*) FROM u; DROP TABLE u"

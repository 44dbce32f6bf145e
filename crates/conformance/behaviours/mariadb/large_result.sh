# about: a result of 40 MB, buffered by the client or not
# tls: yes
m() { mariadb --no-defaults --protocol=tcp -h"$HOST" -P"$PORT" -uapp $TLS rig -N "$@" 2>&1; }
m -e "SELECT seq, REPEAT(MD5(seq), 6) FROM seq_1_to_200000" | md5sum
m --quick -e "SELECT seq, REPEAT(MD5(seq), 6) FROM seq_1_to_200000" | md5sum
m -e "SELECT LENGTH(REPEAT('x', 20000000)), REPEAT('y', 17000000)" | md5sum

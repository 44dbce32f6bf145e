# about: COPY FROM STDIN of 20 MB, one that fails, one that the client breaks off, and a statement of 18 MB
# tls: yes
p() { psql -XAtq "$@" 2>&1; }
p -c "CREATE TABLE u (id int, v text)"
seq 1 400000 | awk '{print $1 "\trow " $1 " of a bulk load, with some text"}' > rows.txt
p -c "\\copy u FROM rows.txt"
p -c "SELECT count(*), sum(id) FROM u"
(head -1000 rows.txt; echo "no number") | p -c "COPY u FROM STDIN" || true
(echo "COPY u FROM STDIN;"; head -100000 rows.txt) | timeout -s KILL 5 psql -XAtq -f - > /dev/null 2>&1 || true
p -c "SELECT count(*) > 399999 FROM u"
(printf "SELECT length('"; head -c 18000000 /dev/zero | tr '\0' 'z'; printf "');") | p
p -c "DROP TABLE u"

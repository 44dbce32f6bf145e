# about: twenty clients at once add to one row
# tls: yes
p() { psql -XAtq "$@" 2>&1; }
p -c "CREATE TABLE w (id int PRIMARY KEY, v int); INSERT INTO w VALUES (1, 0)"
for i in $(seq 20); do
    (for j in $(seq 10); do echo "BEGIN; UPDATE w SET v = v + 1 WHERE id = 1; COMMIT;"; done) | p &
done
wait
p -c "SELECT v FROM w" -c "DROP TABLE w"

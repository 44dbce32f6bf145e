# about: advisory locks, LOCK TABLE and row locks between sessions, and a deadlock
# tls: yes
p() { psql -XAtq "$@" 2>&1; }
p -c "CREATE TABLE l (id int PRIMARY KEY, v int); INSERT INTO l VALUES (1, 0), (2, 0)"
(echo "SELECT 'a', pg_advisory_lock(5);"; sleep 0.5; echo "SELECT 'a', pg_advisory_unlock(5);") | p > a.txt &
sleep 0.2
p -c "SELECT 'b', pg_advisory_lock(5)" > b.txt
wait
cat a.txt b.txt
(echo "BEGIN; LOCK TABLE l; UPDATE l SET v = v + 1;"; sleep 0.5; echo "COMMIT;") | p &
sleep 0.2
p -c "SELECT v FROM l WHERE id = 1"
wait
(echo "BEGIN; UPDATE l SET v = v + 10 WHERE id = 1;"; sleep 0.5; echo "COMMIT;") | p &
sleep 0.2
p -c "BEGIN; SELECT v FROM l WHERE id = 1 FOR UPDATE; UPDATE l SET v = v + 100 WHERE id = 1; COMMIT; SELECT v FROM l WHERE id = 1"
wait
(echo "BEGIN; UPDATE l SET v = 0 WHERE id = 1;"; sleep 0.3; echo "UPDATE l SET v = 0 WHERE id = 2; COMMIT;") | p > one.txt &
(sleep 0.1; echo "BEGIN; UPDATE l SET v = 0 WHERE id = 2;"; sleep 0.3; echo "UPDATE l SET v = 0 WHERE id = 1; COMMIT;") | p > two.txt &
wait
cat one.txt two.txt | grep -c "deadlock detected"
p -c "DROP TABLE l"

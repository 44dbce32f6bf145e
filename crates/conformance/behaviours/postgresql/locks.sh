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
# Each updates its second row when the other one has updated its first.
rm -f one two
both() {
	printf '%s\n' "BEGIN; UPDATE l SET v = 0 WHERE id = $1;" \
		"\\! touch $3; until [ -e $4 ]; do sleep 0.05; done" "UPDATE l SET v = 0 WHERE id = $2; COMMIT;" | p
}
both 1 2 one two > one.txt &
both 2 1 two one > two.txt &
wait
cat one.txt two.txt | grep -c "deadlock detected"
p -c "DROP TABLE l"

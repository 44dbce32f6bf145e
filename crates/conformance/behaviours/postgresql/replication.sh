# about: base backup, the log streamed by pg_receivewal, and logical decoding, while writes go on
p() { psql -XAtq "$@" 2>&1; }
p -c "CREATE TABLE r (id int PRIMARY KEY, v text)"
p -c "SELECT slot_name FROM pg_create_logical_replication_slot('conf', 'test_decoding')"
pg_recvlogical -d postgres --slot conf --start -f stream.txt 2> /dev/null &
reader=$!
pg_basebackup -D backup -X stream --checkpoint=fast --no-sync 2>&1
test -s backup/PG_VERSION && echo "a backup"
mkdir wal
pg_receivewal -D wal --no-sync 2> /dev/null &
receiver=$!
for i in $(seq 20); do p -c "INSERT INTO r VALUES ($i, 'v$i')" -c "UPDATE r SET v = 'w$i' WHERE id = $i"; done
until grep -q "w20" stream.txt; do sleep 0.05; kill -HUP $reader; done
until ls wal/*.partial > /dev/null 2>&1; do sleep 0.05; done
kill -INT $reader $receiver
wait $reader $receiver 2> /dev/null || true
grep "^table public.r" stream.txt | md5sum
until p -c "SELECT pg_drop_replication_slot('conf')" | grep -qv ERROR; do sleep 0.05; done
p -c "DROP TABLE r"

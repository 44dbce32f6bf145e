# about: a replica that joins while writes go on, catches up, and is promoted; redis-cli --rdb
r() { redis-cli -p "$PORT" "$@" 2>&1; }
s() { redis-cli -s "$PWD/replica.sock" "$@" 2>&1; }
r CONFIG SET repl-diskless-sync-delay 0
r EVAL "for i = 1, 50000 do redis.call('SET', 'key' .. i, string.rep('x', 50)) end return 1" 0
redis-server --port 0 --unixsocket "$PWD/replica.sock" --save "" --dir "$PWD" --replicaof "$HOST" "$PORT" > replica.log 2>&1 &
replica=$!
for i in $(seq 300); do echo "INCR counter"; echo "RPUSH list $i"; done | r > /dev/null
until s ROLE 2> /dev/null | grep -q connected; do sleep 0.05; done
printf 'MULTI\nSET a 1\nSET b 2\nEXEC\nEVAL "return redis.call(%s, KEYS[1], 5)" 1 scripted\n' "'SET'" | r
r WAIT 1 5000
r SET last value
until [ "$(s GET last)" = value ]; do sleep 0.02; done
for side in r s; do $side DBSIZE; $side GET counter; $side LRANGE list 0 -1 | md5sum; $side MGET a b scripted; done
s SET refused 1
s REPLICAOF NO ONE
s SET accepted 1
kill $replica
wait $replica 2> /dev/null || true
r --rdb dump.rdb > /dev/null
head -c 5 dump.rdb
echo
r FLUSHALL
until [ "$(r INFO replication | tr -d '\r' | grep connected_slaves)" = connected_slaves:0 ]; do sleep 0.02; done

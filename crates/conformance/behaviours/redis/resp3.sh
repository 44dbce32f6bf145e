# about: RESP3: maps, sets, doubles, nulls, pushes to one who tracks keys, pipelines, back to RESP2
r() { redis-cli -3 -p "$PORT" "$@" 2>&1; }
c() { printf '*%d\r\n' $#; for word; do printf '$%d\r\n%s\r\n' ${#word} "$word"; done; }
r HSET h a 1 b 2
r HGETALL h
r SADD s a b c
r SMEMBERS s | sort
r ZADD z 1.5 one
r ZSCORE z one
r GET none
r XADD x 1-1 f v
r XREAD STREAMS x 0
r CONFIG GET maxmemory
r EVAL "redis.setresp(3); return redis.call('HGETALL', 'h')" 0
exec 3<>"/dev/tcp/$HOST/$PORT"
(c HELLO 3; c CLIENT TRACKING ON; c GET tracked; for i in $(seq 500); do c HGETALL h; c ZSCORE z one; c GET none; done) >&3
sleep 0.2
redis-cli -p "$PORT" SET tracked 1
(c PING; c SUBSCRIBE news; c GET h; c PUBLISH news hello; c UNSUBSCRIBE news; c HELLO 2; c GET none; c HGETALL h; c QUIT) >&3
# The number of the connection is the server's own.
tr -d '\r' <&3 | awk '/^id$/ { getline; next } { print }' > out.txt
exec 3>&-
grep -c invalidate out.txt
md5sum < out.txt
redis-cli -p "$DIRECT" FLUSHDB

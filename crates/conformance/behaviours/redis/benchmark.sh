# about: redis-benchmark with 100 connections, pipelined or not, by one thread or two, does all that it was asked to
r() { redis-cli -p "$PORT" "$@" 2>&1; }
b() { redis-benchmark -h "$HOST" -p "$PORT" -q "$@" > /dev/null 2>&1 || echo failed; }
b -n 5000 -c 100 INCR single
b -n 50000 -c 100 -P 16 INCR piped
b -n 30000 -c 100 -P 16 --threads 2 INCR threaded
b -n 20000 -c 100 -P 50 LPUSH list element
b -n 1000 -c 20 -d 50000 -t set,get
b -n 2000 -c 50 -P 4 EVAL "return redis.call('INCR', KEYS[1])" 1 scripted
b -n 10000 -c 50 -P 16 -3 INCR three
r MGET single piped threaded scripted three
r LLEN list
r STRLEN key:__rand_int__
r FLUSHDB

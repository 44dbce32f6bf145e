# about: values of 30 MB up and down, lists of 100,000 elements, a slow reader
# tls: yes
r() { redis-cli -p "$PORT" $TLS "$@" 2>&1; }
head -c 30000000 /dev/zero | tr '\0' v > value
r -x SET large < value
r STRLEN large
r GET large | md5sum
r APPEND large "$(head -c 100000 value)"
r GETRANGE large 29999990 30000010
r EVAL "for i = 1, 100000 do redis.call('RPUSH', KEYS[1], 'element ' .. i) end return redis.call('LLEN', KEYS[1])" 1 list
r LRANGE list 0 -1 | md5sum
(r GET large | (sleep 1; md5sum)) &
r GET large | md5sum
wait
(printf 'MULTI\nGET large\nLRANGE list 0 -1\nEXEC\n') | r | md5sum
r DEL large list

# about: BLPOP, BLMOVE, BZPOPMIN, XREAD BLOCK and WAIT: those who wait are served in order, also inside transactions
# tls: yes
r() { redis-cli -p "$PORT" $TLS "$@" 2>&1; }
blocked() { until [ "$(redis-cli -p "$PORT" $TLS INFO clients | tr -d '\r' | grep blocked_clients)" = "blocked_clients:$1" ]; do sleep 0.01; done; }
r BLPOP none 0.1
for i in 1 2 3; do
    r BLPOP queue other 20 > "got$i.txt" &
    blocked "$i"
done
r RPUSH queue one two
blocked 1
r RPUSH other three
wait
cat got1.txt got2.txt got3.txt
r BLMOVE from to LEFT RIGHT 20 > move.txt &
blocked 1
r RPUSH from x
wait
cat move.txt
r LRANGE to 0 -1
r BZPOPMIN z 20 > z.txt &
blocked 1
r ZADD z 3 three 1 one
wait
cat z.txt
r XREAD BLOCK 20000 STREAMS x '$' > x.txt &
blocked 1
r XADD x 5-1 f v
wait
cat x.txt
r BLPOP pushed 20 > m.txt &
blocked 1
printf 'MULTI\nRPUSH pushed a\nRPUSH pushed b\nDEL pushed\nRPUSH pushed c\nBLPOP pushed 5\nEXEC\n' | r
r RPUSH pushed last
wait
cat m.txt
r BLPOP gone 20 > unblocked.txt &
blocked 1
r CLIENT UNBLOCK "$(redis-cli -p "$PORT" $TLS CLIENT LIST | grep cmd=blpop | grep -o '^id=[0-9]*' | cut -d= -f2)" ERROR
wait
cat unblocked.txt
r WAIT 0 10
r WAIT 1 50
r FLUSHDB

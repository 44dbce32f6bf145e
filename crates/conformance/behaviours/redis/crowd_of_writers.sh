# about: twenty clients at once add to one key, by INCR, transactions and scripts, and give each other work
r() { redis-cli -p "$PORT" "$@" 2>&1; }
for i in $(seq 20); do
    (for j in $(seq 20); do printf 'INCR w\nMULTI\nINCR w\nINCR w\nEXEC\nEVAL "return redis.call([[INCR]], KEYS[1])" 1 w\nRPUSH work x\n'; done) | r > /dev/null &
done
for i in $(seq 10); do
    (for j in $(seq 40); do echo "BLPOP work 20"; done) | r > "taken$i.txt" &
done
wait
r GET w
cat taken*.txt | grep -c '^x$'
r LLEN work
r DEL w

# about: clients killed inside transactions, watches, blocking and half-sent commands, and CLIENT KILL, leave nothing behind
# tls: yes
r() { redis-cli -p "$PORT" $TLS "$@" 2>&1; }
r SET v 0
for last in "MULTI\nINCR v" "WATCH v\nMULTI\nINCR v" "BLPOP none 0" "SUBSCRIBE none" "MONITOR"; do
    mkfifo in
    redis-cli -p "$PORT" $TLS < in > out.txt 2>&1 &
    pid=$!
    exec 9> in
    printf 'CLIENT SETNAME victim\n%b\n' "$last" >&9
    until r CLIENT LIST | grep -q "name=victim.*cmd=\(incr\|multi\|blpop\|subscribe\|monitor\)"; do sleep 0.01; done
    kill -9 $pid
    exec 9>&-
    wait $pid 2> /dev/null || true
    while r CLIENT LIST | grep -q name=victim; do sleep 0.01; done
    rm in
    r INCR v
done
mkfifo in
redis-cli -p "$PORT" $TLS < in > out.txt 2>&1 &
exec 9> in
printf 'CLIENT SETNAME victim\nMULTI\nINCR v\n' >&9
until r CLIENT LIST | grep -q "name=victim.*cmd=\(incr\|multi\)"; do sleep 0.01; done
r CLIENT KILL ID "$(r CLIENT LIST | grep name=victim | grep -o '^id=[0-9]*' | cut -d= -f2)"
exec 9>&-
wait
r GET v
r CLIENT KILL ID 999999999
r DEL v

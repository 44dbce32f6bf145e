# about: connections by TLS of several versions, and what is no TLS
# tls: only
r() { redis-cli -p "$PORT" $TLS "$@" 2>&1; }
r PING
for version in -tls1_2 -tls1_3; do
    (printf 'PING\r\nSET e 1\r\nMULTI\r\nINCR e\r\nEXEC\r\nQUIT\r\n'; sleep 0.5) | openssl s_client -connect "$HOST:$PORT" $version -quiet 2> /dev/null | tr -d '\r'
done
# Not the server's protocol: refused, without an answer that could be read.
(printf 'PING\r\n'; sleep 0.3) | timeout 5 bash -c 'exec 3<>"/dev/tcp/$HOST/$PORT"; cat >&3; cat <&3 | wc -c' || true
for i in $(seq 20); do r INCR e & done > /dev/null
wait
r GET e
r DEL e

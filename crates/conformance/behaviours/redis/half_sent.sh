# about: connections that end in the middle of a command, or while a large answer is on its way
c() { printf '*%d\r\n' $#; for word; do printf '$%d\r\n%s\r\n' ${#word} "$word"; done; }
r() { redis-cli -p "$PORT" "$@" 2>&1; }
head -c 5000000 /dev/zero | tr '\0' v | r -x SET large
for part in '*' '*3\r\n' '*3\r\n$3\r\nSET\r\n' '*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1000\r\nabc' '*1\r\n$5\r\nMULTI\r\n*2\r\n$4\r\nINCR\r\n$1'; do
    exec 3<>"/dev/tcp/$HOST/$PORT"
    # shellcheck disable=SC2059
    printf "$part" >&3
    sleep 0.05
    exec 3>&-
    r EXISTS k
done
for i in 1 2 3; do
    exec 3<>"/dev/tcp/$HOST/$PORT"
    (for j in $(seq 10); do c GET large; done) >&3
    head -c 100 <&3 > /dev/null
    exec 3>&-
    r PING
done
# Nothing more is sent, but all is read that was asked for.
exec 3<>"/dev/tcp/$HOST/$PORT"
(c SET half 1; c GET half; c QUIT) >&3
tr -d '\r' <&3
exec 3>&-
r DEL large half

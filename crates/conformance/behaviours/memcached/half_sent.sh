# about: connections that end in the middle of a command, a value or a large answer
talk() { cat > sent; exec 3<>"/dev/tcp/$HOST/$PORT"; cat sent >&3; tr -d '\r' <&3; exec 3>&-; }
lines() { sed "s,$,\r,"; }
head -c 5000000 /dev/zero | tr '\0' v > value
(printf 'set large 0 0 5000000\r\n'; cat value; printf '\r\nquit\r\n') | talk
for part in 'g' 'get ' 'get k' 'set k 0 0 1000\r\n' 'set k 0 0 1000\r\nabc' 'set k 0 0 3\r\nabc' 'ms k 5\r\nab' 'set k 0 0 5\r\nabc\r\nquit\r\n' 'version\r\nquit\r\nset k 0 0 1\r\nx\r\n'; do
    exec 3<>"/dev/tcp/$HOST/$PORT"
    # shellcheck disable=SC2059
    printf "$part" >&3
    sleep 0.05
    exec 3>&-
    printf 'get k\r\nquit\r\n' | talk
done
for i in 1 2 3; do
    exec 3<>"/dev/tcp/$HOST/$PORT"
    (for j in $(seq 10); do printf 'get large\r\n'; done) >&3
    head -c 100 <&3 > /dev/null
    exec 3>&-
    printf 'get none\r\nquit\r\n' | talk
done
printf 'delete large\r\nquit\r\n' | talk

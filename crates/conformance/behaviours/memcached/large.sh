# about: values of 10 MB up and down, one that is too large, a slow reader
talk() { cat > sent; exec 3<>"/dev/tcp/$HOST/$PORT"; cat sent >&3; tr -d '\r' <&3; exec 3>&-; }
lines() { sed "s,$,\r,"; }
head -c 10000000 /dev/zero | tr '\0' v > value
(printf 'set large 0 0 10000000\r\n'; cat value; printf '\r\nget large\r\nget large\r\nquit\r\n') | talk | md5sum
(printf 'append large 0 0 100\r\n'; head -c 100 value; printf '\r\nget large\r\nquit\r\n') | talk | md5sum
(printf 'set huge 0 0 20000000\r\n'; cat value value; printf '\r\nget huge\r\nquit\r\n') | talk
exec 3<>"/dev/tcp/$HOST/$PORT"
(for i in $(seq 5); do printf 'get large\r\n'; done; printf 'quit\r\n') >&3
sleep 1
md5sum <&3
exec 3>&-
printf 'delete large\r\nquit\r\n' | talk

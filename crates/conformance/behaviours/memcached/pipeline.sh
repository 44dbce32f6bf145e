# about: thousands of commands sent at once, also in pieces that end anywhere
# bytes: yes
talk() { cat > sent; exec 3<>"/dev/tcp/$HOST/$PORT"; cat sent >&3; tr -d '\r' <&3; exec 3>&-; }
lines() { sed "s,$,\r,"; }
(for i in $(seq 3000); do printf 'set p%d 0 0 %d\r\n%d\r\nget p%d\r\nincr p%d 1\r\n' "$i" "${#i}" "$i" "$i" "$i"; done; printf 'quit\r\n') | talk | md5sum
(for i in $(seq 2000); do printf 'incr none 1\r\nmn\r\nmg p%d v\r\nnonsense\r\n' "$i"; done; printf 'quit\r\n') | talk | md5sum
exec 3<>"/dev/tcp/$HOST/$PORT"
for piece in 'se' 't piece 0 0 1' '1\r' '\nhello' ' world' '\r' '\nget pie' 'ce\r\n' 'quit\r\n'; do
    # shellcheck disable=SC2059
    printf "$piece" >&3
    sleep 0.03
done
tr -d '\r' <&3
exec 3>&-

# about: get and gets of hundreds of keys, with some that are not there
# tls: yes
# bytes: yes
talk() {
    cat > sent
    if [ -n "$TLS" ]; then openssl s_client $TLS -connect "$HOST:$PORT" < sent 2> /dev/null | tr -d '\r'; return; fi
    exec 3<>"/dev/tcp/$HOST/$PORT"; cat sent >&3; tr -d '\r' <&3; exec 3>&-
}
lines() { sed "s,$,\r,"; }
(for i in $(seq 400); do printf 'set m%d %d 0 %d\r\n%d\r\n' "$i" "$i" "${#i}" "$i"; done; printf 'quit\r\n') | talk | sort | uniq -c
(printf 'get'; for i in $(seq 0 3 600); do printf ' m%d' "$i"; done; printf '\r\nquit\r\n') | talk | md5sum
(for i in $(seq 50); do printf 'get'; for j in $(seq 24); do printf ' m%d' $((i * j)); done; printf '\r\n'; done; printf 'quit\r\n') | talk | md5sum
(printf 'get'; for i in $(seq 100); do printf ' m1'; done; printf '\r\nquit\r\n') | talk | sort | uniq -c

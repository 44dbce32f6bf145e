# about: incr and decr: wrapping, below zero, no numbers
# tls: yes
# bytes: yes
talk() {
    cat > sent
    if [ -n "$TLS" ]; then openssl s_client $TLS -connect "$HOST:$PORT" < sent 2> /dev/null | tr -d '\r'; return; fi
    exec 3<>"/dev/tcp/$HOST/$PORT"; cat sent >&3; tr -d '\r' <&3; exec 3>&-
}
lines() { sed "s,$,\r,"; }
lines <<"S" | talk
set n 0 0 2
10
incr n 5
decr n 20
incr n 18446744073709551615
incr n 2
incr none 1
set t 0 0 4
text
incr t 1
incr n x
incr n
set w 0 0 20
18446744073709551615
incr w 1
decr w 1
get n t w
delete n
delete t
delete w
quit
S

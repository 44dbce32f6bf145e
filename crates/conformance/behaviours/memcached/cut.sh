# about: a little of everything; its connection is also cut after every byte
# tls: yes
# bytes: yes
talk() {
    cat > sent
    if [ -n "$TLS" ]; then openssl s_client $TLS -connect "$HOST:$PORT" < sent 2> /dev/null | tr -d '\r'; return; fi
    exec 3<>"/dev/tcp/$HOST/$PORT"; cat sent >&3; tr -d '\r' <&3; exec 3>&-
}
lines() { sed "s,$,\r,"; }
lines <<"S" | talk
set c 0 0 2
10
get c
incr c 5
add c 0 0 1 noreply
x
mg c v
ms c 2
99
mn
gat 0 c
delete c
version
quit
S

# about: noreply on every command that has it, and its errors
# tls: yes
# bytes: yes
talk() {
    cat > sent
    if [ -n "$TLS" ]; then openssl s_client $TLS -connect "$HOST:$PORT" < sent 2> /dev/null | tr -d '\r'; return; fi
    exec 3<>"/dev/tcp/$HOST/$PORT"; cat sent >&3; tr -d '\r' <&3; exec 3>&-
}
lines() { sed "s,$,\r,"; }
lines <<"S" | talk
set q 0 0 1 noreply
1
add q 0 0 1 noreply
2
incr q 5 noreply
append q 0 0 1 noreply
0
get q
decr q 1 noreply
touch q 0 noreply
get q
replace q 0 0 2 noreply
77
get q
delete q noreply
delete q noreply
get q
incr q 1 noreply
verbosity 1 noreply
get q
quit
S
(for i in $(seq 5000); do printf 'set q%d 0 0 %d noreply\r\n%d\r\n' "$i" "${#i}" "$i"; done; printf 'get q1 q2500 q5000 q5001\r\nquit\r\n') | talk

# about: set, add, replace, append, prepend, delete, touch, flags and expiry
# tls: yes
# bytes: yes
talk() {
    cat > sent
    if [ -n "$TLS" ]; then openssl s_client $TLS -connect "$HOST:$PORT" < sent 2> /dev/null | tr -d '\r'; return; fi
    exec 3<>"/dev/tcp/$HOST/$PORT"; cat sent >&3; tr -d '\r' <&3; exec 3>&-
}
lines() { sed "s,$,\r,"; }
lines <<"S" | talk
flush_all
set k 5 0 3
abc
get k
add k 0 0 1
x
add n 0 0 3
new
replace k 7 0 5
hello
replace none 0 0 1
x
append k 0 0 3
END
prepend k 0 0 3
BEG
get k n none
touch k 100
touch none 100
gat 100 k
set gone 0 -1 1
x
get gone
delete k
delete k
get k
set empty 0 0 0

get empty
set k 0 0 1
1
quit
S

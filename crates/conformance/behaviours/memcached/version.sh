# about: version, verbosity, misbehave, flush_all with a delay, cache_memlimit, shutdown refused, quit
# tls: yes
# bytes: yes
talk() {
    cat > sent
    if [ -n "$TLS" ]; then openssl s_client $TLS -connect "$HOST:$PORT" < sent 2> /dev/null | tr -d '\r'; return; fi
    exec 3<>"/dev/tcp/$HOST/$PORT"; cat sent >&3; tr -d '\r' <&3; exec 3>&-
}
lines() { sed "s,$,\r,"; }
lines <<"S" | talk
version
verbosity 0
set f 0 0 1
x
flush_all
get f
set f 0 0 1
y
flush_all 100
get f
flush_all 0 noreply
get f
flush_all nonsense
shutdown
cache_memlimit 256
lru tune
lru_crawler enable
quit
S

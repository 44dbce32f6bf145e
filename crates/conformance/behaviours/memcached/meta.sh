# about: meta commands: mg, ms, md, ma, mn, with flags, opaque, quiet, base64 keys
# tls: yes
# bytes: yes
talk() {
    cat > sent
    if [ -n "$TLS" ]; then openssl s_client $TLS -connect "$HOST:$PORT" < sent 2> /dev/null | tr -d '\r'; return; fi
    exec 3<>"/dev/tcp/$HOST/$PORT"; cat sent >&3; tr -d '\r' <&3; exec 3>&-
}
lines() { sed "s,$,\r,"; }
lines <<"S" | talk
ms m 5 T0 F30
hello
mg m v
mg m v f s k Oopaque
mg m
mg none v
mg none v q
mn
ms m 2 MA
!!
mg m v s
ms m 1 ME
x
ms n 2 ME O1 k
42
ma n
ma n D8 v
ma n MD D100 v
ma none N0 J7 v
md none
md m q
mg m v
md m
ms bad x
mg
ms a2V5 3 b
abc
mg key v
mg a2V5 b k v
md key
md n
mn
me nothing
quit
S

# about: thousands of commands sent at once, in RESP2, with large and small ones, errors and transactions between
# bytes: yes
talk() { exec 3<>"/dev/tcp/$HOST/$PORT"; cat >&3 & cat <&3 | md5sum; wait; exec 3>&-; }
c() { printf '*%d\r\n' $#; for word; do printf '$%d\r\n%s\r\n' ${#word} "$word"; done; }
text=$(head -c 20000 /dev/zero | tr '\0' y)
(for i in $(seq 2000); do c SET "key$i" "$i"; c INCR "key$i"; c GET "key$i"; done; c QUIT) | talk
(for i in $(seq 300); do c SET large "$text"; c GET large; c LPUSH large x; c PING; done; c QUIT) | talk
(for i in $(seq 300); do c MULTI; c INCR n; c NOSUCH; c EXEC; c MULTI; c INCR n; c EXEC; done; c GET n; c QUIT) | talk
# Commands by a line each.
(for i in $(seq 1000); do printf 'SET k%d "a b"\r\nGET k%d\r\n' "$i" "$i"; done; printf 'QUIT\r\n') | talk
# The client reads nothing until it has sent all.
exec 3<>"/dev/tcp/$HOST/$PORT"
(for i in $(seq 3000); do c ECHO "number $i"; done; c QUIT) >&3
sleep 0.3
md5sum <&3
exec 3>&-
redis-cli -p "$DIRECT" FLUSHDB

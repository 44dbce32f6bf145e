# about: unknown commands, lines and keys that are too long, values of a wrong length
# bytes: yes
talk() { cat > sent; exec 3<>"/dev/tcp/$HOST/$PORT"; cat sent >&3; tr -d '\r' <&3; exec 3>&-; }
lines() { sed "s,$,\r,"; }
key=$(head -c 251 /dev/zero | tr '\0' k)
lines <<S | talk
nonsense
GET k
get
get $key
set $key 0 0 1
x
set k
set k 0 0 x
set k 0 0 -1
set k x 0 1
1
delete
touch
incr k
get k
quit
S
printf 'set k 0 0 3\r\nabcdef\r\nget k\r\nquit\r\n' | talk
printf 'set k 0 0 5\r\nab\r\nget k\r\nquit\r\n' | talk
printf '\r\n\r\nversion extra\r\nquit\r\n' | talk
printf 'set lf 0 0 1\nx\r\nget lf\ndelete lf\nquit\n' | talk

# about: gets and cas between two clients
talk() { cat > sent; exec 3<>"/dev/tcp/$HOST/$PORT"; cat sent >&3; tr -d '\r' <&3; exec 3>&-; }
lines() { sed "s,$,\r,"; }
field() { tr -d '\r' | awk '/^VALUE/ { print $5 }'; }
ask() { cat > sent; printf 'quit\r\n' >> sent; exec 3<>"/dev/tcp/$HOST/$PORT"; cat sent >&3; cat <&3; exec 3>&-; }
printf 'set c 0 0 3\r\none\r\n' | ask
first=$(printf 'gets c\r\n' | ask | field)
second=$(printf 'gets c\r\n' | ask | field)
[ "$first" = "$second" ] && echo "the same while nobody writes"
printf 'cas c 0 0 3 %s\r\ntwo\r\n' "$first" | ask
printf 'cas c 0 0 5 %s\r\nthree\r\n' "$first" | ask
printf 'cas none 0 0 1 1\r\nx\r\n' | ask
third=$(printf 'gets c\r\n' | ask | field)
[ "$third" -gt "$first" ] && echo "greater then"
printf 'cas c 0 0 4 %s noreply\r\nfour\r\nget c\r\ndelete c\r\n' "$third" | ask

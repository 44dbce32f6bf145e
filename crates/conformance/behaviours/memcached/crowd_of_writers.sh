# about: twenty clients at once add to one number and append to one value
talk() { cat > sent; exec 3<>"/dev/tcp/$HOST/$PORT"; cat sent >&3; tr -d '\r' <&3; exec 3>&-; }
lines() { sed "s,$,\r,"; }
printf 'set w 0 0 1\r\n0\r\nset a 0 0 0\r\n\r\nquit\r\n' | talk
one() { exec 3<>"/dev/tcp/$HOST/$PORT"; for j in $(seq 50); do printf 'incr w 1\r\nappend a 0 0 1\r\nx\r\n' >&3; read -r _ <&3; read -r _ <&3; done; exec 3>&-; }
for i in $(seq 20); do one & done
wait
printf 'get w\r\nget a\r\ndelete w\r\ndelete a\r\nquit\r\n' | talk | md5sum

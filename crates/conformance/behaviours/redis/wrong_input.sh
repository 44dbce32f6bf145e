# about: what is no RESP, what is too long, what is unknown: the error and the end of the connection
# bytes: yes
# In one piece: what came after the end of a connection would reset it, with the error still on its way.
talk() { cat > sent; printf 'QUIT\r\n' >> sent; exec 3<>"/dev/tcp/$HOST/$PORT"; cat sent >&3; tr -d '\r' <&3; exec 3>&-; echo --; }
printf '*1\r\nPING\r\n' | talk
printf '*x\r\n' | talk
printf '*2000000\r\n' | talk
printf '*1\r\n$-5\r\n' | talk
printf '*1\r\n$999999999999\r\n' | talk
printf '*1\r\n$x\r\n' | talk
printf '*-1\r\n*0\r\nPING\r\n' | talk
printf '\r\n\r\nPING\r\n' | talk
printf 'SET a "unbalanced\r\n' | talk
printf 'NOSUCH a b c\r\nGET\r\nCLIENT NOSUCH\r\nSET a b NONSENSE\r\nSELECT 99\r\nSELECT x\r\n' | talk
printf 'PING\nPING\n' | talk
printf 'SET k "a\\x00b\\n"\r\nGET k\r\nDEL k\r\n' | talk | tr '\0' 0
printf '*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$3\r\nabcd\r\nPING\r\n' | talk
printf 'GET / HTTP/1.1\r\nHost: x\r\n\r\nPING\r\n' | talk
printf 'POST / HTTP/1.1\r\nPING\r\n' | talk
printf 'AUTH wrong\r\nAUTH a b c\r\nHELLO 9\r\nHELLO\tx\r\n' | talk

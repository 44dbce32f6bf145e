# about: CLIENT REPLY OFF, SKIP and ON, also inside pipelines and transactions
# bytes: yes
talk() { exec 3<>"/dev/tcp/$HOST/$PORT"; cat >&3; tr -d '\r' <&3; exec 3>&-; echo; }
printf 'CLIENT REPLY OFF\r\nSET a 1\r\nINCR a\r\nNOSUCH\r\nCLIENT REPLY ON\r\nGET a\r\nQUIT\r\n' | talk
printf 'CLIENT REPLY SKIP\r\nINCR a\r\nINCR a\r\nCLIENT REPLY SKIP\r\nGET none\r\nGET a\r\nQUIT\r\n' | talk
printf 'CLIENT REPLY SKIP\r\nCLIENT REPLY SKIP\r\nINCR a\r\nINCR a\r\nQUIT\r\n' | talk
printf 'CLIENT REPLY OFF\r\nMULTI\r\nINCR a\r\nINCR a\r\nEXEC\r\nCLIENT REPLY ON\r\nMULTI\r\nGET a\r\nEXEC\r\nQUIT\r\n' | talk
printf 'MULTI\r\nCLIENT REPLY SKIP\r\nGET a\r\nEXEC\r\nPING\r\nPING\r\nQUIT\r\n' | talk
printf 'CLIENT REPLY NONSENSE\r\nCLIENT REPLY\r\nPING\r\nQUIT\r\n' | talk
(printf 'CLIENT REPLY OFF\r\n'; for i in $(seq 20000); do printf 'INCR counted\r\n'; done; printf 'CLIENT REPLY ON\r\nGET counted\r\nQUIT\r\n') | talk
redis-cli -p "$PORT" DEL a counted

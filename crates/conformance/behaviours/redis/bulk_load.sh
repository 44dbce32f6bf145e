# about: redis-cli --pipe with 60,000 commands, some wrong, and two at once
r() { redis-cli -p "$PORT" "$@" 2>&1; }
commands() { awk -v from="$1" -v to="$2" 'BEGIN { for (i = from; i <= to; i++) { k = "key" i; printf "*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n%d\r\n", length(k), k, length(i), i } }'; }
commands 1 60000 | r --pipe
r DBSIZE
r GET key12345
(commands 1 1000; printf '*2\r\n$4\r\nINCR\r\n$4\r\nkey1\r\n*2\r\n$6\r\nNOSUCH\r\n$1\r\nx\r\n*3\r\n$5\r\nLPUSH\r\n$4\r\nkey1\r\n$1\r\nx\r\n') | r --pipe || true
commands 60001 70000 | r --pipe > one.txt &
commands 70001 80000 | r --pipe > two.txt &
wait
cat one.txt two.txt
r DBSIZE
r --scan --count 1000 --pattern 'key7999*' | sort
r FLUSHDB

# about: libmemcached's test of a server: every command of the text and of the binary protocol
# ignore: CPU
memccapable -h "$HOST" -p "$PORT" 2>&1 || true

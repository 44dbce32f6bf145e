# about: WATCH while another client changes what is watched, or does not, or ends
# bytes: yes
r() { redis-cli -p "$PORT" "$@" 2>&1; }
r SET w 1
for other in "SET w 2" "SET elsewhere 1" "DEL w" "EXPIRE none 1" "FLUSHDB ASYNC"; do
    r SET w 1
    mkfifo in
    redis-cli -p "$PORT" < in > out.txt 2>&1 &
    exec 9> in
    printf 'WATCH w\nGET w\n' >&9
    until [ "$(wc -l < out.txt)" -ge 2 ]; do sleep 0.01; done
    # shellcheck disable=SC2086
    r $other
    printf 'MULTI\nSET w mine\nEXEC\nGET w\n' >&9
    exec 9>&-
    wait
    cat out.txt
    rm in
done

# about: SUBSCRIBE, PSUBSCRIBE and SSUBSCRIBE, messages in order, in RESP2 and RESP3, also from transactions and scripts
r() { redis-cli -p "$PORT" "$@" 2>&1; }
c() { printf '*%d\r\n' $#; for word; do printf '$%d\r\n%s\r\n' ${#word} "$word"; done; }
for version in 2 3; do
    exec 3<>"/dev/tcp/$HOST/$PORT"
    cat <&3 > heard.txt &
    (c HELLO $version; c SUBSCRIBE news sport; c PSUBSCRIBE 'n*'; c SSUBSCRIBE shard) >&3
    until grep -aq ssubscribe heard.txt; do sleep 0.01; done
    for i in $(seq 50); do r PUBLISH news "number $i" > /dev/null; done
    r PUBLISH sport x
    r PUBLISH nothing y
    r PUBLISH nobody z
    r SPUBLISH shard s
    printf 'MULTI\nPUBLISH news m\nPUBLISH sport n\nEXEC\n' | r
    r EVAL "return redis.call('PUBLISH', 'news', 'from a script')" 0
    r PUBSUB CHANNELS | sort
    r PUBSUB NUMSUB news sport
    # Subscribed, it may do little in RESP2, and all in RESP3.
    (c PING; c GET key; c UNSUBSCRIBE news sport; c PUNSUBSCRIBE; c SUNSUBSCRIBE; c GET key; c QUIT) >&3
    wait
    exec 3>&-
    tr -d '\r' < heard.txt | awk '/^id$/ { getline; next } { print }' | md5sum
    grep -c message heard.txt
done

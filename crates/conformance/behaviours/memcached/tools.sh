# about: libmemcached's tools: copy files in, read them back, by the text and by the binary protocol
for protocol in "" --binary; do
    for i in 1 2 3; do head -c "${i}00000" /dev/zero | tr '\0' "$i" > "file$i"; done
    memccp $protocol --servers="$HOST:$PORT" file1 file2 file3
    memcexist $protocol --servers="$HOST:$PORT" file2 && echo "file2 is there"
    memccat $protocol --servers="$HOST:$PORT" file1 | md5sum
    memccat $protocol --servers="$HOST:$PORT" file3 | md5sum
    memctouch $protocol --servers="$HOST:$PORT" file1 && echo touched
    memcrm $protocol --servers="$HOST:$PORT" file1 file2 file3
    memcexist $protocol --servers="$HOST:$PORT" file2 || echo "file2 is gone"
done
memcping --servers="$HOST:$PORT" && echo pong

# about: a script that runs too long, what others are told meanwhile, and SCRIPT KILL
r() { redis-cli -p "$PORT" "$@" 2>&1; }
r CONFIG SET busy-reply-threshold 200
r EVAL "while true do end" 0 > killed.txt &
until r PING | grep -q BUSY; do sleep 0.02; done
r PING
r SCRIPT KILL
wait
sed 's/ script: .*//' killed.txt
r PING
r SCRIPT KILL
r CONFIG SET busy-reply-threshold 5000

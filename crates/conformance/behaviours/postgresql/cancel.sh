# about: cancel requests, pg_cancel_backend, pg_terminate_backend, statement and lock time-outs
# tls: yes
p() { psql -XAtq "$@" 2>&1; }
timeout --foreground -s INT 2 psql -XAtq -c "SELECT pg_sleep(1001)" 2>&1 || true
find() { local id=""; while [ -z "$id" ]; do id=$(p -c "SELECT pid FROM pg_stat_activity WHERE query = 'SELECT pg_sleep($1)' AND state = 'active'"); done; echo "$id"; }
p -c "SELECT pg_sleep(1002)" > one.txt &
p -c "SELECT pg_cancel_backend($(find 1002))"
wait $! || true
cat one.txt
p -c "SELECT pg_sleep(1003)" > two.txt &
p -c "SELECT pg_terminate_backend($(find 1003))"
wait $! || true
cat two.txt
p -c "SET statement_timeout = '200ms'" -c "SELECT pg_sleep(100)" || true
p -c "SELECT 'still there'"

# about: LISTEN and NOTIFY between sessions, also inside transactions
# tls: yes
p() { psql -XAtq "$@" 2>&1; }
mkfifo in
psql -XAtq < in > heard.txt 2>&1 &
exec 9> in
echo "LISTEN news; SELECT 'listening';" >&9
until grep -q listening heard.txt; do sleep 0.02; done
for i in 1 2 3; do p -c "NOTIFY news, 'number $i'"; done
p -c "BEGIN; NOTIFY news, 'never'; ROLLBACK"
echo "SELECT 'done';" >&9
until grep -q done heard.txt; do sleep 0.02; done
exec 9>&-
wait
sed 's/PID [0-9]*/PID/' heard.txt

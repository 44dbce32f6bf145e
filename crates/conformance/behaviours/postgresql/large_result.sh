# about: a result of 40 MB, at once and by a cursor, and COPY TO
# tls: yes
psql -XAtq -c "SELECT g, repeat(md5(g::text), 6) FROM generate_series(1, 200000) g" | md5sum
psql -XAtq -v FETCH_COUNT=1000 -c "SELECT g, repeat(md5(g::text), 6) FROM generate_series(1, 200000) g" | md5sum
psql -XAtq -c "COPY (SELECT g, repeat(md5(g::text), 6) FROM generate_series(1, 200000) g) TO STDOUT" | md5sum
psql -XAtq -c "SELECT repeat('y', 50000000)" | md5sum

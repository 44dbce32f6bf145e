-- about: prepared statements and cursors in text
-- bytes: yes
-- tls: yes
PREPARE i (int, text) AS SELECT $1 * 2, $2 || '!';
EXECUTE i (4, 'x');
EXECUTE i ('nonsense', 'x');
DEALLOCATE i;
EXECUTE i (4, 'x');
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT g, repeat('y', g) FROM generate_series(1, 20) g;
FETCH 3 FROM c;
FETCH LAST FROM c;
FETCH BACKWARD 2 FROM c;
CLOSE c;
COMMIT;
DISCARD ALL;

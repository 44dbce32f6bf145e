-- about: statements prepared in text, with parameters, errors and deallocation
-- bytes: yes
-- tls: yes
CREATE TABLE p (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(20));
PREPARE i FROM 'INSERT INTO p (v) VALUES (?)';
SET @a = 'x', @b = NULL;
EXECUTE i USING @a;
EXECUTE i USING @b;
EXECUTE i;
PREPARE s FROM 'SELECT v, COUNT(*) FROM p GROUP BY v ORDER BY v';
EXECUTE s;
EXECUTE IMMEDIATE 'SELECT ? AS x' USING 7;
DEALLOCATE PREPARE i;
EXECUTE i USING @a;
DROP TABLE p;

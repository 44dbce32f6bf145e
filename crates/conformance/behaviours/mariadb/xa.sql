-- about: XA transactions, prepared and taken over
-- bytes: yes
CREATE TABLE x (a INT) ENGINE=InnoDB;
XA START 'one';
INSERT INTO x VALUES (1);
XA END 'one';
XA PREPARE 'one';
XA RECOVER;
XA COMMIT 'one';
XA START 'two';
INSERT INTO x VALUES (2);
XA END 'two';
XA ROLLBACK 'two';
XA COMMIT 'nobody';
SELECT * FROM x;
DROP TABLE x;

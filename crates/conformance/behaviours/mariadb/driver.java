// about: MariaDB's JDBC driver: binary protocol, batches, generated keys, streaming, cancel, isolation
// tls: yes
import java.sql.*;

public class driver {
    static Connection open(String more) throws SQLException {
        return DriverManager.getConnection("jdbc:mariadb://127.0.0.1:" + System.getenv("PORT") + "/rig?user=app" + System.getenv("JDBC") + more);
    }

    public static void main(String[] arguments) throws Exception {
        for (String more : new String[] {"", "&useServerPrepStmts=true", "&useServerPrepStmts=true&useBulkStmts=true", "&rewriteBatchedStatements=true", "&useCompression=true"}) {
            try (Connection c = open(more); Statement s = c.createStatement()) {
                s.execute("CREATE TABLE j (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(50), d DOUBLE, b BLOB) ENGINE=InnoDB");
                c.setAutoCommit(false);
                try (PreparedStatement p = c.prepareStatement("INSERT INTO j (v, d, b) VALUES (?, ?, ?)", Statement.RETURN_GENERATED_KEYS)) {
                    for (int i = 0; i < 500; i++) {
                        p.setString(1, "row " + i);
                        p.setDouble(2, i / 3.0);
                        p.setBytes(3, new byte[i]);
                        p.addBatch();
                    }
                    System.out.println(more + " batch " + p.executeBatch().length);
                }
                c.commit();
                try (PreparedStatement p = c.prepareStatement("SELECT id, v, d, LENGTH(b) FROM j WHERE id > ? ORDER BY id")) {
                    p.setFetchSize(7);
                    p.setInt(1, 100);
                    long sum = 0;
                    int rows = 0;
                    for (ResultSet r = p.executeQuery(); r.next(); rows++) sum = sum * 31 + (r.getString(2) + r.getDouble(3) + r.getInt(4)).hashCode();
                    System.out.println(rows + " rows " + sum);
                }
                c.rollback();
                c.setTransactionIsolation(Connection.TRANSACTION_SERIALIZABLE);
                Savepoint point = c.setSavepoint();
                s.executeUpdate("DELETE FROM j");
                c.rollback(point);
                try (ResultSet r = s.executeQuery("SELECT COUNT(*) FROM j")) {
                    r.next();
                    System.out.println("count " + r.getInt(1));
                }
                c.commit();
                c.setAutoCommit(true);
                try {
                    s.execute("INSERT INTO j (id) VALUES (1)");
                } catch (SQLException error) {
                    System.out.println(error.getErrorCode() + " " + error.getSQLState());
                }
                Thread canceller = new Thread(() -> {
                    try {
                        Thread.sleep(300);
                        s.cancel();
                    } catch (Exception error) {
                        System.out.println(error);
                    }
                });
                canceller.start();
                try {
                    s.executeQuery("SELECT SLEEP(20) FROM j LIMIT 1").close();
                    System.out.println("slept");
                } catch (SQLException error) {
                    System.out.println("cancelled " + error.getErrorCode());
                }
                canceller.join();
                s.execute("DROP TABLE j");
            }
        }
    }
}

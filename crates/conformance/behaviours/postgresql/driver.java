// about: PostgreSQL's JDBC driver: extended protocol, batches, cursors, COPY, LISTEN, cancel, isolation
// tls: yes
import java.io.StringReader;
import java.sql.*;
import org.postgresql.PGConnection;
import org.postgresql.copy.CopyManager;
import org.postgresql.core.BaseConnection;

public class driver {
    public static void main(String[] arguments) throws Exception {
        for (String more : new String[] {"", "&prepareThreshold=1", "&preferQueryMode=simple", "&reWriteBatchedInserts=true", "&binaryTransfer=true&prepareThreshold=-1"}) {
            String url = "jdbc:postgresql://127.0.0.1:" + System.getenv("PORT") + "/postgres?user=app" + System.getenv("JDBC") + more;
            try (Connection c = DriverManager.getConnection(url); Statement s = c.createStatement()) {
                s.execute("CREATE TABLE j (id serial PRIMARY KEY, v text, d float8, b bytea)");
                c.setAutoCommit(false);
                try (PreparedStatement p = c.prepareStatement("INSERT INTO j (v, d, b) VALUES (?, ?, ?)")) {
                    for (int i = 0; i < 500; i++) {
                        p.setString(1, "row " + i);
                        p.setDouble(2, i / 3.0);
                        p.setBytes(3, new byte[i]);
                        p.addBatch();
                    }
                    System.out.println(more + " batch " + p.executeBatch().length);
                }
                c.commit();
                for (int round = 0; round < 3; round++) {
                    try (PreparedStatement p = c.prepareStatement("SELECT id, v, d, length(b) FROM j WHERE id > ? ORDER BY id")) {
                        p.setFetchSize(7);
                        p.setInt(1, 100);
                        long sum = 0;
                        int rows = 0;
                        for (ResultSet r = p.executeQuery(); r.next(); rows++) sum = sum * 31 + (r.getString(2) + r.getDouble(3) + r.getInt(4)).hashCode();
                        System.out.println(rows + " rows " + sum);
                    }
                }
                Savepoint point = c.setSavepoint();
                s.executeUpdate("DELETE FROM j");
                c.rollback(point);
                try {
                    s.execute("SELECT 1/0");
                } catch (SQLException error) {
                    System.out.println(error.getSQLState());
                }
                c.rollback();
                CopyManager copy = ((PGConnection) c).getCopyAPI();
                System.out.println("copied " + copy.copyIn("COPY j (v) FROM STDIN", new StringReader("x\ny\nz\n")));
                c.commit();
                c.setAutoCommit(true);
                s.execute("LISTEN j");
                s.execute("NOTIFY j, 'hello'");
                for (var note : ((PGConnection) c).getNotifications(10000)) System.out.println("heard " + note.getParameter());
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
                    s.executeQuery("SELECT pg_sleep(20)").close();
                    System.out.println("slept");
                } catch (SQLException error) {
                    System.out.println("cancelled " + error.getSQLState());
                }
                canceller.join();
                s.execute("DROP TABLE j");
            }
        }
    }
}

import com.datastax.driver.core.Cluster;
import com.datastax.driver.core.PreparedStatement;
import com.datastax.driver.core.Session;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.LongAdder;

/**
 * Clients that send one request after another on one connection: {@code Load PORT fill|get|put|mix CLIENTS FILE}. The file has the number
 * of requests that were answered. Each row has 1 kB.
 */
final class Load {
    private static final int ROWS = 20_000;
    private static final String VALUE = "x".repeat(1_000);

    private static PreparedStatement get;
    private static PreparedStatement put;

    public static void main(String[] words) throws Exception {
        String load = words[1];
        Path file = Path.of(words[3]);
        Cluster cluster = Cluster.builder().addContactPoint("127.0.0.1").withPort(Integer.parseInt(words[0]))
                .withoutJMXReporting().withoutMetrics().build();
        Session session = cluster.connect();
        if (load.equals("fill")) {
            session.execute("CREATE KEYSPACE load WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
            session.execute("CREATE TABLE load.rows (id int PRIMARY KEY, value text)");
        }
        get = session.prepare("SELECT value FROM load.rows WHERE id = ?");
        put = session.prepare("INSERT INTO load.rows (id, value) VALUES (?, ?)");
        LongAdder answered = new LongAdder();
        int clients = Integer.parseInt(words[2]);
        Thread[] threads = new Thread[clients];
        for (int client = 0; client < clients; client++) {
            int first = client;
            threads[client] = new Thread(() -> {
                for (int n = first; !load.equals("fill") || n < ROWS; n += clients) {
                    request(session, load, n);
                    answered.increment();
                }
            });
            threads[client].setDaemon(true);
            threads[client].start();
        }
        if (load.equals("fill")) {
            for (Thread thread : threads) {
                thread.join();
            }
            cluster.close();
            return;
        }
        Path next = file.resolveSibling(file.getFileName() + ".next");
        while (true) {
            Files.writeString(next, answered.sum() + "\n");
            Files.move(next, file, StandardCopyOption.ATOMIC_MOVE);
            Thread.sleep(20);
        }
    }

    private static void request(Session session, String load, int n) {
        if (load.equals("fill")) {
            session.execute(put.bind(n, VALUE));
            return;
        }
        int row = ThreadLocalRandom.current().nextInt(ROWS);
        if (load.equals("get") || load.equals("mix") && n % 2 == 0) {
            session.execute(get.bind(row));
        } else {
            session.execute(put.bind(row, VALUE));
        }
    }
}

package headworks.cluster;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.Get;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.ResultScanner;
import org.apache.hadoop.hbase.client.Scan;
import org.apache.hadoop.hbase.client.Table;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/**
 * 100 parallel scans of one client beside one scan and ten gets a second of another, on a real cluster
 * (the starvation of HBASE-12790). What is asserted is the order of service, never a time: how many
 * calls of the other client end while a get is made.
 */
class NeighboursTest {
    private static final TableName TABLE = TableName.valueOf("rows");
    private static final int SCANS = 100;
    private static final int HANDLERS = Site.HANDLERS;

    private static Cluster cluster;
    /** Calls of the client with many scans that have ended. */
    private final AtomicLong ended = new AtomicLong();
    private final AtomicBoolean stop = new AtomicBoolean();

    @BeforeAll
    static void start() throws Exception {
        cluster = Site.start();
        Site.table(TABLE, Cluster.DEFAULT, true, 500, 100);
    }

    @Test
    void aSmallClientIsServedBesideAHundredScans() throws Exception {
        Site.reload(Map.of("headworks.enabled", "true", "headworks.tenant.attribute", ""));
        long byUser = neighbours("many", "few");
        Site.reload(Map.of("headworks.enabled", "false"));
        long off = neighbours("many", "few");
        Site.reload(Map.of("headworks.enabled", "true", "headworks.tenant.attribute", "tenant"));
        long byAttribute = neighbours("same", "same");
        String all = "calls of the other client that end during a get: " + byUser + " by user, " + off + " switched off, "
            + byAttribute + " by attribute";
        System.err.println(all);
        assertTrue(off >= SCANS / 2, "each call waits for all that were queued before: " + all);
        assertTrue(byUser <= 3 * HANDLERS, "a get waits for the next handler: " + all);
        assertTrue(byAttribute <= 3 * HANDLERS, "a get waits for the next handler: " + all);
    }

    @Test
    void theDataNodeKnowsForWhomItReads() throws Exception {
        Site.reload(Map.of("headworks.enabled", "true", "headworks.tenant.attribute", ""));
        try (Connection root = Site.connect("root"); Admin admin = root.getAdmin()) {
            admin.flush(TABLE);
            for (String user : List.of("alice", "bob", "alice")) {
                try (Connection connection = Site.connect(user); Table table = connection.getTable(TABLE)) {
                    Get get = new Get(Site.key(1));
                    assertTrue(!table.get(get.setCacheBlocks(false)).isEmpty());
                }
            }
            cluster.await("datanode", "#t=alice");
            cluster.await("datanode", "#t=bob");
            cluster.await("datanode", "headworks: several tenants");
            try (Table table = root.getTable(TABLE)) {
                table.put(new Put(Site.key(1)).addColumn(Site.FAMILY, Site.FAMILY, new byte[50]));
            }
            admin.flush(TABLE);
            admin.majorCompact(TABLE);
            cluster.await("datanode", "#t=(compaction)");
        }
    }

    /** Runs both clients. How many calls of the first end while the second makes a get: the median of 21. */
    private long neighbours(String many, String few) throws Exception {
        stop.set(false);
        List<Thread> threads = new ArrayList<>();
        try (Connection first = Site.connect(many); Connection second = Site.connect(few)) {
            for (int number = 0; number < SCANS; number++) {
                threads.add(scanner(first, "many", ended));
            }
            threads.add(scanner(second, "few", new AtomicLong()));
            threads.forEach(Thread::start);
            long before = ended.get();
            while (ended.get() < before + 2 * SCANS) {
                Thread.sleep(20);
            }
            long[] during = new long[21];
            try (Table table = Site.table(second, TABLE, "few")) {
                for (int at = 0; at < during.length; at++) {
                    long start = ended.get();
                    assertTrue(!table.get(new Get(Site.key(at))).isEmpty());
                    during[at] = ended.get() - start;
                    Thread.sleep(100);
                }
            } finally {
                stop.set(true);
                for (Thread thread : threads) {
                    thread.join();
                }
            }
            Arrays.sort(during);
            return during[during.length / 2];
        }
    }

    private Thread scanner(Connection connection, String tenant, AtomicLong count) {
        return new Thread(() -> {
            Scan scan = new Scan().setCaching(1).setFilter(new SlowRows());
            while (!stop.get()) {
                try (Table table = Site.table(connection, TABLE, tenant); ResultScanner rows = table.getScanner(scan)) {
                    while (!stop.get() && rows.next() != null) {
                        count.incrementAndGet();
                    }
                } catch (java.io.IOException failed) {
                    failed.printStackTrace();
                    return;
                }
            }
        });
    }
}

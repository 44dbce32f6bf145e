package headworks.cluster;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.HConstants;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.ColumnFamilyDescriptorBuilder;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.Result;
import org.apache.hadoop.hbase.client.ResultScanner;
import org.apache.hadoop.hbase.client.Scan;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.client.TableDescriptorBuilder;
import org.apache.hadoop.hbase.replication.ReplicationPeerConfig;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/**
 * What one HBase writes is replicated to another; the plug-in is at both. The other one has two handlers and its own clients.
 * {@code make test-long} runs it. Its name does not end in Test, so that Maven does not run it with the others.
 */
@Timeout(180)
class Replication {
    private static final String PEER = "other";
    private static final TableName COPIED = TableName.valueOf("copied");
    private static final TableName BUSY = TableName.valueOf("busy");
    /** Under this name the work of replication is told. */
    private static final String REPLICATION = "(replication)";
    private static final int ROWS = 30_000;

    private static Cluster cluster;
    private static Configuration other;

    @BeforeAll
    static void start() throws Exception {
        cluster = Site.start();
        // Tests before may have left other settings.
        Site.reload(Map.of("headworks.enabled", "true", "headworks.tenant.attribute", ""));
        other = Site.second(cluster);
        for (Configuration each : List.of(Site.conf(), other)) {
            try (Connection root = Site.connect(each, "root"); Admin admin = root.getAdmin()) {
                admin.createTable(TableDescriptorBuilder.newBuilder(COPIED).setColumnFamily(ColumnFamilyDescriptorBuilder.newBuilder(Site.FAMILY)
                    .setScope(HConstants.REPLICATION_SCOPE_GLOBAL).build()).build());
            }
        }
        try (Connection root = Site.connect(other, "root"); Admin admin = root.getAdmin(); Connection carol = Site.connect(other, "carol")) {
            admin.createTable(TableDescriptorBuilder.newBuilder(BUSY).setColumnFamily(ColumnFamilyDescriptorBuilder.of(Site.FAMILY)).build());
            try (Table table = carol.getTable(BUSY)) {
                for (int row = 0; row < 100; row++) {
                    table.put(Site.put(row, 10));
                }
            }
        }
        try (Connection root = Site.connect("root"); Admin admin = root.getAdmin()) {
            admin.addReplicationPeer(PEER, ReplicationPeerConfig.newBuilder().setClusterKey("127.0.0.1:2181:" + Cluster.SECOND_ZNODE).build());
        }
    }

    @AfterAll
    static void end() throws Exception {
        if (other != null) {
            try (Connection root = Site.connect("root"); Admin admin = root.getAdmin()) {
                admin.removeReplicationPeer(PEER);
            }
            cluster.endSecond();
        }
    }

    /** Edits of two tenants arrive. There they are housekeeping, and no user's: not of the one who wrote, nor of the server's own user. */
    @Test
    void whatIsReplicatedArrivesAndIsHousekeeping() throws Exception {
        Told before = Told.by(Cluster.SECOND_PAGE);
        try (Connection alice = Site.connect("alice"); Connection bob = Site.connect("bob")) {
            write(alice, 0, 300, 100);
            write(bob, 300, 600, 100);
        }
        arrived(600);
        Told told = Told.by(Cluster.SECOND_PAGE);
        for (String stage : List.of("RPC Handle", "Log append")) {
            assertTrue(told.served(REPLICATION, stage) > before.served(REPLICATION, stage), stage + ": " + told);
        }
        assertEquals(before.served("root", "Log append"), told.served("root", "Log append"), told.toString());
        for (String tenant : List.of("alice", "bob")) {
            assertEquals(0, told.served(tenant, "RPC Handle"), told.toString());
        }
        assertTrue(told.used(REPLICATION, "handlers") > 0, told.toString());
        // The log of the first HBase is read for it, too.
        cluster.await("datanode", "op: HDFS_READ", "#t=" + REPLICATION);
    }

    /** While two users of the other HBase want all handlers, replication has a twentieth of them. */
    @Test
    void usersGoBeforeWhatIsReplicated() throws Exception {
        AtomicBoolean stop = new AtomicBoolean();
        List<Thread> scans = new ArrayList<>();
        try (Connection root = Site.connect("root"); Admin admin = root.getAdmin(); Connection alice = Site.connect("alice");
             Connection carol = Site.connect(other, "carol"); Connection dave = Site.connect(other, "dave")) {
            admin.disableReplicationPeer(PEER);
            write(alice, 1_000, 1_000 + ROWS, 20);
            for (Connection user : List.of(carol, dave)) {
                for (int number = 0; number < 6; number++) {
                    scans.add(new Thread(() -> scan(user, stop)));
                }
            }
            scans.forEach(Thread::start);
            try {
                Thread.sleep(1_000);
                Told idle = Told.by(Cluster.SECOND_PAGE);
                admin.enableReplicationPeer(PEER);
                Told before = begun(idle);
                arrived(1_000, ROWS);
                Told after = Told.by(Cluster.SECOND_PAGE);
                long users = 0;
                // The one who looks what has arrived uses handlers, too.
                for (String user : List.of("carol", "dave", "reader")) {
                    users += used(after, user) - used(before, user);
                }
                // Its first calls are over when it is seen to have begun.
                long replication = used(after, REPLICATION) - used(idle, REPLICATION);
                long calls = after.served(REPLICATION, "RPC Handle") - idle.served(REPLICATION, "RPC Handle");
                System.err.println("handlers' time of users and of replication, in ms: " + users / 1_000 + ", " + replication / 1_000 + " by " + calls + " calls");
                // Alike, replication would have a third. It begins with one call at once.
                assertTrue(users > 6 * replication, users + " and " + replication + ": " + after);
            } finally {
                stop.set(true);
                for (Thread scan : scans) {
                    scan.join();
                }
            }
        }
    }

    /** Waits until replication has begun: a source looks now and then whether its peer is switched on. */
    private static Told begun(Told before) throws Exception {
        long end = System.nanoTime() + 60_000_000_000L;
        while (true) {
            Told now = Told.by(Cluster.SECOND_PAGE);
            if (used(now, REPLICATION) > used(before, REPLICATION)) {
                return now;
            }
            assertTrue(System.nanoTime() < end, "nothing is replicated:\n" + cluster.tail("regionserver"));
            Thread.sleep(10);
        }
    }

    private static long used(Told told, String tenant) {
        return told.used(tenant, "handlers");
    }

    private static void write(Connection connection, int from, int to, int bytes) throws Exception {
        List<Put> puts = new ArrayList<>();
        for (int row = from; row < to; row++) {
            puts.add(Site.put(row, bytes));
        }
        try (Table table = connection.getTable(COPIED)) {
            table.put(puts);
        }
    }

    /** Each row takes a handler twenty milliseconds. */
    private static void scan(Connection connection, AtomicBoolean stop) {
        while (!stop.get()) {
            try (Table table = connection.getTable(BUSY); ResultScanner rows = table.getScanner(new Scan().setCaching(1).setFilter(new SlowRows()))) {
                while (!stop.get() && rows.next() != null) {
                    // The next one.
                }
            } catch (java.io.IOException failed) {
                failed.printStackTrace();
                return;
            }
        }
    }

    private static void arrived(int rows) throws Exception {
        arrived(0, rows);
    }

    /** Waits until all rows from this one are there. The one who looks is no tenant of the test. */
    private static void arrived(int from, int rows) throws Exception {
        long end = System.nanoTime() + 120_000_000_000L;
        try (Connection reader = Site.connect(other, "reader"); Table table = reader.getTable(COPIED)) {
            int count = 0;
            while (count < rows) {
                assertTrue(System.nanoTime() < end, count + " of " + rows + " rows have arrived:\n" + cluster.tail("regionserver"));
                Thread.sleep(100);
                count = 0;
                try (ResultScanner found = table.getScanner(new Scan().withStartRow(Site.key(from)).withStopRow(Site.key(from + rows)))) {
                    for (Result row : found) {
                        count += row.isEmpty() ? 0 : 1;
                    }
                }
            }
        }
    }
}

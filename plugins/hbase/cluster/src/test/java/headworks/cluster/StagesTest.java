package headworks.cluster;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.Get;
import org.apache.hadoop.hbase.client.Result;
import org.apache.hadoop.hbase.client.ResultScanner;
import org.apache.hadoop.hbase.client.Scan;
import org.apache.hadoop.hbase.client.Table;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** Each stage of both architectures orders the requests of two tenants, and nothing of theirs is lost. */
class StagesTest {
    private static final int ROWS = 200;
    private static final TableName[] TABLES = {TableName.valueOf("by_default"), TableName.valueOf("classic")};
    private static final int[] PORTS = {Cluster.DEFAULT, Cluster.CLASSIC};
    private static final TableName UNCACHED = TableName.valueOf("uncached");

    private static Cluster cluster;

    @BeforeAll
    static void start() throws Exception {
        assumeTrue(System.getenv("HEADWORKS_STAGES") != null, "not finished: HEADWORKS_STAGES=1 scripts/test-hbase");
        cluster = Site.start();
        for (int at = 0; at < TABLES.length; at++) {
            Site.table(TABLES[at], PORTS[at], true, 1, 100_000);
        }
        Site.table(UNCACHED, Cluster.DEFAULT, false, 20, 100);
    }

    @Test
    void everyStageServesBothTenantsAndNothingIsLost() throws Exception {
        Site.reload(Map.of("headworks.enabled", "true", "headworks.tenant.attribute", "", "headworks.log.outstanding", "2",
            "headworks.network.bytes-per-second", "50000000", "headworks.responses.bytes-per-tenant", "2000"));
        try (Connection root = Site.connect("root"); Admin admin = root.getAdmin()) {
            for (int at = 0; at < TABLES.length; at++) {
                write(TABLES[at]);
                assertEquals(2 * ROWS + 1, count(root, TABLES[at]));
                admin.flush(TABLES[at]);
                admin.rollWALWriter(Site.server(admin, PORTS[at]));
            }
        }
        String byDefault = Cluster.status(Cluster.DEFAULT_PAGE);
        String classic = Cluster.status(Cluster.CLASSIC_PAGE);
        String dataNode = Cluster.status(Cluster.DATANODE_PAGE);
        for (String stage : List.of("RPC Handle", "Log append", "RPC Respond", "Data Stream")) {
            assertServed(byDefault, stage);
            assertServed(classic, stage);
        }
        assertServed(classic, "RPC Read");
        assertTrue(byDefault.contains("{\"stage\":\"RPC Read\",\"enforced\":false,\"why\":\"no agent"), byDefault);
        assertServed(dataNode, "Data Xceiver");
        for (String tenant : List.of("alice", "bob")) {
            assertTrue(classic.contains("{\"name\":\"" + tenant + "\""), classic);
        }
        for (String name : List.of("#t=(log)", "#t=(flush)")) {
            cluster.await("datanode", "op: HDFS_WRITE, cliID: DFSClient_NONMAPREDUCE", name);
        }
    }

    @Test
    void doctorTellsWhatIsEnforced() throws Exception {
        Path program = Path.of("..", "..", "..", "target", "debug", "headworks-hbase");
        assumeTrue(Files.isExecutable(program), "skipped: headworks-hbase is not built (cargo build --workspace)");
        Path conf = cluster.hbaseSite().getParent();
        Files.writeString(conf.resolve("regionservers"), "127.0.0.1\n");
        Files.writeString(conf.resolve("workers"), "127.0.0.1\n");
        Process doctor = new ProcessBuilder(program.toString(), "doctor", "--conf", conf.toString(), "--hadoop-conf", conf.toString())
            .redirectErrorStream(true).start();
        String said = new String(doctor.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertEquals(0, doctor.waitFor(), said);
        for (String words : List.of("region server 127.0.0.1:16030: plug-in and agent", "DataNode 127.0.0.1:9864: plug-in and agent",
            "RPC Handle     enforced", "RPC Read       NOT: no agent", "Data Xceiver   enforced", "by_default ")) {
            assertTrue(said.contains(words), words + ":\n" + said);
        }
    }

    private static void assertServed(String status, String stage) {
        Matcher found = Pattern.compile("\\{\"stage\":\"" + stage + "\",\"enforced\":true,[^}]*\"served\":([0-9]+),[^}]*\"passed\":([0-9]+)}").matcher(status);
        assertTrue(found.find(), stage + ": " + status);
        assertTrue(Long.parseLong(found.group(1)) > 0, stage + ": " + status);
        assertEquals(0, Long.parseLong(found.group(2)), stage + ": " + status);
    }

    private static void write(TableName name) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(8);
        List<Future<?>> all = new ArrayList<>();
        for (String user : List.of("alice", "bob")) {
            Connection connection = Site.connect(user);
            int first = user.equals("alice") ? 1 : 1 + ROWS;
            for (int part = 0; part < 4; part++) {
                int from = first + part * ROWS / 4;
                all.add(threads.submit(() -> {
                    try (Table table = connection.getTable(name)) {
                        for (int row = from; row < from + ROWS / 4; row++) {
                            table.put(Site.put(row, 1_000));
                            assertTrue(!table.get(new Get(Site.key(row))).isEmpty());
                        }
                    }
                    return null;
                }));
            }
        }
        for (Future<?> one : all) {
            one.get();
        }
        threads.shutdown();
    }

    private static int count(Connection connection, TableName name) throws Exception {
        int count = 0;
        try (Table table = connection.getTable(name); ResultScanner rows = table.getScanner(new Scan())) {
            for (Result row : rows) {
                assertTrue(!row.isEmpty());
                count++;
            }
        }
        return count;
    }

    @Test
    void aSmallResponseGoesBeforeLargeOnesThatWaitForTheNetwork() throws Exception {
        Site.reload(Map.of("headworks.enabled", "true", "headworks.tenant.attribute", "", "headworks.network.bytes-per-second", "2000000"));
        try {
            for (TableName name : TABLES) {
                long during = responses(name);
                System.err.println(name + ": large responses that end during a small get: " + during);
                assertTrue(during <= 3, "the small one is next: " + during);
            }
        } finally {
            Site.reload(Map.of("headworks.network.bytes-per-second", "0"));
        }
    }

    /** How many responses of 100 kB of one tenant end while another gets a small one: the median of 21. */
    private static long responses(TableName name) throws Exception {
        AtomicBoolean stop = new AtomicBoolean();
        AtomicLong ended = new AtomicLong();
        List<Thread> threads = new ArrayList<>();
        try (Connection large = Site.connect("large"); Connection small = Site.connect("small")) {
            for (int number = 0; number < 12; number++) {
                threads.add(new Thread(() -> {
                    try (Table table = large.getTable(name)) {
                        while (!stop.get()) {
                            assertEquals(100_000, table.get(new Get(Site.key(0))).value().length);
                            ended.incrementAndGet();
                        }
                    } catch (java.io.IOException failed) {
                        failed.printStackTrace();
                    }
                }));
            }
            threads.forEach(Thread::start);
            long[] during = new long[21];
            try (Table table = small.getTable(name)) {
                table.put(Site.put(9_999, 10));
                while (ended.get() < 20) {
                    Thread.sleep(20);
                }
                for (int at = 0; at < during.length; at++) {
                    long start = ended.get();
                    assertTrue(!table.get(new Get(Site.key(9_999))).isEmpty());
                    during[at] = ended.get() - start;
                    Thread.sleep(60);
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

    @Test
    void getsFromTheCacheAreServedWhileAllHandlersAreBusy() throws Exception {
        Site.reload(Map.of("headworks.enabled", "true", "headworks.tenant.attribute", "", "headworks.speculate", "true"));
        AtomicBoolean stop = new AtomicBoolean();
        List<Thread> threads = new ArrayList<>();
        try (Connection root = Site.connect("root"); Admin admin = root.getAdmin(); Connection few = Site.connect("few"); Connection many = Site.connect("many")) {
            admin.flush(UNCACHED);
            for (int number = 0; number < 30; number++) {
                threads.add(new Thread(() -> scan(many, stop)));
            }
            threads.forEach(Thread::start);
            try (Table cached = few.getTable(TABLES[0]); Table uncached = few.getTable(UNCACHED)) {
                for (int turn = 0; turn < 2_000 && !attempted(); turn++) {
                    assertEquals(100_000, cached.get(new Get(Site.key(0))).value().length);
                    assertEquals(100, uncached.get(new Get(Site.key(turn % 20))).value().length);
                }
            } finally {
                stop.set(true);
                for (Thread thread : threads) {
                    thread.join();
                }
            }
            String status = Cluster.status(Cluster.DEFAULT_PAGE);
            assertTrue(attempted(), status);
        } finally {
            Site.reload(Map.of("headworks.speculate", "false"));
        }
    }

    /** Whether attempts of both kinds were made: answered from the cache, and ended since a file was needed. */
    private static boolean attempted() throws Exception {
        Matcher found = Pattern.compile("\"answered\":([0-9]+),\"ended\":([0-9]+)").matcher(Cluster.status(Cluster.DEFAULT_PAGE));
        return found.find() && Long.parseLong(found.group(1)) > 0 && Long.parseLong(found.group(2)) > 0;
    }

    private static void scan(Connection connection, AtomicBoolean stop) {
        Scan scan = new Scan().setCaching(1).setFilter(new SlowRows());
        while (!stop.get()) {
            try (Table table = connection.getTable(UNCACHED); ResultScanner rows = table.getScanner(scan)) {
                while (!stop.get() && rows.next() != null) {
                    // The next one.
                }
            } catch (java.io.IOException failed) {
                failed.printStackTrace();
                return;
            }
        }
    }
}

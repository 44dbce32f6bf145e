package headworks.cluster;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.ColumnFamilyDescriptorBuilder;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.Get;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.client.TableDescriptorBuilder;
import org.apache.hadoop.hbase.util.Bytes;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/**
 * Servers that are killed under load, and a cluster in which one node runs without the plug-in. It takes minutes:
 * {@code make test-long} runs it. Its name does not end in Test, so that Maven does not run it with the others.
 */
@Timeout(1_200)
class Faults {
    /** For so long servers are killed. */
    private static final int SECONDS = Integer.parseInt(System.getenv().getOrDefault("HEADWORKS_FAULTS_S", "60"));
    /** Keys that one process writes. */
    private static final int KEYS = 2_000;
    private static final List<String> TENANTS = List.of("alice", "bob");
    private static final Path PROGRAMS = Path.of("..", "..", "..", "target", "debug").toAbsolutePath().normalize();
    private static final String CONTROLLER = "127.0.0.1:7700";

    @Test
    void nothingIsLostWithThePlugIn() throws Exception {
        killAndCount(true);
    }

    /** To compare: the same faults in a stock cluster. */
    @Test
    void nothingIsLostWithoutThePlugIn() throws Exception {
        killAndCount(false);
    }

    private static Map<String, String> settings(boolean ours) {
        // HBase avoids a DataNode for hours once its log could not reach it. With all three avoided, the master aborts.
        Map<String, String> settings = new TreeMap<>(Map.of("hbase.regionserver.async.wal.max.exclude.datanode.count", "1",
            "dfs.replication", "2", "dfs.heartbeat.interval", "1",
            "dfs.namenode.heartbeat.recheck-interval", "2000", "zookeeper.session.timeout", "10000", "hbase.regionserver.handler.count", "10"));
        if (ours) {
            settings.putAll(Map.of("hbase.ipc.server.callqueue.type", "pluggable",
                "hbase.ipc.server.callqueue.pluggable.queue.class.name", Measured.OUR_QUEUE,
                "headworks.controller", CONTROLLER, "headworks.log.outstanding", "10", "headworks.speculate", "true",
                "headworks.network.bytes-per-second", "50000000", "headworks.responses.bytes-per-tenant", "1000000"));
        }
        return settings;
    }

    /** The writers and readers of HBase's own LoadTestTool work for two users while one server after the other is killed and started again. */
    private static void killAndCount(boolean ours) throws Exception {
        assumeTrue(System.getenv("HEADWORKS_CLUSTER") != null, "a cluster needs a network namespace: run scripts/test-hbase");
        assumeTrue(Cluster.hasTools(), "skipped: HBase's own tests are not fetched: make setup-java");
        var first = new Cluster.Server("regionserver", Cluster.DEFAULT, Cluster.DEFAULT_PAGE, ours, List.of());
        var second = new Cluster.Server("regionserver-classic", Cluster.CLASSIC, Cluster.CLASSIC_PAGE, ours, Cluster.BY_CLASSIC.settings());
        try (Cluster cluster = new Cluster(settings(ours), false, List.of(List.of(), List.of(), List.of()), first, second)) {
            Site.use(cluster);
            List<String> victims = new ArrayList<>(List.of("regionserver", "datanode", "regionserver-classic", "datanode-1", "datanode-2"));
            if (ours && controller(cluster)) {
                victims.add(1, "controller");
            }
            for (String tenant : TENANTS) {
                table(tenant);
            }
            AtomicBoolean stop = new AtomicBoolean();
            ExecutorService tools = Executors.newFixedThreadPool(TENANTS.size());
            try {
                List<Future<Integer>> keys = new ArrayList<>();
                for (String tenant : TENANTS) {
                    keys.add(tools.submit(() -> write(cluster, tenant, stop)));
                }
                Map<String, Integer> killed = kill(cluster, victims, keys);
                stop.set(true);
                int verified = 0;
                for (int at = 0; at < TENANTS.size(); at++) {
                    int count = keys.get(at).get();
                    tool(cluster, TENANTS.get(at), "read", 0, count);
                    verified += count;
                }
                System.err.println((ours ? "with" : "without") + " plug-in and agent: " + verified
                    + " keys of three columns were written and verified; killed: " + killed);
                if (ours) {
                    for (int page : new int[] {Cluster.DEFAULT_PAGE, Cluster.CLASSIC_PAGE}) {
                        System.err.println(Told.by(page));
                    }
                }
            } finally {
                stop.set(true);
                tools.shutdownNow();
            }
        }
    }

    /** Starts a controller, if its program is there. */
    private static boolean controller(Cluster cluster) throws Exception {
        Path program = PROGRAMS.resolve("headworks-controller");
        if (!Files.isExecutable(program)) {
            System.err.println("skipped: no controller is killed: headworks-controller is not built (cargo build --workspace)");
            return false;
        }
        Path config = cluster.directory().resolve("controller.toml");
        Files.writeString(config, "listen = \"" + CONTROLLER + "\"\nstate = \"" + cluster.directory().resolve("controller") + "\"\n");
        cluster.launch("controller", List.of(program.toString(), "serve", "--config", config.toString()));
        return true;
    }

    /** Eight regions: each hexadecimal digit begins as many of the tool's keys. */
    private static void table(String name) throws Exception {
        byte[][] splits = new byte[7][];
        for (int region = 1; region <= splits.length; region++) {
            splits[region - 1] = Bytes.toBytes(Integer.toHexString(2 * region));
        }
        try (Connection root = Site.connect("root"); Admin admin = root.getAdmin()) {
            admin.createTable(TableDescriptorBuilder.newBuilder(TableName.valueOf(name))
                .setColumnFamily(ColumnFamilyDescriptorBuilder.of(LoadTool.FAMILY)).build(), splits);
        }
    }

    /** Writes until it is told to stop: how many keys there are. */
    private static int write(Cluster cluster, String tenant, AtomicBoolean stop) throws Exception {
        int keys = 0;
        while (!stop.get()) {
            tool(cluster, tenant, "write", keys, keys + KEYS);
            keys += KEYS;
        }
        return keys;
    }

    private static void tool(Cluster cluster, String tenant, String what, int from, int to) throws Exception {
        String name = what + "-" + tenant;
        int status = cluster.tool(name, Map.of("HADOOP_USER_NAME", tenant), LoadTool.class.getName(), List.of(what, tenant, "" + from, "" + to));
        assertEquals(0, status, what + " of keys from " + from + " to " + to + " of " + tenant + ":\n" + cluster.tail(name));
    }

    /** Kills each in turn and starts it again, as long as the test lasts: how often each was killed. */
    private static Map<String, Integer> kill(Cluster cluster, List<String> victims, List<Future<Integer>> writers) throws Exception {
        Map<String, Integer> killed = new TreeMap<>();
        long end = System.nanoTime() + SECONDS * 1_000_000_000L;
        try (Connection root = Site.connect("root"); Admin admin = root.getAdmin()) {
            for (int turn = 0; System.nanoTime() < end; turn++) {
                String victim = victims.get(turn % victims.size());
                Thread.sleep(3_000);
                cluster.runs();
                cluster.kill(victim);
                Thread.sleep(1_000);
                cluster.restart(victim);
                killed.merge(victim, 1, Integer::sum);
                // The other region server has all regions meanwhile: it must not go before this one is back.
                long late = System.nanoTime() + 120_000_000_000L;
                while (victim.startsWith("regionserver") && admin.getRegionServers().size() < cluster.regionServers()) {
                    assertTrue(System.nanoTime() < late, victim + " has not come back:\n" + cluster.tail(victim));
                    cluster.runs();
                    Thread.sleep(200);
                }
                for (Future<Integer> writer : writers) {
                    if (writer.isDone()) {
                        writer.get();
                    }
                }
            }
        }
        return killed;
    }

    /** One of two region servers runs without the plug-in: both serve, and {@code doctor} names it. */
    @Test
    void aClusterWithANodeWithoutThePlugInServesAndDoctorNamesIt() throws Exception {
        assumeTrue(System.getenv("HEADWORKS_CLUSTER") != null, "a cluster needs a network namespace: run scripts/test-hbase");
        Path program = PROGRAMS.resolve("headworks-hbase");
        assumeTrue(Files.isExecutable(program), "skipped: headworks-hbase is not built (cargo build --workspace)");
        // The node that lacks the plug-in has another address: pages of all nodes have one port.
        String lacks = "127.0.0.2";
        var with = new Cluster.Server("regionserver", Cluster.DEFAULT, Cluster.DEFAULT_PAGE, true, List.of());
        var without = new Cluster.Server("regionserver-stock", Cluster.CLASSIC, Cluster.DEFAULT_PAGE, false, List.of(
            "hbase.ipc.server.callqueue.type=fifo", "hbase.regionserver.hostname=" + lacks, "hbase.regionserver.ipc.address=" + lacks,
            "hbase.regionserver.info.bindAddress=" + lacks));
        Map<String, String> settings = Map.of("hbase.ipc.server.callqueue.type", "pluggable",
            "hbase.ipc.server.callqueue.pluggable.queue.class.name", Measured.OUR_QUEUE);
        try (Cluster cluster = new Cluster(settings, false, with, without)) {
            Site.use(cluster);
            TableName[] tables = {TableName.valueOf("at_ours"), TableName.valueOf("at_stock")};
            Site.table(tables[0], Cluster.DEFAULT, true, 20, 100);
            Site.table(tables[1], Cluster.CLASSIC, true, 20, 100);
            for (String tenant : TENANTS) {
                try (Connection connection = Site.connect(tenant)) {
                    for (TableName name : tables) {
                        try (Table table = connection.getTable(name)) {
                            for (int row = 0; row < 20; row++) {
                                assertEquals(100, table.get(new Get(Site.key(row))).value().length);
                            }
                        }
                    }
                }
            }
            Path conf = cluster.hbaseSite().getParent();
            Files.writeString(conf.resolve("regionservers"), "127.0.0.1\n" + lacks + "\n");
            Files.writeString(conf.resolve("workers"), "127.0.0.1\n");
            Process doctor = new ProcessBuilder(program.toString(), "doctor", "--conf", conf.toString(), "--hadoop-conf", conf.toString())
                .redirectErrorStream(true).start();
            String said = new String(doctor.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            System.err.println(said);
            assertTrue(doctor.waitFor() != 0, said);
            for (String words : List.of("region server 127.0.0.1:16030: plug-in and agent",
                "region server 127.0.0.2:16030: neither plug-in nor agent: it serves as a stock server", "DataNode 127.0.0.1:9864: plug-in and agent")) {
                assertTrue(said.contains(words), words + ":\n" + said);
            }
        }
    }
}

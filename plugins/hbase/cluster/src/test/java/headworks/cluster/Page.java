package headworks.cluster;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.Get;
import org.apache.hadoop.hbase.client.Table;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/**
 * What an operator has who follows the pages by their own commands: two controllers, of which the first is away, a word, weights
 * in the configuration. {@code make test-long} runs it.
 */
@Timeout(600)
class Page {
    private static final String AWAY = "127.0.0.1:7701";
    private static final String THERE = "127.0.0.1:7700";
    private static final int[] NODES = {Cluster.DEFAULT_PAGE, Cluster.DATANODE_PAGE};

    @Test
    void weightsReachRegionServersAndDataNodes() throws Exception {
        assumeTrue(System.getenv("HEADWORKS_CLUSTER") != null, "a cluster needs a network namespace: run scripts/test-hbase");
        Path controller = Cluster.PROGRAMS.resolve("headworks-controller");
        assumeTrue(Files.isExecutable(controller), "skipped: headworks-controller is not built (cargo build --workspace)");
        Path own = Files.createTempDirectory("headworks-page-");
        Path token = Files.writeString(own.resolve("token"), "word-of-the-test\n");
        List<String> enable = List.of("--controller", AWAY + "," + THERE, "--set", "headworks.controller.token.file=" + token,
            "--set", "headworks.weights=alice=2, bob=1");
        try (Cluster cluster = new Cluster(Map.of("hbase.regionserver.handler.count", "10"), false, List.of(List.of()), enable, Cluster.BY_DEFAULT)) {
            Site.use(cluster);
            TableName table = TableName.valueOf("rows");
            Site.table(table, Cluster.DEFAULT, false, 20, 100_000);
            try (Connection root = Site.connect("root")) {
                root.getAdmin().flush(table);
            }
            AtomicBoolean stop = new AtomicBoolean();
            List<Thread> readers = new ArrayList<>();
            for (String user : List.of("alice", "alice", "bob", "bob")) {
                readers.add(new Thread(() -> read(user, table, stop)));
            }
            readers.forEach(Thread::start);
            try {
                // While controllers are away, what the file says holds.
                await(2, 1);
                Path config = Files.writeString(own.resolve("controller.toml"), "listen = \"" + THERE + "\"\nstate = \"" + own.resolve("state")
                    + "\"\ntoken_file = \"" + token + "\"\nperiod_ms = 500\n");
                cluster.launch("controller", List.of(controller.toString(), "serve", "--config", config.toString()));
                cluster.await("controller", "in office");
                for (String[] each : new String[][] {{"alice", "6"}, {"bob", "1"}}) {
                    cluster.launch("set-" + each[0], List.of(controller.toString(), "set", each[0], "--weight", each[1], "--controller", THERE,
                        "--token-file", token.toString()));
                    cluster.await("set-" + each[0], "is set");
                }
                await(6, 1);
                // HMaster reads the same file, and is no node.
                cluster.launch("status", List.of(controller.toString(), "status", "--controller", AWAY, "--controller", THERE, "--token-file", token.toString()));
                cluster.await("status", "TENANT");
                String status = cluster.tail("status");
                assertEquals(1, status.lines().filter(line -> line.contains(" regionserver ")).count(), status);
                assertEquals(1, status.lines().filter(line -> line.contains(" datanode ")).count(), status);
                assertEquals(0, cluster.ours(List.of("doctor")), cluster.tail("ours"));
                assertFalse(cluster.tail("ours").contains("WRONG"), cluster.tail("ours"));
            } finally {
                stop.set(true);
                for (Thread reader : readers) {
                    reader.join();
                }
            }
        }
    }

    private static void read(String user, TableName name, AtomicBoolean stop) {
        try (Connection connection = Site.connect(user); Table table = connection.getTable(name)) {
            for (int row = 0; !stop.get(); row = (row + 1) % 20) {
                table.get(new Get(Site.key(row)));
            }
        } catch (Exception failed) {
            failed.printStackTrace();
        }
    }

    /** Waits until both nodes have these weights. The controller's factors may differ a little from one. */
    private static void await(double alice, double bob) throws Exception {
        long end = System.nanoTime() + 120_000_000_000L;
        for (int page : NODES) {
            while (true) {
                Told told = Told.by(page);
                double ratio = told.weight("alice") / told.weight("bob");
                if (told.weight("bob") > 0 && Math.abs(ratio * bob / alice - 1) < 0.2) {
                    break;
                }
                assertTrue(System.nanoTime() < end, page + " instead of " + alice + " and " + bob + ": " + told);
                Thread.sleep(500);
            }
        }
    }
}

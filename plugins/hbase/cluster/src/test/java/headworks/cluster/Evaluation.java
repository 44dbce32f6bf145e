package headworks.cluster;

import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.ColumnFamilyDescriptorBuilder;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.TableDescriptorBuilder;
import org.apache.hadoop.hbase.util.Bytes;
import org.junit.jupiter.api.Test;

/**
 * HBase's own PerformanceEvaluation with eight threads: rows of 1 kB are written and read at random, at a stock region server and
 * at one with plug-in and agent, by turns. It is run by hand, by {@code scripts/test-hbase -Dtest=Evaluation
 * -Dsurefire.failIfNoSpecifiedTests=false}. Maven Central has the program of HBase 2.5 and not that of 2.6.
 */
class Evaluation {
    private static final String PROGRAM = "org.apache.hadoop.hbase.PerformanceEvaluation";
    private static final String THREADS = "8";
    private static final int ROUNDS = 3;
    private static final int[] SERVERS = {Cluster.CLASSIC, Cluster.DEFAULT};
    private static final String[] STATES = {"stock", "ours"};
    private static final String[] TESTS = {"randomWrite", "randomRead"};
    private static final Pattern RATE = Pattern.compile("Avg TPS/QPS][^0-9]*([0-9]+)");

    @Test
    void randomReadsAndWrites() throws Exception {
        assumeTrue(System.getenv("HEADWORKS_CLUSTER") != null, "a cluster needs a network namespace: run scripts/test-hbase");
        assumeTrue(Cluster.hasTools(), "skipped: HBase's own programs are not fetched: make setup-java");
        var ours = new Cluster.Server("regionserver", Cluster.DEFAULT, Cluster.DEFAULT_PAGE, true, List.of());
        var stock = new Cluster.Server("regionserver-stock", Cluster.CLASSIC, Cluster.CLASSIC_PAGE, false, List.of("hbase.ipc.server.callqueue.type=fifo"));
        Map<String, String> settings = Map.of("hbase.ipc.server.callqueue.type", "pluggable",
            "hbase.ipc.server.callqueue.pluggable.queue.class.name", Measured.OUR_QUEUE);
        long[][][] rates = new long[TESTS.length][SERVERS.length][ROUNDS];
        try (Cluster cluster = new Cluster(settings, true, ours, stock)) {
            Site.use(cluster);
            for (int server = 0; server < SERVERS.length; server++) {
                table(STATES[server], SERVERS[server]);
                // It fills the table, and warms up the server.
                evaluate(cluster, STATES[server], "sequentialWrite", "fill");
            }
            for (int round = 0; round < ROUNDS; round++) {
                for (int test = 0; test < TESTS.length; test++) {
                    for (int turn = 0; turn < SERVERS.length; turn++) {
                        int server = (round + turn) % SERVERS.length;
                        rates[test][server][round] = evaluate(cluster, STATES[server], TESTS[test], "" + round);
                    }
                }
            }
            System.err.println("several tenants: " + Told.by(Cluster.DEFAULT_PAGE).several());
        }
        for (int test = 0; test < TESTS.length; test++) {
            long[] medians = Arrays.stream(rates[test]).mapToLong(all -> Arrays.stream(all).sorted().toArray()[ROUNDS / 2]).toArray();
            System.err.printf(Locale.ROOT, "%s, rows a second: %s, medians %s, ours ÷ stock %.2f%n", TESTS[test], Arrays.deepToString(rates[test]),
                Arrays.toString(medians), (double) medians[1] / medians[0]);
        }
    }

    private static void table(String name, int port) throws Exception {
        TableName table = TableName.valueOf(name);
        try (Connection root = Site.connect("root"); Admin admin = root.getAdmin()) {
            admin.createTable(TableDescriptorBuilder.newBuilder(table).setColumnFamily(ColumnFamilyDescriptorBuilder.of(Bytes.toBytes("info0"))).build());
            admin.move(admin.getRegions(table).get(0).getEncodedNameAsBytes(), Site.server(admin, port));
        }
    }

    /** Rows a second. */
    private static long evaluate(Cluster cluster, String table, String test, String round) throws IOException {
        String name = table + "-" + test + "-" + round;
        int failed = cluster.tool(name, Map.of(), PROGRAM, List.of("--nomapred", "--table=" + table, "--rows=5000", "--autoFlush=true", test, THREADS));
        Matcher rate = RATE.matcher(cluster.tail(name));
        if (failed != 0 || !rate.find()) {
            throw new IOException(PROGRAM + " has failed:\n" + cluster.tail(name));
        }
        return Long.parseLong(rate.group(1));
    }
}

package headworks.cluster;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.regex.Pattern;
import org.apache.hadoop.hbase.CompareOperator;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.Append;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.Get;
import org.apache.hadoop.hbase.client.Increment;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.Result;
import org.apache.hadoop.hbase.client.ResultScanner;
import org.apache.hadoop.hbase.client.Scan;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.filter.BinaryComparator;
import org.apache.hadoop.hbase.filter.RegexStringComparator;
import org.apache.hadoop.hbase.filter.RowFilter;
import org.apache.hadoop.hbase.filter.ValueFilter;
import org.apache.hadoop.hbase.util.Bytes;
import org.junit.jupiter.api.Test;

/**
 * What a small tenant has of the processors beside a large one, with the plug-in and at a stock server of the same cluster, by
 * turns. Region servers have one processor, and all else the other one. By hand: it needs a quiet machine.
 */
class Shares {
    private static final TableName[] TABLES = {TableName.valueOf("ours"), TableName.valueOf("stock")};
    private static final int ROWS = 50_000;
    private static final int WIDE = 90_000;
    private static final int COLUMNS = 20_000;
    private static final int MEASURED_MS = Integer.getInteger("shares.ms", 3_000);
    private static final int WARM_UP_MS = 1_500;
    /** Only loads whose words have this. */
    private static final Pattern ONLY = Pattern.compile(System.getenv().getOrDefault("HEADWORKS_ONLY", ""));

    private final StringBuilder found = new StringBuilder();

    private interface Work {
        void once(Table table) throws Exception;
    }

    /** Clients of one user that do the same again and again, at most so often a second; 0: as often as they can. */
    private record Crowd(String user, int clients, double perSecond, Work work) {
        Crowd(String user, int clients, Work work) {
            this(user, clients, 0, work);
        }
    }

    @Test
    void shares() throws Exception {
        // What is started here has the other processor, too, but for region servers.
        new ProcessBuilder("taskset", "-acp", "1", "" + ProcessHandle.current().pid()).redirectErrorStream(true)
            .redirectOutput(ProcessBuilder.Redirect.DISCARD).start().waitFor();
        Map<String, String> settings = Map.of("hbase.regionserver.handler.count", "30", "hbase.ipc.server.max.callqueue.length", "2000",
            "hbase.ipc.server.callqueue.type", "pluggable", "hbase.ipc.server.callqueue.pluggable.queue.class.name", "headworks.hbase.FairCallQueue",
            "headworks.weights", "heavy=3");
        var ours = new Cluster.Server("regionserver", Cluster.DEFAULT, Cluster.DEFAULT_PAGE, true, List.of());
        var stock = new Cluster.Server("regionserver-stock", Cluster.CLASSIC, Cluster.CLASSIC_PAGE, false, List.of("hbase.ipc.server.callqueue.type=fifo"));
        Cluster.processor = "0";
        try (Cluster cluster = new Cluster(settings, true, ours, stock)) {
            Site.use(cluster);
            load();
            measure();
        }
        System.err.println(found);
    }

    private static void load() throws Exception {
        for (int at = 0; at < TABLES.length; at++) {
            Site.table(TABLES[at], at == 0 ? Cluster.DEFAULT : Cluster.CLASSIC, true, 1, 1_000);
            try (Connection root = Site.connect("root"); Table table = root.getTable(TABLES[at]); Admin admin = root.getAdmin()) {
                for (int row = 0; row < ROWS; row += 1_000) {
                    List<Put> puts = new ArrayList<>();
                    for (int each = row; each < row + 1_000; each++) {
                        puts.add(Site.put(each, 1_000));
                    }
                    table.put(puts);
                }
                Put wide = new Put(Site.key(WIDE));
                for (int column = 0; column < COLUMNS; column++) {
                    wide.addColumn(Site.FAMILY, Bytes.toBytes(column), Bytes.toBytes(column));
                }
                table.put(wide);
                admin.flush(TABLES[at]);
                filtered(table);
            }
        }
    }

    private static void get(Table table) throws IOException {
        table.get(new Get(Site.key(ThreadLocalRandom.current().nextInt(ROWS))));
    }

    private static void filtered(Table table) throws IOException {
        scan(table, new Scan().setFilter(new RowFilter(CompareOperator.EQUAL, new RegexStringComparator("..000"))));
    }

    private static void scan(Table table, Scan scan) throws IOException {
        try (ResultScanner rows = table.getScanner(scan)) {
            for (Result row : rows) {
                row.isEmpty();
            }
        }
    }

    private static void gets(Table table) throws IOException {
        List<Get> all = new ArrayList<>();
        for (int at = 0; at < 1_000; at++) {
            all.add(new Get(Site.key(ThreadLocalRandom.current().nextInt(ROWS))));
        }
        table.get(all);
    }

    /** Batches whose answers are small: a client has little to do with them. */
    private static void checks(Table table) throws IOException {
        List<Get> all = new ArrayList<>();
        for (int at = 0; at < 1_000; at++) {
            all.add(new Get(Site.key(ThreadLocalRandom.current().nextInt(ROWS))));
        }
        table.exists(all);
    }

    private static void five(Table table) throws IOException {
        int first = ThreadLocalRandom.current().nextInt(ROWS - 500);
        scan(table, new Scan().withStartRow(Site.key(first)).setLimit(500).setCaching(500));
    }

    private static void part(Table table) throws IOException {
        int first = ThreadLocalRandom.current().nextInt(ROWS - 5_000);
        scan(table, new Scan().withStartRow(Site.key(first)).withStopRow(Site.key(first + 5_000))
            .setFilter(new RowFilter(CompareOperator.EQUAL, new RegexStringComparator("..000"))));
    }

    private static void wide(Table table) throws IOException {
        table.get(new Get(Site.key(WIDE)).setFilter(new ValueFilter(CompareOperator.EQUAL, new BinaryComparator(Bytes.toBytes(7)))));
    }

    private static void put(Table table) throws IOException {
        table.put(new Put(Site.key(ThreadLocalRandom.current().nextInt(ROWS))).addColumn(Site.FAMILY, Bytes.toBytes("p"), new byte[100]));
    }

    private static void increment(Table table) throws IOException {
        byte[] row = Site.key(ThreadLocalRandom.current().nextInt(100));
        if (ThreadLocalRandom.current().nextBoolean()) {
            table.increment(new Increment(row).addColumn(Site.FAMILY, Bytes.toBytes("i"), 1));
        } else {
            table.append(new Append(row).addColumn(Site.FAMILY, Bytes.toBytes("a" + ThreadLocalRandom.current().nextInt(1_000)), new byte[4]));
        }
    }

    private void measure() throws Exception {
        Crowd gets = new Crowd("few", 20, Shares::get);
        Crowd puts = new Crowd("few", 20, Shares::put);
        Crowd increments = new Crowd("few", 20, Shares::increment);
        Crowd scans = new Crowd("many", 40, Shares::filtered);
        Crowd batches = new Crowd("many", 40, Shares::gets);
        // The compiler of the virtual machine comes first.
        for (int round = 0; round < 2; round++) {
            for (TableName table : TABLES) {
                window(table, 3_000, gets, batches, scans);
            }
        }
        beside("gets", gets, "filtered scans", scans);
        beside("gets", gets, "batches of 1000 gets", batches);
        beside("gets", gets, "batches of 1000 checks", new Crowd("many", 40, Shares::checks));
        beside("gets", gets, "rows of 20000 columns", new Crowd("many", 40, Shares::wide));
        beside("puts", puts, "rows of 20000 columns", new Crowd("many", 40, Shares::wide));
        beside("increments and appends", increments, "batches of 1000 gets", batches);
        for (int rate : new int[] {200, 1_000, 2_000}) {
            beside(rate + " gets a second", new Crowd("few", 20, rate, Shares::get), "filtered scans", scans);
        }
        beside("one get in 100 ms", new Crowd("few", 1, 10, Shares::get), "100 filtered scans by one row", new Crowd("many", 100,
            table -> scan(table, new Scan().setCaching(1).setFilter(new RowFilter(CompareOperator.EQUAL, new RegexStringComparator("..000"))))));
        weights("scans of 500 rows", 20, Shares::five);
        weights("filtered scans of 5000 rows", 20, Shares::part);
        weights("rows of 20000 columns", 20, Shares::wide);
        weights("batches of 1000 checks", 20, Shares::checks);
        weights("gets", 30, Shares::get);
    }

    private void weights(String what, int clients, Work work) throws Exception {
        for (TableName table : ONLY.matcher("weights, " + what).find() ? TABLES : new TableName[0]) {
            double[][] both = window(table, MEASURED_MS, new Crowd("heavy", clients, work), new Crowd("light", clients, work));
            say("%s: %s, weights 3 : 1: %.0f : %.0f a second = %.2f%n", table, what, both[0][0], both[1][0], both[0][0] / both[1][0]);
        }
    }

    private void say(String words, Object... of) {
        String text = String.format(Locale.ROOT, words, of);
        found.append(text);
        System.err.print(text);
    }

    private void beside(String small, Crowd few, String large, Crowd many) throws Exception {
        if (!ONLY.matcher(small + " beside " + large).find()) {
            return;
        }
        for (TableName table : TABLES) {
            double[] alone = window(table, MEASURED_MS, few)[0];
            double[] others = window(table, MEASURED_MS, many)[0];
            double[][] both = window(table, MEASURED_MS, few, many);
            double fair = few.perSecond > 0 ? Math.min(few.perSecond, alone[0]) : alone[0] / 2;
            say("%s: %s beside %s: %.0f of %.0f a second alone, %.2f of what is due; p50 %.1f p99 %.1f ms; alone %.1f, %.1f. Others %.1f of %.1f: %.2f%n",
                table, small, large, both[0][0], alone[0], both[0][0] / fair, both[0][1], both[0][2], alone[1], alone[2],
                both[1][0], others[0], both[1][0] / others[0]);
        }
    }

    /** Requests a second of each crowd, and their p50 and p99 in milliseconds. */
    private static double[][] window(TableName name, int ms, Crowd... crowds) throws Exception {
        AtomicBoolean stop = new AtomicBoolean();
        List<Thread> threads = new ArrayList<>();
        List<Connection> connections = new ArrayList<>();
        AtomicLong[] done = new AtomicLong[crowds.length];
        List<ConcurrentLinkedQueue<Long>> times = new ArrayList<>();
        for (int at = 0; at < crowds.length; at++) {
            Crowd crowd = crowds[at];
            AtomicLong count = done[at] = new AtomicLong();
            ConcurrentLinkedQueue<Long> own = new ConcurrentLinkedQueue<>();
            times.add(own);
            Connection connection = Site.connect(crowd.user);
            connections.add(connection);
            for (int client = 0; client < crowd.clients; client++) {
                Thread thread = new Thread(() -> serve(name, crowd, connection, stop, count, own));
                threads.add(thread);
                thread.start();
            }
        }
        Thread.sleep(WARM_UP_MS);
        long[] before = new long[crowds.length];
        long since = System.nanoTime();
        for (int at = 0; at < crowds.length; at++) {
            before[at] = done[at].get();
            times.get(at).clear();
        }
        Thread.sleep(ms);
        double seconds = (System.nanoTime() - since) / 1e9;
        double[][] figures = new double[crowds.length][];
        for (int at = 0; at < crowds.length; at++) {
            figures[at] = new double[] {(done[at].get() - before[at]) / seconds,
                Measured.percentile(times.get(at), 0.5), Measured.percentile(times.get(at), 0.99)};
        }
        stop.set(true);
        for (Thread thread : threads) {
            thread.join();
        }
        for (Connection connection : connections) {
            connection.close();
        }
        return figures;
    }

    private static void serve(TableName name, Crowd crowd, Connection connection, AtomicBoolean stop, AtomicLong done, ConcurrentLinkedQueue<Long> times) {
        long due = System.nanoTime();
        long every = crowd.perSecond > 0 ? (long) (1e9 * crowd.clients / crowd.perSecond) : 0;
        try (Table table = connection.getTable(name)) {
            while (!stop.get()) {
                // With a rate a request is late from when it was due: clients do not wait for slow ones before.
                due = every > 0 ? due + every : System.nanoTime();
                LockSupport.parkNanos(due - System.nanoTime());
                crowd.work.once(table);
                done.incrementAndGet();
                times.add(System.nanoTime() - due);
            }
        } catch (Exception failed) {
            failed.printStackTrace();
        }
    }
}

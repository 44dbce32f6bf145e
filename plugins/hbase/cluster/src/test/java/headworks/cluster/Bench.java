package headworks.cluster;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.Get;
import org.apache.hadoop.hbase.client.ResultScanner;
import org.apache.hadoop.hbase.client.Scan;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.quotas.ThrottleType;
import org.junit.jupiter.api.Test;
import site.ycsb.workloads.CoreWorkload;

/**
 * Experiments in which handlers or the network are what requests wait for. Each method is one run; see
 * {@link Measured}. The class's name does not end in Test, so that Maven does not run it with the tests.
 */
class Bench extends Measured {
    /** HBASE-12790: so many scans of one client, beside one scan and ten gets a second of another. */
    @Test
    void neighbours() throws Exception {
        run(Map.of(), cluster -> {
            Site.table(TABLE, Cluster.DEFAULT, true, 500, 100);
            // Half of what ten handlers can do.
            limit("many", ThrottleType.READ_NUMBER, 250);
            try (Connection many = connect("many"); Connection few = connect("few")) {
                AtomicLong large = new AtomicLong();
                AtomicLong small = new AtomicLong();
                AtomicLong gets = new AtomicLong();
                ConcurrentLinkedQueue<Long> times = new ConcurrentLinkedQueue<>();
                ConcurrentLinkedQueue<Long> rows = new ConcurrentLinkedQueue<>();
                clients((int) POINT, many, large, null, table -> scan(table, large, rows));
                clients(1, few, small, null, table -> scan(table, small, new ConcurrentLinkedQueue<>()));
                clients(1, few, gets, null, table -> {
                    long since = System.nanoTime();
                    table.get(new Get(Site.key(1)));
                    times.add(System.nanoTime() - since);
                    Thread.sleep(100);
                });
                long[] start = new long[2];
                measure(() -> {
                    start[0] = large.get();
                    start[1] = small.get();
                    times.clear();
                    rows.clear();
                });
                double seconds = figures.get("seconds");
                figures.put("many_per_s", (large.get() - start[0]) / seconds);
                figures.put("few_per_s", (small.get() - start[1]) / seconds);
                figures.put("few_p50_ms", percentile(times, 0.5));
                figures.put("few_p99_ms", percentile(times, 0.99));
                figures.put("many_p99_ms", percentile(rows, 0.99));
                end();
            }
        });
    }

    private void scan(Table table, AtomicLong rows, ConcurrentLinkedQueue<Long> times) throws IOException {
        try (ResultScanner scanner = table.getScanner(new Scan().setCaching(1).setFilter(new SlowRows()))) {
            for (long since = System.nanoTime(); !stop.get() && scanner.next() != null; since = System.nanoTime()) {
                rows.incrementAndGet();
                times.add(System.nanoTime() - since);
            }
        }
    }

    /**
     * Figure 4.18: five clients with weights from one to five, and handlers as what they wait for. YCSB's core
     * workload C, or A if the point says that half of the requests are updates; a read takes a handler 20 ms.
     */
    @Test
    void weights() throws Exception {
        run(Map.of("headworks.weights", "c1=1,c2=2,c3=3,c4=4,c5=5"), cluster -> {
            CoreWorkload workload = Ycsb.load(TABLE, Cluster.DEFAULT, (int) POINT);
            AtomicLong[] done = new AtomicLong[5];
            List<ConcurrentLinkedQueue<Long>> times = new ArrayList<>();
            Map<String, Long> parts = new TreeMap<>();
            for (int client = 1; client <= done.length; client++) {
                // Ten handlers serve 500 reads a second. An update takes a small part of a read's time.
                parts.put("c" + client, (long) (client * 490 / (1 - POINT / 100) / 15));
            }
            limit(ThrottleType.REQUEST_NUMBER, (long) (490 / (1 - POINT / 100)), parts);
            List<Connection> connections = new ArrayList<>();
            for (int client = 0; client < done.length; client++) {
                AtomicLong count = done[client] = new AtomicLong();
                Connection connection = connect("c" + (client + 1));
                connections.add(connection);
                times.add(new ConcurrentLinkedQueue<>());
                clients(16, connection, count, times.get(client), table -> Ycsb.request(workload, table, new SlowRows()));
            }
            long[] start = new long[done.length];
            measure(() -> {
                Arrays.setAll(start, client -> done[client].get());
                times.forEach(ConcurrentLinkedQueue::clear);
            }, done);
            figures.put("worst_second", worstSecond());
            for (int client = 0; client < done.length; client++) {
                figures.put("c" + (client + 1) + "_per_s", (done[client].get() - start[client]) / figures.get("seconds"));
                figures.put("c" + (client + 1) + "_p99_ms", percentile(times.get(client), 0.99));
            }
            end();
            for (Connection connection : connections) {
                connection.close();
            }
        });
    }

    /** Largest distance of a client's part of a second from its weight. */
    private double worstSecond() {
        double worst = 0;
        for (int second = 1; second < bySecond.size(); second++) {
            long[] before = bySecond.get(second - 1);
            long[] after = bySecond.get(second);
            double all = Arrays.stream(after).sum() - Arrays.stream(before).sum();
            for (int client = 0; client < after.length; client++) {
                double due = all * (client + 1) * 2 / (after.length * (after.length + 1));
                worst = Math.max(worst, Math.abs((after[client] - before[client]) / due - 1));
            }
        }
        return worst;
    }

    /** Gives the loopback of the namespace 100 Mbit/s. */
    private static void slowLoopback() throws Exception {
        Process limit = new ProcessBuilder("tc", "qdisc", "replace", "dev", "lo", "root", "tbf", "rate", "100mbit", "burst", "256kb", "latency", "200ms")
            .inheritIO().start();
        if (limit.waitFor() != 0) {
            throw new IOException("the loopback's rate cannot be set: install iproute2, and a kernel with sch_tbf");
        }
    }

    /** Figure 4.15: C1's responses have 20 kB, C2's as many as the point says; the network has 100 Mbit/s. */
    @Test
    void network() throws Exception {
        slowLoopback();
        // A little less than the link has, so that what waits does so where it is ordered.
        run(Map.of("headworks.network.bytes-per-second", "11700000"), cluster -> {
            Site.table(TABLE, Cluster.DEFAULT, true, 1, 20_000);
            // Half of the link each.
            limit(ThrottleType.READ_SIZE, 11_700_000, Map.of("c1", 5_850_000L, "c2", 5_850_000L));
            try (Connection c1 = connect("c1"); Connection c2 = connect("c2")) {
                try (Table table = c1.getTable(TABLE)) {
                    table.put(Site.put(1, (int) (POINT * 1_000)));
                }
                AtomicLong first = new AtomicLong();
                AtomicLong second = new AtomicLong();
                ConcurrentLinkedQueue<Long> times = new ConcurrentLinkedQueue<>();
                ConcurrentLinkedQueue<Long> others = new ConcurrentLinkedQueue<>();
                clients(16, c1, first, times, table -> table.get(new Get(Site.key(0))));
                clients(16, c2, second, others, table -> table.get(new Get(Site.key(1))));
                long[] start = new long[2];
                measure(() -> {
                    start[0] = first.get();
                    start[1] = second.get();
                    times.clear();
                    others.clear();
                });
                figures.put("c1_per_s", (first.get() - start[0]) / figures.get("seconds"));
                figures.put("c2_per_s", (second.get() - start[1]) / figures.get("seconds"));
                figures.put("c1_p99_ms", percentile(times, 0.99));
                figures.put("c2_p99_ms", percentile(others, 0.99));
                end();
            }
        });
    }

    /** A third region server: there the plug-in is switched off. */
    private static final int OFF = 16_220;
    private static final int OFF_PAGE = 16_230;
    private static final int AGAIN = 16_320;
    private static final int AGAIN_PAGE = 16_330;
    /** Where windows are: a stock region server, one with the plug-in, one where it is switched off, and a second stock one. */
    private static final int[] SERVERS = {Cluster.CLASSIC, Cluster.DEFAULT, OFF, AGAIN};
    private static final String[] STATES = {"stock", "one_tenant", "switched_off", "stock_again"};

    /**
     * What the plug-in costs one client: windows at four region servers of one cluster, in random order. Two are stock: what
     * these differ by is how exact the rest is.
     */
    @Test
    void cost() throws Exception {
        Map<String, String> ours = Map.of("hbase.regionserver.handler.count", "30",
            "hbase.ipc.server.callqueue.type", "pluggable", "hbase.ipc.server.callqueue.pluggable.queue.class.name", OUR_QUEUE);
        var with = new Cluster.Server("regionserver", Cluster.DEFAULT, Cluster.DEFAULT_PAGE, true, List.of());
        var off = new Cluster.Server("regionserver-off", OFF, OFF_PAGE, true, List.of("headworks.enabled=false"));
        var stock = new Cluster.Server("regionserver-stock", Cluster.CLASSIC, Cluster.CLASSIC_PAGE, false, List.of("hbase.ipc.server.callqueue.type=fifo"));
        var again = new Cluster.Server("regionserver-again", AGAIN, AGAIN_PAGE, false, stock.settings());
        try (Cluster cluster = new Cluster(ours, true, with, off, stock, again)) {
            Site.use(cluster);
            CoreWorkload half = ycsb("a", 50);
            CoreWorkload reads = ycsb("c", 0);
            for (int server = 0; server < SERVERS.length; server++) {
                Site.table(table("puts", server), SERVERS[server], true, 1, 1_000);
            }
            windows("ycsb_a", table -> Ycsb.request(half, table, null));
            windows("ycsb_c", table -> Ycsb.request(reads, table, null));
            windows("puts", table -> table.put(Site.put(ThreadLocalRandom.current().nextInt(1_000), 1_000)));
            // The one tenant has loaded the tables, too. With a second one all would be ordered.
            figures.put("second_tenant", Told.by(Cluster.DEFAULT_PAGE).several() ? 1.0 : 0.0);
        }
        write();
    }

    private static TableName table(String load, int server) {
        return TableName.valueOf(load + "_" + STATES[server]);
    }

    private static CoreWorkload ycsb(String letter, int updates) throws Exception {
        CoreWorkload workload = null;
        for (int server = 0; server < SERVERS.length; server++) {
            workload = Ycsb.load(table("ycsb_" + letter, server), SERVERS[server], updates);
        }
        return workload;
    }

    private void windows(String load, Work work) throws Exception {
        double[][] ratios = new double[SERVERS.length][Math.max(3, WINDOW_S)];
        double[][] tails = new double[SERVERS.length][ratios[0].length];
        List<Integer> turns = new ArrayList<>(List.of(0, 1, 2, 3));
        Random random = new Random(1);
        try (Connection one = Site.connect("root")) {
            // The first round warms up.
            for (int round = -1; round < ratios[0].length; round++) {
                double[][] found = new double[SERVERS.length][];
                Collections.shuffle(turns, random);
                for (int server : turns) {
                    found[server] = window(one, table(load, server), work);
                }
                for (int server = 1; round >= 0 && server < SERVERS.length; server++) {
                    ratios[server][round] = found[server][0] / found[0][0];
                    tails[server][round] = found[server][1] / found[0][1];
                }
            }
        }
        for (int server = 1; server < SERVERS.length; server++) {
            String key = STATES[server] + "_" + load;
            Arrays.sort(ratios[server]);
            Arrays.sort(tails[server]);
            figures.put(key + "_ratio", quantile(ratios[server], 0.5));
            figures.put(key + "_ratio_quarter", quantile(ratios[server], 0.25));
            figures.put(key + "_ratio_three_quarters", quantile(ratios[server], 0.75));
            figures.put(key + "_p99_ratio", quantile(tails[server], 0.5));
        }
    }

    private static double quantile(double[] sorted, double part) {
        return sorted[(int) (sorted.length * part)];
    }

    /** Requests a second of 32 clients in a window of a second and a half, and their p99. */
    private double[] window(Connection connection, TableName name, Work work) throws Exception {
        AtomicBoolean over = new AtomicBoolean();
        AtomicLong done = new AtomicLong();
        ConcurrentLinkedQueue<Long> times = new ConcurrentLinkedQueue<>();
        List<Thread> all = new ArrayList<>();
        for (int number = 0; number < 32; number++) {
            all.add(new Thread(() -> {
                try (Table table = connection.getTable(name)) {
                    while (!over.get()) {
                        long since = System.nanoTime();
                        work.once(table);
                        done.incrementAndGet();
                        times.add(System.nanoTime() - since);
                    }
                } catch (Exception failed) {
                    failures.incrementAndGet();
                }
            }));
        }
        long start = System.nanoTime();
        all.forEach(Thread::start);
        Thread.sleep(1_500);
        double rate = done.get() / ((System.nanoTime() - start) / 1e9);
        over.set(true);
        for (Thread thread : all) {
            thread.join();
        }
        return new double[] {rate, percentile(times, 0.99)};
    }
}

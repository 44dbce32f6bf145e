package headworks.cluster;

import com.codahale.metrics.Counter;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.ConnectionImplementation;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.quotas.QuotaSettingsFactory;
import org.apache.hadoop.hbase.quotas.QuotaTableUtil;
import org.apache.hadoop.hbase.quotas.ThrottleType;

/**
 * One run of one arm of an experiment {@code hbase-…}, which {@code headworks bench run} starts. The figures
 * go into the file of {@code HEADWORKS_FIGURES}, a key and a number on each line.
 */
abstract class Measured {
    static final TableName TABLE = TableName.valueOf("rows");
    static final String ARM = System.getenv().getOrDefault("HEADWORKS_ARM", "ours");
    static final int WINDOW_S = Integer.parseInt(System.getenv().getOrDefault("HEADWORKS_WINDOW_S", "10"));
    static final double POINT = Double.parseDouble(System.getenv().getOrDefault("HEADWORKS_POINT", "0"));
    private static final int WARM_UP_MS = 4_000;
    private static final String HANDLERS = "hbase.regionserver.handler.count";
    private static final Pattern NUMBER = Pattern.compile("\"(numActiveGeneralHandler|BytesRead|BytesWritten)\"\\s*:\\s*([0-9]+)");
    static final String WITHOUT_ATTEMPTS = "ours, without attempts";
    /** HBase's own throttles, with limits that were chosen by hand for the experiment. */
    static final String QUOTAS = "stock, quotas";
    /** With those a user may exceed its limit while the server's limit is not reached. */
    static final String EXCEEDED = "stock, quotas to exceed";
    static final String OUR_QUEUE = "headworks.hbase.FairCallQueue";

    final Map<String, Double> figures = new TreeMap<>();
    private int handlers;
    final AtomicBoolean stop = new AtomicBoolean();
    private final List<Thread> threads = new ArrayList<>();
    final AtomicLong failures = new AtomicLong();
    private final Map<Connection, Client> users = new IdentityHashMap<>();
    /** What clients had done after each second of the window. */
    final List<long[]> bySecond = new ArrayList<>();

    interface Run {
        void with(Cluster cluster) throws Exception;
    }

    /** What one client does again and again. */
    interface Work {
        void once(Table table) throws Exception;
    }

    /** A user's requests that failed for good; and before the window. */
    private static final class Client {
        final String user;
        final AtomicLong errors = new AtomicLong();
        long errorsBefore;
        long refusedBefore;

        Client(String user) {
            this.user = user;
        }
    }

    /** Connects a user whose errors and retries become figures. */
    Connection connect(String user) throws Exception {
        Connection connection = Site.connect(user);
        users.put(connection, new Client(user));
        return connection;
    }

    /** Calls that were answered by an exception, or not at all. HBase's client tries again, or gives up. */
    private static long refused(Connection connection) {
        Counter all = ((ConnectionImplementation) connection).getConnectionMetrics().getRpcCounters().get("rpcTotalExceptions");
        return all == null ? 0 : all.getCount();
    }

    private void notes(boolean after) {
        users.forEach((connection, client) -> {
            long errors = client.errors.get() - client.errorsBefore;
            long refused = refused(connection) - client.refusedBefore;
            if (after) {
                figures.put(client.user + "_errors", (double) errors);
                figures.put(client.user + "_retries", (double) Math.max(0, refused - errors));
            }
            client.errorsBefore += errors;
            client.refusedBefore += refused;
        });
    }

    private static Map<String, String> settings() {
        // No arm loses calls because a queue is full.
        Map<String, String> settings = new TreeMap<>(Map.of(HANDLERS, "10", "hbase.ipc.server.max.callqueue.length", "2000"));
        if (ARM.startsWith("ours")) {
            settings.put("hbase.ipc.server.callqueue.type", "pluggable");
            settings.put("hbase.ipc.server.callqueue.pluggable.queue.class.name", OUR_QUEUE);
        }
        switch (ARM) {
            case QUOTAS, EXCEEDED -> settings.putAll(Map.of("hbase.quota.enabled", "true", "hbase.quota.refresh.period", "1000"));
            case "stock, one queue" -> settings.put("hbase.ipc.server.callqueue.handler.factor", "0");
            default -> { }
        }
        return settings;
    }

    void run(Map<String, String> more, Run run) throws Exception {
        run(more, List.of(List.of()), run);
    }

    /** The same with a DataNode for each of these lists of settings. */
    void run(Map<String, String> more, List<List<String>> dataNodes, Run run) throws Exception {
        Map<String, String> settings = settings();
        settings.putAll(more);
        handlers = Integer.parseInt(settings.get(HANDLERS));
        var server = new Cluster.Server("regionserver", Cluster.DEFAULT, Cluster.DEFAULT_PAGE, ARM.startsWith("ours"), List.of());
        try (Cluster cluster = new Cluster(settings, true, dataNodes, server)) {
            Site.use(cluster);
            run.with(cluster);
        }
        write();
    }

    /** In the arm with quotas: this user may have so much a second. */
    static void limit(String user, ThrottleType type, long most) throws Exception {
        limit(type, most, Map.of(user, most));
    }

    /**
     * In the arms with quotas: each user may have its part a second. With quotas to exceed it may have more while
     * the server gives less than all of it.
     */
    static void limit(ThrottleType type, long all, Map<String, Long> parts) throws Exception {
        if (!ARM.equals(QUOTAS) && !ARM.equals(EXCEEDED)) {
            return;
        }
        try (Connection root = Site.connect("root"); Admin admin = root.getAdmin()) {
            for (Map.Entry<String, Long> part : parts.entrySet()) {
                admin.setQuota(QuotaSettingsFactory.throttleUser(part.getKey(), type, part.getValue(), TimeUnit.SECONDS));
            }
            if (ARM.equals(EXCEEDED)) {
                // HBase asks for limits of the server on reads and on writes.
                String every = QuotaTableUtil.QUOTA_REGION_SERVER_ROW_KEY;
                admin.setQuota(QuotaSettingsFactory.throttleRegionServer(every, ThrottleType.READ_NUMBER, 1_000_000, TimeUnit.SECONDS));
                admin.setQuota(QuotaSettingsFactory.throttleRegionServer(every, ThrottleType.WRITE_NUMBER, 1_000_000, TimeUnit.SECONDS));
                admin.setQuota(QuotaSettingsFactory.throttleRegionServer(every, type, all, TimeUnit.SECONDS));
                admin.exceedThrottleQuotaSwitch(true);
            }
        }
    }

    void write() throws IOException {
        figures.put("failures", (double) failures.get());
        StringBuilder text = new StringBuilder();
        figures.forEach((key, value) -> text.append(String.format(Locale.ROOT, "%s %.6f%n", key, value)));
        System.err.print(text);
        String file = System.getenv("HEADWORKS_FIGURES");
        if (file != null) {
            Files.writeString(Path.of(file), text);
        }
    }

    void clients(int count, Connection connection, AtomicLong done, ConcurrentLinkedQueue<Long> times, Work work) {
        clients(TABLE, count, connection, done, times, work);
    }

    void clients(TableName name, int count, Connection connection, AtomicLong done, ConcurrentLinkedQueue<Long> times, Work work) {
        for (int number = 0; number < count; number++) {
            Thread thread = new Thread(() -> {
                try (Table table = connection.getTable(name)) {
                    while (!stop.get()) {
                        long since = System.nanoTime();
                        try {
                            work.once(table);
                            done.incrementAndGet();
                            if (times != null) {
                                times.add(System.nanoTime() - since);
                            }
                        } catch (IOException refused) {
                            failures.incrementAndGet();
                            users.get(connection).errors.incrementAndGet();
                        }
                    }
                } catch (Exception failed) {
                    failed.printStackTrace();
                }
            });
            threads.add(thread);
            thread.start();
        }
    }

    /** Lets clients run, and notes the machine's processors, the handlers and the network meanwhile. */
    void measure(Runnable begins, AtomicLong... counters) throws Exception {
        Thread.sleep(WARM_UP_MS);
        begins.run();
        notes(false);
        long[] cpu = cpu();
        long[] disk = disk();
        long bytes = loopback();
        long start = System.nanoTime();
        double active = 0;
        int samples = 0;
        bySecond.add(Arrays.stream(counters).mapToLong(AtomicLong::get).toArray());
        while (System.nanoTime() - start < WINDOW_S * 1_000_000_000L) {
            Thread.sleep(200);
            if (System.nanoTime() - start >= bySecond.size() * 1_000_000_000L) {
                bySecond.add(Arrays.stream(counters).mapToLong(AtomicLong::get).toArray());
            }
            active += activeHandlers();
            samples++;
        }
        double seconds = (System.nanoTime() - start) / 1e9;
        notes(true);
        long sent = loopback() - bytes;
        long[] after = cpu();
        figures.put("cpu_busy", 1.0 - (double) (after[1] - cpu[1]) / (after[0] - cpu[0]));
        figures.put("handlers_busy", active / samples / handlers);
        long[] diskAfter = disk();
        figures.put("datanode_read_mb_s", (diskAfter[0] - disk[0]) / seconds / 1e6);
        figures.put("datanode_written_mb_s", (diskAfter[1] - disk[1]) / seconds / 1e6);
        figures.put("network_mbit_s", sent * 8 / seconds / 1e6);
        figures.put("seconds", seconds);
    }

    void end() throws InterruptedException {
        stop.set(true);
        for (Thread thread : threads) {
            thread.join(20_000);
        }
    }

    /** All ticks of the processors, and those in which they were idle. */
    private static long[] cpu() throws IOException {
        long[] ticks = Arrays.stream(Files.readAllLines(Path.of("/proc/stat")).get(0).trim().split(" +")).skip(1).limit(8).mapToLong(Long::parseLong).toArray();
        return new long[] {Arrays.stream(ticks).sum(), ticks[3] + ticks[4]};
    }

    private static long loopback() throws IOException {
        for (String line : Files.readAllLines(Path.of("/proc/net/dev"))) {
            if (line.trim().startsWith("lo:")) {
                return Long.parseLong(line.trim().substring(3).trim().split(" +")[0]);
            }
        }
        return 0;
    }

    private static double activeHandlers() throws IOException {
        return numbers(Cluster.DEFAULT_PAGE, "Hadoop:service=HBase,name=RegionServer,sub=IPC").getOrDefault("numActiveGeneralHandler", Double.NaN);
    }

    /** Bytes that the first DataNode has read and written. */
    static long[] disk() throws IOException {
        Map<String, Double> all = numbers(Cluster.DATANODE_PAGE, "Hadoop:service=DataNode,name=DataNodeActivity-*");
        return new long[] {all.getOrDefault("BytesRead", 0.0).longValue(), all.getOrDefault("BytesWritten", 0.0).longValue()};
    }

    private static Map<String, Double> numbers(int page, String bean) throws IOException {
        Map<String, Double> all = new TreeMap<>();
        try (var answer = new java.net.URL("http://127.0.0.1:" + page + "/jmx?qry=" + bean).openStream()) {
            Matcher found = NUMBER.matcher(new String(answer.readAllBytes(), StandardCharsets.UTF_8));
            while (found.find()) {
                all.put(found.group(1), Double.valueOf(found.group(2)));
            }
        }
        return all;
    }

    /** Requests a second since {@code before}. */
    double rate(AtomicLong done, long before) {
        return (done.get() - before) / figures.get("seconds");
    }

    static double percentile(ConcurrentLinkedQueue<Long> times, double part) {
        long[] all = times.stream().mapToLong(Long::longValue).sorted().toArray();
        return all.length == 0 ? Double.NaN : all[(int) Math.min(all.length - 1, part * all.length)] / 1e6;
    }
}

package headworks.cluster;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.ColumnFamilyDescriptorBuilder;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.Get;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.client.TableDescriptorBuilder;
import org.junit.jupiter.api.Test;
import site.ycsb.workloads.CoreWorkload;

/**
 * The load of the experiments {@code record-hbase} and {@code record-predict}: a cluster, stock or with the plug-in, and steps
 * of load one after the other. {@code HEADWORKS_SETTINGS} sets more, as {@code KEY=VALUE} with commas.
 * {@code headworks bench run} starts it and reads what it says in the file of {@code HEADWORKS_FIGURES}:
 * {@code process NAME PID}, {@code begin STEP} and {@code end STEP REQUESTS_A_SECOND}. The file beside it with the ending
 * {@code .count} has how many requests were answered.
 */
class Recorded {
    private static final TableName CACHED = TableName.valueOf("cached");
    private static final TableName UNCACHED = TableName.valueOf("uncached");
    private static final TableName YCSB = TableName.valueOf("ycsb");
    /** Of the load {@code ycsb}, half of the requests are updates. */
    private static CoreWorkload workload;
    private static final int ROWS = 1_000;
    private static final int ROW_BYTES = 1_000;
    private static final long SETTLE_MS = 2_000;
    private static final long COUNT_MS = 50;
    /** Memory of the second table that is full after some thousand writes. */
    private static final long FLUSH_BYTES = 2 << 20;

    private static void say(String line) throws IOException {
        Files.writeString(Path.of(System.getenv("HEADWORKS_FIGURES")), line + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        System.err.println(line);
    }

    /** The steps are {@code LOAD:THREADS:SECONDS}, with commas. */
    @Test
    void steps() throws Exception {
        String arm = System.getenv("HEADWORKS_ARM");
        boolean plugIn = arm.startsWith("plug-in");
        Map<String, String> settings = new TreeMap<>();
        if (!arm.equals("default")) {
            settings.put("hbase.wal.provider", "filesystem");
            settings.put("hbase.rpc.server.impl", "org.apache.hadoop.hbase.ipc.SimpleRpcServer");
        }
        if (plugIn) {
            // So little network that responses wait for it.
            settings.putAll(Map.of("hbase.ipc.server.callqueue.type", "pluggable",
                "hbase.ipc.server.callqueue.pluggable.queue.class.name", Measured.OUR_QUEUE,
                "headworks.log.outstanding", "4", "headworks.network.bytes-per-second", "2000000", "headworks.speculate", "true",
                "headworks.enabled", "" + !arm.equals("plug-in, switched off")));
        }
        for (String setting : System.getenv().getOrDefault("HEADWORKS_SETTINGS", "").split(",")) {
            String[] words = setting.split("=", 2);
            if (words.length == 2) {
                settings.put(words[0], words[1]);
            }
        }
        var server = new Cluster.Server("regionserver", Cluster.DEFAULT, Cluster.DEFAULT_PAGE, plugIn, List.of());
        try (Cluster cluster = new Cluster(settings, true, server)) {
            Site.use(cluster);
            processes();
            Site.table(CACHED, Cluster.DEFAULT, true, ROWS, ROW_BYTES);
            uncached();
            String[] steps = System.getenv("HEADWORKS_STEPS").split(",");
            if (steps[0].startsWith("ycsb:")) {
                workload = Ycsb.load(YCSB, Cluster.DEFAULT, 50);
            }
            for (int step = 0; step < steps.length; step++) {
                String[] words = steps[step].split(":");
                step(step, words[0], Integer.parseInt(words[1]), Integer.parseInt(words[2]));
            }
        }
    }

    /** The cluster's processes are the children of this one. */
    private static void processes() throws IOException {
        Map<String, String> names = Map.of("HRegionServer", "regionserver", "DataNode", "datanode", "NameNode", "namenode", "HMaster", "master");
        for (ProcessHandle child : (Iterable<ProcessHandle>) ProcessHandle.current().children()::iterator) {
            String line = Files.readString(Path.of("/proc/" + child.pid() + "/cmdline"));
            for (Map.Entry<String, String> name : names.entrySet()) {
                if (line.contains("." + name.getKey() + "\0")) {
                    say("process " + name.getValue() + " " + child.pid());
                }
            }
        }
    }

    /** A table that is read from the DataNode, and whose memory is often full. */
    private static void uncached() throws Exception {
        try (Connection connection = Site.connect("root"); Admin admin = connection.getAdmin()) {
            admin.createTable(TableDescriptorBuilder.newBuilder(UNCACHED).setMemStoreFlushSize(FLUSH_BYTES)
                .setColumnFamily(ColumnFamilyDescriptorBuilder.newBuilder(Site.FAMILY).setBlockCacheEnabled(false).build()).build());
            try (Table table = connection.getTable(UNCACHED)) {
                for (int row = 0; row < ROWS; row++) {
                    table.put(Site.put(row, ROW_BYTES));
                }
            }
            admin.flush(UNCACHED);
        }
    }

    private static void step(int number, String load, int threads, int seconds) throws Exception {
        AtomicBoolean over = new AtomicBoolean();
        AtomicLong done = new AtomicLong();
        List<Thread> all = new ArrayList<>();
        // A plug-in orders nothing before it sees a second tenant.
        String other = System.getenv("HEADWORKS_ARM").startsWith("plug-in") ? "bob" : "alice";
        try (Connection alice = Site.connect("alice"); Connection second = Site.connect(other)) {
            for (int each = 0; each < threads; each++) {
                int seed = number * 1_000 + each;
                Connection connection = other.equals("bob") && each % 2 == 1 ? second : alice;
                Thread thread = new Thread(() -> client(connection, load, new Random(seed), over, done));
                all.add(thread);
                thread.start();
            }
            Thread.sleep(SETTLE_MS);
            say("begin " + number);
            long since = System.nanoTime();
            long before = done.get();
            while (System.nanoTime() - since < seconds * 1_000_000_000L) {
                count(done);
                Thread.sleep(COUNT_MS);
            }
            double rate = (done.get() - before) / ((System.nanoTime() - since) / 1e9);
            say(String.format(Locale.ROOT, "end %d %.3f", number, rate));
            over.set(true);
            for (Thread thread : all) {
                thread.join();
            }
        }
    }

    /** Seconds of the machine's clock, and requests answered until then, in a file that is always whole. */
    private static void count(AtomicLong done) throws IOException {
        Path counted = Path.of(System.getenv("HEADWORKS_FIGURES") + ".count");
        Path next = Path.of(counted + ".next");
        Files.writeString(next, System.currentTimeMillis() / 1e3 + " " + done.get());
        Files.move(next, counted, StandardCopyOption.ATOMIC_MOVE);
    }

    /** A quarter of its gets keeps a handler for 20 ms. It comes by a connection that no other client has. */
    private static void slow(Random random, AtomicBoolean over, AtomicLong done) {
        try (Connection connection = Site.connect("alice"); Table cached = connection.getTable(CACHED)) {
            while (!over.get()) {
                Get get = new Get(Site.key(random.nextInt(ROWS)));
                cached.get(random.nextInt(4) == 0 ? get.setFilter(new SlowRows()) : get);
                done.incrementAndGet();
            }
        } catch (Exception failed) {
            failed.printStackTrace();
        }
    }

    private static void ycsb(Connection connection, AtomicBoolean over, AtomicLong done) {
        try (Table table = connection.getTable(YCSB)) {
            while (!over.get()) {
                Ycsb.request(workload, table, null);
                done.incrementAndGet();
            }
        } catch (IOException failed) {
            failed.printStackTrace();
        }
    }

    private static void client(Connection connection, String load, Random random, AtomicBoolean over, AtomicLong done) {
        if (load.equals("slow")) {
            slow(random, over, done);
            return;
        }
        if (load.equals("ycsb")) {
            ycsb(connection, over, done);
            return;
        }
        try (Table cached = connection.getTable(CACHED); Table uncached = connection.getTable(UNCACHED)) {
            while (!over.get()) {
                int row = random.nextInt(ROWS);
                boolean put = load.equals("put") || !load.equals("get") && random.nextBoolean();
                // Of all that a figure shows, a part needs the disk.
                Table table = load.equals("all") && random.nextInt(4) == 0 ? uncached : cached;
                if (put) {
                    table.put(Site.put(row, ROW_BYTES));
                } else {
                    table.get(new Get(Site.key(row)));
                }
                done.incrementAndGet();
            }
        } catch (IOException failed) {
            failed.printStackTrace();
        }
    }
}

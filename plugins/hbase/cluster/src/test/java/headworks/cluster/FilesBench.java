package headworks.cluster;

import java.io.IOException;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocatedFileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RemoteIterator;
import org.apache.hadoop.hbase.KeyValue;
import org.apache.hadoop.hbase.NamespaceDescriptor;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.Get;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.io.hfile.CacheConfig;
import org.apache.hadoop.hbase.io.hfile.HFile;
import org.apache.hadoop.hbase.io.hfile.HFileContextBuilder;
import org.apache.hadoop.hbase.quotas.ThrottleType;
import org.apache.hadoop.hbase.tool.BulkLoadHFiles;
import org.apache.hadoop.hbase.util.Bytes;
import org.junit.jupiter.api.Test;

/**
 * Experiments in which files are what requests wait for. HDFS's own throttle makes the DataNode slow: this
 * machine's page cache and disk are faster than its processors. See {@link Measured}.
 */
class FilesBench extends Measured {
    private static final TableName FILES = TableName.valueOf("files");
    private static final int ROWS = 150;
    private static final String READ_RATE = "dfs.datanode.data.read.bandwidthPerSec";
    private static final String WRITE_RATE = "dfs.datanode.data.write.bandwidthPerSec";
    /** What the DataNode gives. */
    private static final Map<String, String> SLOW_READS = Map.of(READ_RATE, "10000000");
    private static final long HALF = 5_000_000;

    /** A table of rows that only DataNodes have. */
    private static void files(TableName name, int bytes) throws Exception {
        Site.table(name, Cluster.DEFAULT, false, ROWS, bytes);
        try (Connection root = Site.connect("root"); Admin admin = root.getAdmin()) {
            admin.flush(name);
        }
    }

    /** HBase keeps the first block that it reads even of a table without cache, unless the get says that it must not. */
    private static void cold(Table table) throws IOException {
        table.get(new Get(Site.key(ThreadLocalRandom.current().nextInt(ROWS))).setCacheBlocks(false));
    }

    private static void cached(Table table) throws IOException {
        table.get(new Get(Site.key(0)));
    }

    /** Measures, and notes how often each of these clients' work ended, a second. */
    private void measure(Map<String, AtomicLong> clients, Map<String, ConcurrentLinkedQueue<Long>> times) throws Exception {
        Map<String, Long> before = new TreeMap<>();
        measure(() -> {
            clients.forEach((client, done) -> before.put(client, done.get()));
            times.values().forEach(ConcurrentLinkedQueue::clear);
        });
        clients.forEach((client, done) -> figures.put(client + "_per_s", rate(done, before.get(client))));
        times.forEach((client, all) -> {
            figures.put(client + "_p50_ms", percentile(all, 0.5));
            figures.put(client + "_p99_ms", percentile(all, 0.99));
        });
    }

    /** Figure 4.13: both clients get 128 kB that only the DataNode has, C1 from 40 threads, C2 from as many as the point says. */
    @Test
    void noScheduling() throws Exception {
        run(SLOW_READS, cluster -> {
            files(FILES, 128_000);
            limit("c2", ThrottleType.READ_SIZE, HALF);
            try (Connection c1 = connect("c1"); Connection c2 = connect("c2")) {
                AtomicLong first = new AtomicLong();
                AtomicLong second = new AtomicLong();
                var times = new ConcurrentLinkedQueue<Long>();
                var others = new ConcurrentLinkedQueue<Long>();
                clients(FILES, 40, c1, first, times, FilesBench::cold);
                clients(FILES, (int) POINT, c2, second, others, FilesBench::cold);
                measure(Map.of("c1", first, "c2", second), Map.of("c1", times, "c2", others));
                end();
            }
        });
    }

    /**
     * Figure 4.14: C1 gets rows that only the DataNode has, from as many threads as the point says. C2 gets such rows,
     * and one from the cache.
     */
    @Test
    void attempts() throws Exception {
        Map<String, String> settings = new TreeMap<>(SLOW_READS);
        settings.put("headworks.speculate", "" + ARM.equals("ours"));
        run(settings, cluster -> {
            Site.table(TABLE, Cluster.DEFAULT, true, 1, 100);
            files(FILES, 60_000);
            try (Connection c1 = connect("c1"); Connection c2 = connect("c2")) {
                AtomicLong first = new AtomicLong();
                AtomicLong cold = new AtomicLong();
                AtomicLong cached = new AtomicLong();
                var times = new ConcurrentLinkedQueue<Long>();
                var coldTimes = new ConcurrentLinkedQueue<Long>();
                var firstTimes = new ConcurrentLinkedQueue<Long>();
                clients(FILES, (int) POINT, c1, first, firstTimes, FilesBench::cold);
                clients(FILES, 16, c2, cold, coldTimes, FilesBench::cold);
                clients(4, c2, cached, times, FilesBench::cached);
                measure(Map.of("c1_cold", first, "c2_cold", cold, "c2_cached", cached), Map.of("c1_cold", firstTimes, "c2_cold", coldTimes, "c2_cached", times));
                end();
            }
            toldOfAttempts();
        });
    }

    private void toldOfAttempts() throws IOException {
        if (ARM.startsWith("ours")) {
            Told told = Told.by(Cluster.DEFAULT_PAGE);
            figures.put("attempts_answered", (double) told.attempts("answered"));
            figures.put("attempts_ended", (double) told.attempts("ended"));
        }
    }

    /** Figure 4.16: both clients get a cached row. At point 1, C2 gets rows that only the DataNode has, and handlers wait for it. */
    @Test
    void blocking() throws Exception {
        Map<String, String> settings = new TreeMap<>(SLOW_READS);
        settings.put("headworks.speculate", "" + ARM.equals("ours"));
        run(settings, cluster -> {
            Site.table(TABLE, Cluster.DEFAULT, true, 1, 100);
            files(FILES, 60_000);
            // Ten handlers, half of their time each.
            limit(ThrottleType.REQUEST_HANDLER_USAGE_MS, 10_000, Map.of("c1", 5_000L, "c2", 5_000L));
            try (Connection c1 = connect("c1"); Connection c2 = connect("c2")) {
                AtomicLong first = new AtomicLong();
                AtomicLong second = new AtomicLong();
                var times = new ConcurrentLinkedQueue<Long>();
                var others = new ConcurrentLinkedQueue<Long>();
                // With pauses: else the processors are what both wait for.
                clients(16, c1, first, null, table -> paced(table, times));
                if (POINT == 0) {
                    clients(16, c2, second, null, table -> paced(table, others));
                } else {
                    clients(FILES, 40, c2, second, others, FilesBench::cold);
                }
                measure(Map.of("c1", first, "c2", second), Map.of("c1", times, "c2", others));
                end();
            }
            toldOfAttempts();
        });
    }

    /** One get, and ten milliseconds of thinking. */
    private static void paced(Table table, ConcurrentLinkedQueue<Long> times) throws Exception {
        long since = System.nanoTime();
        cached(table);
        times.add(System.nanoTime() - since);
        Thread.sleep(10);
    }

    /** Figure 4.17: both clients put 1 kB, C1 from 80 threads, C2 from as many as the point says. The log's DataNode takes 1 MB/s. */
    @Test
    void ordering() throws Exception {
        Map<String, String> settings = new TreeMap<>(Map.of("hbase.regionserver.handler.count", "100", WRITE_RATE, "1000000"));
        if (ARM.equals("stock, a log for each")) {
            settings.put("hbase.wal.provider", "multiwal");
            settings.put("hbase.wal.regiongrouping.strategy", "namespace");
        }
        settings.put("headworks.log.outstanding", ARM.contains("10") ? "10" : ARM.contains("30") ? "30" : "0");
        run(settings, cluster -> {
            TableName other = TableName.valueOf("other", "rows");
            try (Connection root = Site.connect("root"); Admin admin = root.getAdmin()) {
                admin.createNamespace(NamespaceDescriptor.create("other").build());
            }
            Site.table(TABLE, Cluster.DEFAULT, true, 1, 100);
            Site.table(other, Cluster.DEFAULT, true, 1, 100);
            limit("c2", ThrottleType.WRITE_NUMBER, 400);
            try (Connection c1 = connect("c1"); Connection c2 = connect("c2")) {
                AtomicLong first = new AtomicLong();
                AtomicLong second = new AtomicLong();
                var times = new ConcurrentLinkedQueue<Long>();
                var others = new ConcurrentLinkedQueue<Long>();
                clients(TABLE, 80, c1, first, times, FilesBench::put);
                clients(other, (int) POINT, c2, second, others, FilesBench::put);
                measure(Map.of("c1", first, "c2", second), Map.of("c1", times, "c2", others));
                end();
            }
        });
    }

    private static void put(Table table) throws IOException {
        table.put(Site.put(ThreadLocalRandom.current().nextInt(10_000), 1_000));
    }

    /** One of two DataNodes gives a twentieth. One tenant reads from it, as many threads as the point says; the other one does not. */
    @Test
    void slowDataNode() throws Exception {
        run(Map.of(), List.of(List.of(READ_RATE + "=10000000"), List.of(READ_RATE + "=500000")), cluster -> {
            TableName[] at = tablesAt(2);
            limit("slow", ThrottleType.READ_SIZE, 450_000);
            try (Connection fast = connect("fast"); Connection slow = connect("slow")) {
                AtomicLong first = new AtomicLong();
                AtomicLong second = new AtomicLong();
                var times = new ConcurrentLinkedQueue<Long>();
                var others = new ConcurrentLinkedQueue<Long>();
                clients(at[0], 16, fast, first, times, FilesBench::cold);
                clients(at[1], (int) POINT, slow, second, others, FilesBench::cold);
                measure(Map.of("fast", first, "slow", second), Map.of("fast", times, "slow", others));
                end();
            }
        });
    }

    /** A table for each DataNode that has all of its rows there. HDFS chooses the place by chance. */
    private static TableName[] tablesAt(int dataNodes) throws Exception {
        TableName[] found = new TableName[dataNodes];
        for (int number = 0; Arrays.asList(found).contains(null); number++) {
            if (number == 20) {
                throw new IOException("HDFS put twenty files at one DataNode");
            }
            TableName name = TableName.valueOf("files" + number);
            files(name, 60_000);
            int port = port(name);
            found[(port - Cluster.DATANODE) / Cluster.NEXT_DATANODE] = name;
        }
        return found;
    }

    /** The port of the DataNode that has a table's file. */
    private static int port(TableName name) throws IOException {
        Path root = new Path("hdfs://127.0.0.1:9000/hbase/data/default/" + name);
        FileSystem files = root.getFileSystem(Site.conf());
        for (RemoteIterator<LocatedFileStatus> all = files.listFiles(root, true); all.hasNext(); ) {
            LocatedFileStatus file = all.next();
            if (file.getLen() > ROWS * 1_000L) {
                String place = file.getBlockLocations()[0].getNames()[0];
                return Integer.parseInt(place.substring(place.lastIndexOf(':') + 1));
            }
        }
        throw new IOException("the table " + name + " has no file");
    }

    /** Bulk load, at point 1, beside gets of a cached row. The DataNode takes 30 MB/s. */
    @Test
    void bulkLoad() throws Exception {
        TableName loaded = TableName.valueOf("loaded");
        run(Map.of(WRITE_RATE, "12000000"), cluster -> {
            Site.table(TABLE, Cluster.DEFAULT, true, 1, 1_000);
            Site.table(loaded, Cluster.DEFAULT, true, 1, 100);
            try (Connection c1 = connect("c1"); Connection c2 = connect("c2")) {
                AtomicLong gets = new AtomicLong();
                AtomicLong megabytes = new AtomicLong();
                var times = new ConcurrentLinkedQueue<Long>();
                clients(8, c1, gets, null, table -> paced(table, times));
                if (POINT > 0) {
                    // Keys of a part follow those of the part before.
                    clients(loaded, 1, c2, new AtomicLong(), null, table -> load(loaded, megabytes));
                }
                measure(Map.of("c1", gets, "loaded_mb", megabytes), Map.of("c1", times));
                end();
                figures.put("loaded_mb", (double) megabytes.get());
            }
        });
    }

    /** Writes a file of 25 MB into HDFS, and has it loaded. */
    private static void load(TableName name, AtomicLong megabytes) throws IOException {
        int part = (int) megabytes.get() / 25;
        Path directory = new Path("hdfs://127.0.0.1:9000/load/" + part);
        Configuration conf = Site.conf();
        FileSystem files = directory.getFileSystem(conf);
        Path file = new Path(new Path(directory, Bytes.toString(Site.FAMILY)), "part");
        byte[] value = new byte[1_000];
        ThreadLocalRandom.current().nextBytes(value);
        try (HFile.Writer writer = HFile.getWriterFactory(conf, CacheConfig.DISABLED).withPath(files, file)
                .withFileContext(new HFileContextBuilder().build()).create()) {
            for (int row = 0; row < 25_000; row++) {
                byte[] key = Bytes.toBytes(String.format("%09d", part * 25_000 + row));
                writer.append(new KeyValue(key, Site.FAMILY, Site.FAMILY, 1, value));
            }
        }
        BulkLoadHFiles.create(conf).bulkLoad(name, directory);
        megabytes.addAndGet(25);
    }
}

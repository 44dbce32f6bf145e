package headworks.cluster;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.InputStreamReader;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.Get;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.util.Bytes;
import org.apache.hbase.thirdparty.com.google.gson.JsonParser;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/**
 * A client that has had a row of 100 MB asks for twenty more at once, and reads ten kilobytes a second. It is run by hand, by
 * {@code scripts/test-hbase -Dtest=HugeRows -Dsurefire.failIfNoSpecifiedTests=false}.
 */
@Timeout(180)
class HugeRows {
    private static final int CELLS = 13;
    private static final int CELL = 8_000_000;
    /** One such row, and a little around its cells. */
    private static final int ROW = CELLS * CELL + 1_000_000;
    private static final int ASKED = 20;
    private static final int READ_BYTES_PER_SECOND = 10_000;
    private static final int BOUND = 64 << 20;

    @Test
    void whoAsksForThemAndHardlyReadsWaitsAloneAndTheHeapIsBounded() throws Exception {
        Cluster cluster = Site.start();
        Site.reload(Map.of("headworks.enabled", "true", "headworks.tenant.attribute", "", "headworks.responses.bytes-per-tenant", "" + BOUND));
        Object[][] servers = {{"regionserver", Cluster.DEFAULT, Cluster.DEFAULT_PAGE}, {"regionserver-classic", Cluster.CLASSIC, Cluster.CLASSIC_PAGE}};
        for (Object[] server : servers) {
            at(cluster, (String) server[0], (int) server[1], (int) server[2]);
        }
    }

    private static void at(Cluster cluster, String name, int port, int page) throws Exception {
        TableName huge = TableName.valueOf("huge_" + port);
        Site.table(huge, port, false, 1, 10);
        byte[] row = Site.key(1);
        try (Connection root = Site.connect("root"); Admin admin = root.getAdmin(); Table table = root.getTable(huge)) {
            for (int cell = 0; cell < CELLS; cell++) {
                table.put(new Put(row).addColumn(Site.FAMILY, Bytes.toBytes(cell), new byte[CELL]));
            }
            admin.flush(huge);
        }
        ExecutorService thread = Executors.newSingleThreadExecutor();
        AtomicBoolean stop = new AtomicBoolean();
        try (Connection other = Site.connect("other"); Table table = other.getTable(huge); SlowReader slow = new SlowReader(port, "slow")) {
            double[] alone = gets(table, 5);
            // How large its responses are is known from the first one.
            slow.ask(Site.region(huge), row, 1);
            slow.read(1);
            long before = heap(cluster, name, page);
            slow.ask(Site.region(huge), row, ASKED);
            Future<Long> read = thread.submit(() -> slow.trickle(READ_BYTES_PER_SECOND, () -> !stop.get()));
            double[] beside = gets(table, 10);
            long peak = memory(page);
            long after = heap(cluster, name, page);
            Told told = Told.by(page);
            stop.set(true);
            System.err.printf(Locale.ROOT, "%s: heap %d MiB before, %d MiB beside, %d MiB with what may be collected; %d MiB unread, %d calls wait, %d bytes read; "
                + "P50, P99 of gets in ms: %.1f, %.1f alone, %.1f, %.1f beside%n", name, before >> 20, after >> 20, peak >> 20,
                told.unread("slow") >> 20, told.of("RPC Handle", "queued"), read.get(), alone[0], alone[1], beside[0], beside[1]);
            assertTrue(told.of("RPC Handle", "queued") > 0, "its own calls wait: " + told);
            assertTrue(told.unread("slow") <= BOUND + ROW, told.toString());
            assertTrue(after - before <= BOUND + ROW, (after - before) + " bytes more");
        } finally {
            stop.set(true);
            thread.shutdownNow();
        }
    }

    /** Gets of a small row for so many seconds: P50 and P99 in ms. */
    private static double[] gets(Table table, int seconds) throws Exception {
        ConcurrentLinkedQueue<Long> times = new ConcurrentLinkedQueue<>();
        for (long end = System.nanoTime() + seconds * 1_000_000_000L; System.nanoTime() < end; Thread.sleep(10)) {
            long since = System.nanoTime();
            assertEquals(10, table.get(new Get(Site.key(0))).value().length);
            times.add(System.nanoTime() - since);
        }
        return new double[] {Measured.percentile(times, 0.5), Measured.percentile(times, 0.99)};
    }

    /** What is in use after garbage was collected. */
    private static long heap(Cluster cluster, String name, int page) throws Exception {
        cluster.collect(name);
        return memory(page);
    }

    private static long memory(int page) throws IOException {
        URL url = new URL("http://127.0.0.1:" + page + "/jmx?qry=java.lang:type=Memory");
        try (var answer = new InputStreamReader(url.openStream(), StandardCharsets.UTF_8)) {
            return JsonParser.parseReader(answer).getAsJsonObject().getAsJsonArray("beans").get(0).getAsJsonObject()
                .getAsJsonObject("HeapMemoryUsage").get("used").getAsLong();
        }
    }
}

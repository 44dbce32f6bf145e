package headworks.cluster;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.Cell;
import org.apache.hadoop.hbase.CellUtil;
import org.apache.hadoop.hbase.CompareOperator;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.Append;
import org.apache.hadoop.hbase.client.AsyncConnection;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.ConnectionFactory;
import org.apache.hadoop.hbase.client.Delete;
import org.apache.hadoop.hbase.client.Get;
import org.apache.hadoop.hbase.client.Increment;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.Result;
import org.apache.hadoop.hbase.client.ResultScanner;
import org.apache.hadoop.hbase.client.Row;
import org.apache.hadoop.hbase.client.RowMutations;
import org.apache.hadoop.hbase.client.Scan;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.filter.Filter;
import org.apache.hadoop.hbase.filter.FilterList;
import org.apache.hadoop.hbase.filter.PageFilter;
import org.apache.hadoop.hbase.filter.RegexStringComparator;
import org.apache.hadoop.hbase.filter.RowFilter;
import org.apache.hadoop.hbase.filter.SingleColumnValueFilter;
import org.apache.hadoop.hbase.util.Bytes;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/**
 * What a client of a stock HBase gets from scans and batches that made way for another tenant's calls: the same as from those
 * that did not, in the same order.
 */
@Timeout(120)
class SlicesTest {
    private static final TableName TABLE = TableName.valueOf("sliced");
    private static final int ROWS = 1_500;
    private static final int COLUMNS = 4;

    private static final AtomicBoolean STOP = new AtomicBoolean();
    private static final List<Thread> OTHERS = new ArrayList<>();
    private static Connection many;
    private static Connection few;

    @BeforeAll
    static void start() throws Exception {
        Site.start();
        // The others are due far more than one client can leave them: it has to make way all the time.
        Site.reload(Map.of("headworks.enabled", "true", "headworks.tenant.attribute", "", "headworks.weights", "few=8"));
        Site.table(TABLE, Cluster.DEFAULT, true, 0, 0);
        many = Site.connect("many");
        few = Site.connect("few");
        try (Table table = many.getTable(TABLE); Admin admin = many.getAdmin()) {
            List<Put> puts = new ArrayList<>();
            for (int row = 0; row < ROWS; row++) {
                Put put = new Put(Site.key(row));
                for (int column = 0; column < COLUMNS; column++) {
                    put.addColumn(Site.FAMILY, Bytes.toBytes(column), value(row, column));
                }
                puts.add(put);
            }
            table.put(puts);
            admin.flush(TABLE);
        }
        for (int number = 0; number < 6; number++) {
            Thread other = new Thread(() -> {
                try (Table table = few.getTable(TABLE)) {
                    while (!STOP.get()) {
                        try (ResultScanner rows = table.getScanner(new Scan().setLimit(100).setFilter(new BusyRows()))) {
                            rows.next(100);
                        }
                    }
                } catch (Exception failed) {
                    failed.printStackTrace();
                }
            });
            other.setDaemon(true);
            other.start();
            OTHERS.add(other);
        }
    }

    @AfterAll
    static void end() throws Exception {
        STOP.set(true);
        for (Thread other : OTHERS) {
            other.join();
        }
        if (many != null) {
            many.close();
            few.close();
            Site.reload(Map.of("headworks.weights", ""));
        }
    }

    private static byte[] value(int row, int column) {
        return Bytes.toBytes(row * COLUMNS + column);
    }

    private static long madeWay() throws Exception {
        return Told.by(Cluster.DEFAULT_PAGE).of("RPC Handle", "waited");
    }

    private static Filter busy(Filter... more) {
        List<Filter> all = new ArrayList<>(List.of(new BusyRows()));
        all.addAll(List.of(more));
        return new FilterList(FilterList.Operator.MUST_PASS_ALL, all);
    }

    /** Scans, and expects these rows with all of their cells; a cell may come in any of several results. */
    private static void expect(Connection connection, Scan scan, int from, int to, int step) throws Exception {
        long before = madeWay();
        List<Cell> cells = new ArrayList<>();
        try (Table table = connection.getTable(TABLE); ResultScanner results = table.getScanner(scan)) {
            for (Result result : results) {
                assertTrue(scan.getBatch() <= 0 || result.size() <= scan.getBatch(), "cells of a batch: " + result.size());
                assertTrue(scan.getBatch() > 0 || scan.getAllowPartialResults() || result.size() == COLUMNS, "a whole row: " + result);
                cells.addAll(result.listCells());
            }
        }
        same(cells, from, to, step);
        assertTrue(madeWay() > before, "the scan made way: " + scan);
    }

    private static void same(List<Cell> cells, int from, int to, int step) {
        int at = 0;
        for (int row = from; row != to; row += step) {
            for (int column = 0; column < COLUMNS; column++, at++) {
                assertTrue(at < cells.size(), "the scan ended before row " + row);
                Cell cell = cells.get(at);
                assertArrayEquals(Site.key(row), CellUtil.cloneRow(cell), "cell " + at + " is of row " + Bytes.toString(CellUtil.cloneRow(cell)));
                assertArrayEquals(value(row, column), CellUtil.cloneValue(cell));
            }
        }
        assertEquals(at, cells.size());
    }

    @Test
    void aScanHasAllRowsInOrder() throws Exception {
        expect(many, new Scan().setFilter(busy()), 0, ROWS, 1);
        expect(many, new Scan().setFilter(busy()).setCaching(7), 0, ROWS, 1);
        expect(many, new Scan().setFilter(busy()).setMaxResultSize(2_000), 0, ROWS, 1);
        expect(many, new Scan().setFilter(busy()).setReversed(true), ROWS - 1, -1, -1);
        expect(many, new Scan().setFilter(busy()).setLimit(777), 0, 777, 1);
        expect(many, new Scan().setFilter(busy()).setReadType(Scan.ReadType.PREAD), 0, ROWS, 1);
        expect(many, new Scan().withStartRow(Site.key(100)).withStopRow(Site.key(900)).setFilter(busy()), 100, 900, 1);
    }

    @Test
    void aScanByPartsOfRowsHasAllCellsInOrder() throws Exception {
        expect(many, new Scan().setFilter(new BusyRows()).setBatch(3), 0, ROWS, 1);
        expect(many, new Scan().setFilter(busy()).setAllowPartialResults(true).setMaxResultSize(20_000), 0, ROWS, 1);
    }

    @Test
    void aFilteredScanHasWhatPasses() throws Exception {
        expect(many, new Scan().setFilter(busy(new RowFilter(CompareOperator.EQUAL, new RegexStringComparator("..000")))), 0, 2_000, 1_000);
        // These look at whole rows, which may not be cut.
        expect(many, new Scan().setFilter(busy(new SingleColumnValueFilter(Site.FAMILY, Bytes.toBytes(1), CompareOperator.GREATER_OR_EQUAL, value(500, 1)))),
            500, ROWS, 1);
        expect(many, new Scan().setFilter(busy(new PageFilter(600))), 0, 600, 1);
    }

    @Test
    void aClientWithLittlePatienceHasAllRows() throws Exception {
        Configuration conf = new Configuration(Site.conf());
        conf.set("hbase.client.scanner.timeout.period", "1000");
        conf.set("hbase.rpc.timeout", "1000");
        try (Connection connection = Site.connect(conf, "many")) {
            expect(connection, new Scan().setFilter(busy()), 0, ROWS, 1);
        }
    }

    @Test
    void anAsynchronousClientHasAllRowsAndItsBatch() throws Exception {
        Configuration conf = new Configuration(Site.conf());
        try (AsyncConnection connection = ConnectionFactory.createAsyncConnection(conf).get()) {
            long before = madeWay();
            List<Cell> cells = new ArrayList<>();
            connection.getTable(TABLE).scanAll(new Scan().setFilter(busy())).get().forEach(result -> cells.addAll(result.listCells()));
            same(cells, 0, ROWS, 1);
            assertTrue(madeWay() > before, "the scan made way");
            List<Get> gets = new ArrayList<>();
            for (int row = 0; row < 300; row++) {
                gets.add(new Get(Site.key(row)).setFilter(new BusyRows()));
            }
            before = madeWay();
            List<Cell> found = new ArrayList<>();
            connection.getTable(TABLE).getAll(gets).get().forEach(result -> found.addAll(result.listCells()));
            same(found, 0, 300, 1);
            assertTrue(madeWay() > before, "the batch made way");
        }
    }

    @Test
    void aBatchOfGetsHasAllAnswersInOrder() throws Exception {
        long before = madeWay();
        try (Table table = many.getTable(TABLE)) {
            List<Get> gets = new ArrayList<>();
            for (int row = 0; row < ROWS; row++) {
                gets.add(new Get(Site.key(row)).setFilter(new BusyRows()));
            }
            List<Cell> cells = new ArrayList<>();
            for (Result result : table.get(gets)) {
                cells.addAll(result.listCells());
            }
            same(cells, 0, ROWS, 1);
        }
        assertTrue(madeWay() > before, "the batch made way");
    }

    /** Each change of a batch that makes way is made once. What belongs together is never seen apart. */
    @Test
    void aBatchOfChangesIsMadeOnceAndWholly() throws Exception {
        TableName name = TableName.valueOf("changed");
        Site.table(name, Cluster.DEFAULT, true, 0, 0);
        int rows = 100;
        int rounds = 5;
        AtomicBoolean stop = new AtomicBoolean();
        AtomicReference<String> torn = new AtomicReference<>();
        byte[] left = Bytes.toBytes("left");
        byte[] right = Bytes.toBytes("right");
        byte[] count = Bytes.toBytes("count");
        byte[] text = Bytes.toBytes("text");
        Thread reader = new Thread(() -> {
            try (Table table = few.getTable(name)) {
                for (int row = 0; !stop.get(); row = (row + 1) % rows) {
                    Result result = table.get(new Get(Site.key(row)).addColumn(Site.FAMILY, left).addColumn(Site.FAMILY, right));
                    if (!Bytes.equals(result.getValue(Site.FAMILY, left), result.getValue(Site.FAMILY, right))) {
                        torn.set("row " + row + ": " + result);
                    }
                }
            } catch (Exception failed) {
                torn.set(failed.toString());
            }
        });
        reader.start();
        long before = madeWay();
        try (Table table = many.getTable(name)) {
            for (int round = 1; round <= rounds; round++) {
                List<Row> all = new ArrayList<>();
                for (int row = 0; row < rows; row++) {
                    byte[] key = Site.key(row);
                    all.add(new Increment(key).addColumn(Site.FAMILY, count, 1));
                    all.add(new Append(key).addColumn(Site.FAMILY, text, Bytes.toBytes("x")));
                    RowMutations both = new RowMutations(key);
                    both.add(new Put(key).addColumn(Site.FAMILY, left, Bytes.toBytes(round)));
                    both.add(new Put(key).addColumn(Site.FAMILY, right, Bytes.toBytes(round)));
                    all.add(both);
                    all.add(new Get(key).setFilter(new BusyRows()));
                    all.add(new Put(Site.key(1_000 + row)).addColumn(Site.FAMILY, left, Bytes.toBytes(round)));
                    all.add(new Delete(Site.key(2_000 + row)));
                }
                Object[] answers = new Object[all.size()];
                table.batch(all, answers);
                for (int at = 0; at < answers.length; at++) {
                    assertTrue(answers[at] instanceof Result, all.get(at) + ": " + answers[at]);
                    if (all.get(at) instanceof Increment) {
                        assertEquals(round, Bytes.toLong(((Result) answers[at]).getValue(Site.FAMILY, count)));
                    }
                }
            }
            for (int row = 0; row < rows; row++) {
                Result result = table.get(new Get(Site.key(row)));
                assertEquals(rounds, Bytes.toLong(result.getValue(Site.FAMILY, count)));
                assertEquals("x".repeat(rounds), Bytes.toString(result.getValue(Site.FAMILY, text)));
                assertArrayEquals(Bytes.toBytes(rounds), result.getValue(Site.FAMILY, right));
                assertArrayEquals(Bytes.toBytes(rounds), table.get(new Get(Site.key(1_000 + row))).getValue(Site.FAMILY, left));
            }
        } finally {
            stop.set(true);
            reader.join();
        }
        assertEquals(null, torn.get());
        assertTrue(madeWay() > before, "the batches made way");
    }
}

package headworks.cluster;

import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.Vector;
import org.apache.hadoop.hbase.Cell;
import org.apache.hadoop.hbase.CellUtil;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.Get;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.filter.Filter;
import org.apache.hadoop.hbase.util.Bytes;
import site.ycsb.ByteArrayByteIterator;
import site.ycsb.ByteIterator;
import site.ycsb.DB;
import site.ycsb.Status;
import site.ycsb.WorkloadException;
import site.ycsb.measurements.Measurements;
import site.ycsb.workloads.CoreWorkload;

/**
 * A binding of YCSB (Cooper and others 2010): its core workloads choose requests and records, and this
 * sends them to HBase. Ten fields of 100 bytes, popular by Zipf's law, as in YCSB's own files of parameters.
 */
final class Ycsb extends DB {
    private static final int RECORDS = 1_000;

    private final Table table;
    /** What reads do in the server besides; {@code null}: nothing. */
    private final Filter filter;
    private IOException failed;

    private Ycsb(Table table, Filter filter) {
        this.table = table;
        this.filter = filter;
    }

    /** Core workload A has 50 % updates, and C none. The table is made at this region server, with its records. */
    static CoreWorkload load(TableName name, int port, int updates) throws Exception {
        Site.table(name, port, true, 0, 0);
        try (Connection root = Site.connect("root"); Table table = root.getTable(name)) {
            CoreWorkload workload = workload(updates);
            for (int record = 0; record < RECORDS; record++) {
                Ycsb loader = new Ycsb(table, null);
                if (!workload.doInsert(loader, null)) {
                    throw new IOException("YCSB's records cannot be loaded", loader.failed);
                }
            }
            return workload;
        }
    }

    /** Requests of which so many of a hundred are updates. The table is the one that {@link #request} gets. */
    static CoreWorkload workload(int updates) throws WorkloadException {
        Properties parameters = new Properties();
        Map.of("recordcount", "" + RECORDS, "operationcount", "1", "requestdistribution", "zipfian",
            "readproportion", "" + (100 - updates) / 100.0, "updateproportion", "" + updates / 100.0,
            "scanproportion", "0", "insertproportion", "0").forEach(parameters::setProperty);
        Measurements.setProperties(parameters);
        CoreWorkload workload = new CoreWorkload();
        workload.init(parameters);
        return workload;
    }

    /** One request of a workload. YCSB itself goes on when one fails. */
    static void request(CoreWorkload workload, Table table, Filter filter) throws IOException {
        Ycsb client = new Ycsb(table, filter);
        workload.doTransaction(client, null);
        if (client.failed != null) {
            throw client.failed;
        }
    }

    @Override
    public Status read(String unused, String key, Set<String> fields, Map<String, ByteIterator> result) {
        try {
            Cell[] cells = table.get(new Get(Bytes.toBytes(key)).addFamily(Site.FAMILY).setFilter(filter)).rawCells();
            for (Cell cell : cells) {
                result.put(Bytes.toString(CellUtil.cloneQualifier(cell)), new ByteArrayByteIterator(CellUtil.cloneValue(cell)));
            }
            return cells.length > 0 ? Status.OK : fail(new IOException("no record " + key));
        } catch (IOException refused) {
            return fail(refused);
        }
    }

    @Override
    public Status update(String unused, String key, Map<String, ByteIterator> values) {
        Put put = new Put(Bytes.toBytes(key));
        values.forEach((field, value) -> put.addColumn(Site.FAMILY, Bytes.toBytes(field), value.toArray()));
        try {
            table.put(put);
            return Status.OK;
        } catch (IOException refused) {
            return fail(refused);
        }
    }

    @Override
    public Status insert(String unused, String key, Map<String, ByteIterator> values) {
        return update(unused, key, values);
    }

    @Override
    public Status scan(String unused, String first, int count, Set<String> fields, Vector<HashMap<String, ByteIterator>> result) {
        return Status.NOT_IMPLEMENTED;
    }

    @Override
    public Status delete(String unused, String key) {
        return Status.NOT_IMPLEMENTED;
    }

    private Status fail(IOException why) {
        failed = why;
        return Status.ERROR;
    }
}

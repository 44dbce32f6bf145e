package headworks.cluster;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.util.Bytes;
import org.apache.hadoop.hbase.util.MultiThreadedAction;
import org.apache.hadoop.hbase.util.MultiThreadedReader;
import org.apache.hadoop.hbase.util.MultiThreadedWriter;

/**
 * The writers and readers of HBase's own LoadTestTool, which verify each value. The tool itself is in no
 * library that Maven Central has for this version. A process of its own: {@code write|read TABLE FROM TO}.
 */
final class LoadTool {
    static final String FAMILY = "test_cf";
    private static final int THREADS = 4;
    private static final int BYTES = 200;
    private static final int COLUMNS = 3;

    private LoadTool() {}

    public static void main(String[] arguments) throws Exception {
        Configuration conf = HBaseConfiguration.create();
        TableName table = TableName.valueOf(arguments[1]);
        long from = Long.parseLong(arguments[2]);
        long to = Long.parseLong(arguments[3]);
        var data = new MultiThreadedAction.DefaultDataGenerator(BYTES, BYTES, COLUMNS, COLUMNS, Bytes.toBytes(FAMILY));
        long failed;
        if (arguments[0].equals("write")) {
            MultiThreadedWriter writer = new MultiThreadedWriter(data, conf, table);
            writer.start(from, to, THREADS);
            writer.waitForFinish();
            failed = writer.getNumWriteFailures();
        } else {
            MultiThreadedReader reader = new MultiThreadedReader(data, conf, table, 100);
            reader.setMaxErrors(Integer.MAX_VALUE);
            reader.start(from, to, THREADS);
            reader.waitForFinish();
            failed = to - from - reader.getNumUniqueKeysVerified() + reader.getNumReadErrors();
        }
        System.out.println(arguments[0] + ": " + failed + " of " + (to - from) + " keys failed");
        System.exit(failed == 0 ? 0 : 1);
    }
}

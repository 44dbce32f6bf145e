package headworks.cluster;

import org.apache.hadoop.hbase.Cell;
import org.apache.hadoop.hbase.filter.FilterBase;

/** A filter in the region server that has a processor busy for a tenth of a millisecond with each row, and lets all pass. */
public final class BusyRows extends FilterBase {
    @Override
    public boolean filterRowKey(Cell first) {
        for (long end = System.nanoTime() + 100_000; System.nanoTime() < end;) {
            Thread.onSpinWait();
        }
        return false;
    }

    @Override
    public byte[] toByteArray() {
        return new byte[0];
    }

    /** HBase calls this by reflection. */
    public static BusyRows parseFrom(byte[] nothing) {
        return new BusyRows();
    }
}

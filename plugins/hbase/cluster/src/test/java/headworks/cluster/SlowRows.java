package headworks.cluster;

import org.apache.hadoop.hbase.Cell;
import org.apache.hadoop.hbase.filter.FilterBase;

/** A filter in the region server that takes 20 ms for each row: a handler is busy, and no processor is. */
public final class SlowRows extends FilterBase {
    @Override
    public boolean filterRowKey(Cell first) {
        try {
            Thread.sleep(20);
        } catch (InterruptedException stop) {
            Thread.currentThread().interrupt();
        }
        return false;
    }

    @Override
    public byte[] toByteArray() {
        return new byte[0];
    }

    /** HBase calls this by reflection. */
    public static SlowRows parseFrom(byte[] nothing) {
        return new SlowRows();
    }
}

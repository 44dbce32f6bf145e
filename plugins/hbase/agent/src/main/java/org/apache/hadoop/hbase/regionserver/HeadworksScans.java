package org.apache.hadoop.hbase.regionserver;

import headworks.fair.Slice;

/** Where scans end: what the agent needs of classes of this package. */
public final class HeadworksScans {
    private HeadworksScans() {}

    /** Whether a scan ends here. Only a client that knows heartbeats has a time limit: others could not tell the end from a part. */
    public static boolean ends(Object context) {
        return ((ScannerContext) context).getTimeLimit() > 0 && Slice.ends();
    }
}

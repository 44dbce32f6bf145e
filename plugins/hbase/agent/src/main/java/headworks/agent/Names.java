package headworks.agent;

import headworks.fair.Here;

/** The tenant's name on its way from the region server to the DataNode: behind the HDFS client's own name. */
public final class Names {
    private static final String MARK = "#t=";
    /** Compactions have no client. A DataNode takes this name for housekeeping. */
    static final String HOUSEKEEPING = "(compaction)";
    private static final int LONGEST = 64;

    private Names() {}

    /** The client's name with the tenant's, where a thread of the region server reads for one. */
    public static String mark(String clientName) {
        String tenant = Here.name();
        if (tenant == null && Thread.currentThread().getName().contains("ompactions-")) {
            tenant = HOUSEKEEPING;
        }
        // An empty name means that a DataNode asks, and must stay empty.
        return tenant == null || clientName == null || clientName.isEmpty() || clientName.contains(MARK)
            ? clientName : clientName + MARK + printable(tenant);
    }

    /** The tenant in a client's name, {@code null} if there is none. */
    public static String tenant(String clientName) {
        int at = clientName == null ? -1 : clientName.lastIndexOf(MARK);
        return at < 0 ? null : clientName.substring(at + MARK.length());
    }

    /** Names go into logs and thread names of DataNodes. */
    private static String printable(String name) {
        String head = name.length() > LONGEST ? name.substring(0, LONGEST) : name;
        return head.replaceAll("[^!-~]", "_");
    }
}

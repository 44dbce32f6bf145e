package headworks.agent;

import headworks.fair.Escape;
import headworks.fair.Here;
import headworks.fair.Tier;
import java.util.Collections;
import java.util.Map;
import java.util.WeakHashMap;

/** The tenant's name on its way from the region server to the DataNode: behind the HDFS client's own name. */
public final class Names {
    private static final String MARK = "#t=";
    /** Ends a server's name in that of its log's file. */
    private static final String SERVER_ENDS = "%2C";
    /** For whom threads that send packets were made. */
    private static final Map<Thread, String> MADE_FOR = Collections.synchronizedMap(new WeakHashMap<>());

    private Names() {}

    /** For whom this thread reads or writes a file: a tenant, or work that has no client. {@code null}: unknown. */
    public static String here() {
        String tenant = Here.name();
        if (tenant != null) {
            return tenant;
        }
        String thread = Thread.currentThread().getName();
        return thread.contains("ompactions-") ? Tier.COMPACTION
            : thread.contains("replicationSource") ? Tier.REPLICATION
            : thread.startsWith("sync.") || thread.contains("append-pool") ? Tier.LOG : null;
    }

    /** The client's name with the tenant's, where a thread of the region server works for one. */
    public static String mark(String clientName) {
        // An empty name means that a DataNode asks, and must stay empty.
        if (clientName == null || clientName.isEmpty() || clientName.contains(MARK)) {
            return clientName;
        }
        String tenant = here();
        return tenant == null ? clientName : clientName + MARK + Escape.word(tenant);
    }

    /** The tenant in a client's name, {@code null} if there is none. */
    public static String tenant(String clientName) {
        int at = clientName == null ? -1 : clientName.lastIndexOf(MARK);
        return at < 0 ? null : Escape.name(clientName.substring(at + MARK.length()));
    }

    /** The name of a write-ahead log: with its namespace where each has a log. */
    public static String log(String path) {
        String name = path.substring(path.lastIndexOf('/') + 1);
        int server = name.lastIndexOf(SERVER_ENDS);
        // STARTCODE.TIME, or STARTCODE.GROUP.TIME
        String[] parts = name.substring(server < 0 ? 0 : server).split("\\.");
        return server < 0 || parts.length < 3 ? Tier.LOG : "(log:" + parts[1] + ")";
    }

    /** The thread sends packets for whom this thread works. */
    public static void bind(Thread streamer) {
        String name = here();
        if (name != null) {
            MADE_FOR.put(streamer, name);
        }
    }

    /** The thread begins to work for whom it was made. */
    public static void take(Thread streamer) {
        Here.set(MADE_FOR.remove(streamer));
    }
}

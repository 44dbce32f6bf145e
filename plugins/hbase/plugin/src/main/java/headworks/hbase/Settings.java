package headworks.hbase;

import headworks.fair.Weights;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.ipc.RpcCall;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** What {@code hbase-site.xml} says. Wrong values are named in the log, and count as if they were not there. */
final class Settings {
    static final String ENABLED = "headworks.enabled";
    static final String ATTRIBUTE = "headworks.tenant.attribute";
    /** HBase's own: the attribute whose value stands for the user in quotas. */
    static final String HBASE_ATTRIBUTE = "hbase.quota.user.override.key";
    static final String NETWORK = "headworks.network.bytes-per-second";
    static final String DISK = "headworks.disk.bytes-per-second";
    static final String OUTSTANDING = "headworks.log.outstanding";
    static final String UNREAD = "headworks.responses.bytes-per-tenant";
    static final String KEPT = "headworks.handlers.kept";
    static final String SPECULATE = "headworks.speculate";
    static final String CONTROLLER = "headworks.controller";
    static final String TOKEN_FILE = "headworks.controller.token.file";
    static final String TLS = "headworks.controller.tls";

    private static final String OURS = "headworks.";
    private static final Set<String> KNOWN = Set.of(ENABLED, Weights.SETTING, ATTRIBUTE, NETWORK, DISK, OUTSTANDING, UNREAD, KEPT, SPECULATE,
        CONTROLLER, TOKEN_FILE, TLS);

    private static final Logger LOG = LoggerFactory.getLogger(Settings.class);
    /** HBase 2.5 has neither. */
    private static final boolean HAS_ATTRIBUTES = has("getRequestAttribute", String.class);
    private static final boolean COUNTS_BLOCKS = has("getBlockBytesScanned");
    private static final int FEW_HANDLERS = 5;
    /** HBase's part of those for {@code hbase:meta} that read. */
    private static final double META_READERS = 0.9;

    final boolean enabled;
    /** The request attribute that names the tenant; {@code null} if the user does. */
    final String attribute;
    final Map<String, Integer> weights;
    /** 0: not a resource that is divided. */
    final long networkBytesPerSecond;
    final long diskBytesPerSecond;
    /** Writes below the ordered log; 0: any number. */
    final int outstanding;
    /** Bytes of responses that a tenant's clients may leave unread; 0: any number. */
    final long unreadBytes;
    /** Handlers that one tenant may hold while others come; 0: any number. */
    final int mostHandlers;
    /** The same for the handlers that HBase has for {@code hbase:meta} and administration. */
    final int mostHandlersApart;
    /** Whether gets that need no file may be served without a handler. */
    final boolean speculate;
    /** Where controllers are, HOST:PORT each; they set the weights. */
    final String controllers;
    final String tokenFile;
    final boolean tls;
    final int handlers;
    final int queues;
    private final double kept;
    /** Calls that one queue may have: HBase refuses all calls of everybody from here on. */
    final int queueLength;

    Settings(Configuration conf) {
        for (Map.Entry<String, String> each : conf) {
            if (each.getKey().startsWith(OURS) && !KNOWN.contains(each.getKey())) {
                LOG.warn("{}: there is no such setting: it has no effect", each.getKey());
            }
        }
        enabled = flag(conf, ENABLED, true);
        String key = conf.getTrimmed(ATTRIBUTE, conf.getTrimmed(HBASE_ATTRIBUTE, ""));
        attribute = key.isEmpty() || !HAS_ATTRIBUTES ? null : key;
        if (!key.isEmpty() && !HAS_ATTRIBUTES) {
            LOG.warn("{}: requests have no attributes in this version of HBase: the user is the tenant",
                conf.get(ATTRIBUTE) == null ? HBASE_ATTRIBUTE : ATTRIBUTE);
        }
        weights = Weights.parse(conf.get(Weights.SETTING, ""), words -> LOG.warn("{}: {}", Weights.SETTING, words));
        networkBytesPerSecond = enabled ? number(conf, NETWORK, 0) : 0;
        long disk = number(conf, DISK, 0);
        diskBytesPerSecond = COUNTS_BLOCKS ? disk : 0;
        if (disk > 0 && !COUNTS_BLOCKS) {
            LOG.warn("{}: this version of HBase does not count the blocks that a call reads: the disk is not divided", DISK);
        }
        outstanding = enabled ? (int) Math.min(10_000, number(conf, OUTSTANDING, 0)) : 0;
        unreadBytes = enabled ? number(conf, UNREAD, 0) : 0;
        speculate = enabled && flag(conf, SPECULATE, false);
        controllers = conf.getTrimmed(CONTROLLER, "");
        tokenFile = conf.getTrimmed(TOKEN_FILE, "");
        tls = flag(conf, TLS, false);
        handlers = Math.max(1, conf.getInt("hbase.regionserver.handler.count", 30));
        queues = (int) Math.max(1, Math.round(handlers * real(conf, "hbase.ipc.server.callqueue.handler.factor", 0.1)));
        kept = real(conf, KEPT, 0.1);
        mostHandlers = enabled ? mostHandlers(handlers, kept) : 0;
        mostHandlersApart = enabled ? mostHandlers((int) (conf.getInt("hbase.regionserver.metahandler.count", 20) * META_READERS), kept) : 0;
        queueLength = Math.max(1, conf.getInt("hbase.ipc.server.max.callqueue.length", 10 * handlers));
    }

    /** Whether calls of this version of HBase have such a method. */
    private static boolean has(String method, Class<?>... arguments) {
        try {
            RpcCall.class.getMethod(method, arguments);
            return true;
        } catch (NoSuchMethodException | LinkageError older) {
            return false;
        }
    }

    /** All handlers but this part, one at least. Of few handlers none is kept free. */
    static int mostHandlers(int handlers, double kept) {
        boolean enough = handlers >= FEW_HANDLERS && kept > 0;
        return enough ? Math.max(1, handlers - Math.max(1, (int) (handlers * Math.min(1, kept)))) : 0;
    }

    private static boolean flag(Configuration conf, String key, boolean usual) {
        String value = conf.getTrimmed(key, "" + usual);
        if (!value.equalsIgnoreCase("true") && !value.equalsIgnoreCase("false")) {
            LOG.warn("{}: \"{}\" is neither true nor false: {} counts", key, value, usual);
        }
        return conf.getBoolean(key, usual);
    }

    private static double real(Configuration conf, String key, double usual) {
        try {
            double value = conf.getDouble(key, usual);
            if (value >= 0 && Double.isFinite(value)) {
                return value;
            }
        } catch (NumberFormatException wrong) {
            // It is said below.
        }
        LOG.warn("{}: \"{}\" is no number that can be used: {} counts", key, conf.get(key), usual);
        return usual;
    }

    private static long number(Configuration conf, String key, long usual) {
        try {
            return Math.max(0, conf.getLong(key, usual));
        } catch (NumberFormatException wrong) {
            LOG.warn("{}: \"{}\" is no number: {} counts", key, conf.get(key), usual);
            return usual;
        }
    }

    /** For status. */
    @Override
    public String toString() {
        return ENABLED + "=" + enabled + " " + ATTRIBUTE + "=" + attribute + " " + NETWORK + "=" + networkBytesPerSecond + " "
            + DISK + "=" + diskBytesPerSecond + " " + OUTSTANDING + "=" + outstanding + " " + UNREAD + "=" + unreadBytes + " "
            + KEPT + "=" + kept + " " + SPECULATE + "=" + speculate + " " + CONTROLLER + "=" + controllers;
    }
}

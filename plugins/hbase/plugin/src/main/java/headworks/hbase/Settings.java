package headworks.hbase;

import java.util.HashMap;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** What {@code hbase-site.xml} says. Wrong values are named in the log, and count as if they were not there. */
final class Settings {
    static final String ENABLED = "headworks.enabled";
    static final String WEIGHTS = "headworks.weights";
    static final String ATTRIBUTE = "headworks.tenant.attribute";
    /** HBase's own: the attribute whose value stands for the user in quotas. */
    static final String HBASE_ATTRIBUTE = "hbase.quota.user.override.key";
    static final String NETWORK = "headworks.network.bytes-per-second";
    static final String DISK = "headworks.disk.bytes-per-second";

    private static final Logger LOG = LoggerFactory.getLogger(Settings.class);
    private static final double MOST_WEIGHT = 1_000_000;

    final boolean enabled;
    /** The request attribute that names the tenant; {@code null} if the user does. */
    final String attribute;
    final Map<String, Integer> weights;
    /** 0: not a resource that is divided. */
    final long networkBytesPerSecond;
    final long diskBytesPerSecond;
    final int handlers;
    /** Calls that one queue may have: HBase refuses all calls of everybody from here on. */
    final int queueLength;

    Settings(Configuration conf) {
        enabled = conf.getBoolean(ENABLED, true);
        String key = conf.getTrimmed(ATTRIBUTE, conf.getTrimmed(HBASE_ATTRIBUTE, ""));
        attribute = key.isEmpty() ? null : key;
        weights = weights(conf.get(WEIGHTS, ""));
        networkBytesPerSecond = rate(conf, NETWORK);
        diskBytesPerSecond = rate(conf, DISK);
        handlers = Math.max(1, conf.getInt("hbase.regionserver.handler.count", 30));
        queueLength = Math.max(1, conf.getInt("hbase.ipc.server.max.callqueue.length", 10 * handlers));
    }

    /** Reads {@code "alice=4, batch=0.5"}. */
    static Map<String, Integer> weights(String text) {
        Map<String, Integer> weights = new HashMap<>();
        for (String part : text.split(",")) {
            if (part.isBlank()) {
                continue;
            }
            // A name may contain the sign: users of Kerberos have many forms.
            int sign = part.lastIndexOf('=');
            try {
                double weight = Double.parseDouble(part.substring(sign + 1).trim());
                String name = part.substring(0, Math.max(0, sign)).trim();
                if (name.isEmpty() || !(weight > 0 && weight <= MOST_WEIGHT)) {
                    throw new NumberFormatException();
                }
                weights.put(name, (int) Math.max(1, Math.round(weight * 1_000)));
            } catch (NumberFormatException wrong) {
                LOG.warn("{}: \"{}\" is left out. Write NAME=WEIGHT, with a weight above 0 and up to {}",
                    WEIGHTS, part.trim(), (long) MOST_WEIGHT);
            }
        }
        return weights;
    }

    private static long rate(Configuration conf, String key) {
        try {
            return Math.max(0, conf.getLong(key, 0));
        } catch (NumberFormatException wrong) {
            LOG.warn("{}: \"{}\" is no number of bytes: the resource is not divided", key, conf.get(key));
            return 0;
        }
    }
}

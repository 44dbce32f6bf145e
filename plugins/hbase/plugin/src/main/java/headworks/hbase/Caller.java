package headworks.hbase;

import headworks.fair.Tenants;
import headworks.fair.Tier;
import java.nio.charset.StandardCharsets;
import org.apache.hadoop.hbase.ipc.RpcCall;

/** For whom a call is made. */
final class Caller {
    private static final int LONGEST_NAME = 256;

    private Caller() {}

    /**
     * The tenant: a request attribute if one is configured, else the same attribute of the connection,
     * else the user. A call whose caller cannot be read is served as one of {@link Tenants#others}.
     */
    static Tenants.Tenant of(RpcCall call, Settings settings, Tenants tenants) {
        if (!settings.enabled) {
            return tenants.others();
        }
        try {
            byte[] name = settings.attribute == null ? null : attribute(call, settings.attribute);
            if (name != null && name.length > 0) {
                return tenants.of(new String(name, 0, Math.min(name.length, LONGEST_NAME), StandardCharsets.UTF_8));
            }
            return tenants.of(call.getRequestUser().map(user -> user.getShortName()).orElse(null));
        } catch (RuntimeException | LinkageError unreadable) {
            return tenants.others();
        }
    }

    private static byte[] attribute(RpcCall call, String key) {
        try {
            byte[] value = call.getRequestAttribute(key);
            return value != null ? value : call.getConnectionAttributes().get(key);
        } catch (LinkageError older) {
            // HBase 2.5 has no attributes of requests and connections.
            return null;
        }
    }

    /** Bulk loads are housekeeping; reads and writes of clients are not. */
    static Tier tier(RpcCall call, Settings settings) {
        return settings.enabled && call.getMethod() != null && call.getMethod().getName().equals("BulkLoadHFile") ? Tier.BACKGROUND : Tier.USERS;
    }
}

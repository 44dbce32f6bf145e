package headworks.hbase;

import headworks.fair.Tenants;
import headworks.fair.Tier;
import java.io.IOException;
import org.apache.hadoop.hbase.ipc.RpcCall;
import org.apache.hadoop.hbase.shaded.protobuf.generated.ClientProtos;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.hbase.thirdparty.com.google.protobuf.Message;

/** For whom a call is made. */
final class Caller {
    private static final String OWN_USER = ownUser();
    /** HBase's attribute of a write with the clusters that have it: {@code Mutation.setClusterIds}. */
    private static final String CLUSTERS = "_cs.id";

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
            String user = call.getRequestUser().map(each -> each.getShortName()).orElse(null);
            if (replicates(call.getParam(), user, OWN_USER)) {
                return tenants.of(Tier.REPLICATION);
            }
            byte[] name = settings.attribute == null ? null : attribute(call, settings.attribute);
            if (name != null && name.length > 0) {
                return tenants.client(name, user);
            }
            return tenants.client(user);
        } catch (RuntimeException | LinkageError unreadable) {
            return tenants.others();
        }
    }

    private static byte[] attribute(RpcCall call, String key) {
        byte[] value = call.getRequestAttribute(key);
        return value != null ? value : call.getConnectionAttributes().get(key);
    }

    /**
     * Whether a sink of replication writes what came from another cluster: a batch as a client's, by the server's own user, and
     * each write names clusters that have it. Such a name alone would let any client pass for replication.
     */
    static boolean replicates(Message request, String user, String ownUser) {
        if (ownUser.isEmpty() || !ownUser.equals(user) || !(request instanceof ClientProtos.MultiRequest batch)
            || batch.getRegionActionCount() == 0 || batch.getRegionAction(0).getActionCount() == 0) {
            return false;
        }
        return batch.getRegionAction(0).getAction(0).getMutation().getAttributeList().stream()
            .anyMatch(each -> each.getName().equals(CLUSTERS));
    }

    private static String ownUser() {
        try {
            return UserGroupInformation.getLoginUser().getShortUserName();
        } catch (IOException | RuntimeException | LinkageError unknown) {
            // No call may fail for it: what is replicated counts as the server's own user's.
            return "";
        }
    }

    /** How much a call asks for: a batch's rows count one each. */
    static int rows(RpcCall call) {
        int rows = 0;
        if (call != null && call.getParam() instanceof ClientProtos.MultiRequest batch) {
            for (ClientProtos.RegionAction each : batch.getRegionActionList()) {
                rows += each.getActionCount();
            }
        }
        return Math.max(1, rows);
    }

    /** Bulk loads and replication are housekeeping; reads and writes of clients are not. */
    static Tier tier(RpcCall call, Settings settings, Tenants.Tenant tenant) {
        boolean load = settings.enabled && call.getMethod() != null && call.getMethod().getName().equals("BulkLoadHFile");
        return load ? Tier.BACKGROUND : Tier.of(tenant.name);
    }
}

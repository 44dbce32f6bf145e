package headworks.cluster;

import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.ServerName;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.ColumnFamilyDescriptorBuilder;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.ConnectionFactory;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.client.TableDescriptorBuilder;
import org.apache.hadoop.hbase.security.User;
import org.apache.hadoop.hbase.util.Bytes;
import org.apache.hadoop.security.UserGroupInformation;

/** The cluster that all tests of one run share, and what they do with it. */
final class Site {
    static final byte[] FAMILY = Bytes.toBytes("f");
    static final int HANDLERS = 6;

    private static Cluster cluster;
    private static Configuration conf;

    private Site() {}

    /** Starts the cluster, once. It ends with the tests' process. */
    static synchronized Cluster start() throws Exception {
        assumeTrue(System.getenv("HEADWORKS_CLUSTER") != null, "a cluster needs a network namespace: run scripts/test-hbase");
        if (cluster == null) {
            cluster = new Cluster(Map.of(
                "hbase.regionserver.handler.count", "" + HANDLERS,
                "hbase.ipc.server.callqueue.handler.factor", "0.34",
                "hbase.ipc.server.max.callqueue.length", "1000",
                // Edits of a shipment of replication.
                "replication.source.nb.capacity", "1000",
                "hbase.ipc.server.callqueue.type", "pluggable",
                "hbase.ipc.server.callqueue.pluggable.queue.class.name", "headworks.hbase.FairCallQueue"), false, Cluster.BY_DEFAULT, Cluster.BY_CLASSIC);
            Runtime.getRuntime().addShutdownHook(new Thread(Site::end));
            use(cluster);
        }
        return cluster;
    }

    /** Clients come to this cluster from now on. */
    static synchronized void use(Cluster started) throws Exception {
        cluster = started;
        conf = HBaseConfiguration.create();
        conf.addResource(new Path(cluster.hbaseSite().toUri()));
        conf.set("fs.defaultFS", "hdfs://127.0.0.1:9000");
        // A call that hangs fails its test. HBase's own patience is twenty minutes.
        conf.set("hbase.client.operation.timeout", "40000");
        conf.set("hbase.client.meta.operation.timeout", "40000");
        conf.set("hbase.rpc.timeout", "20000");
        conf.set("hbase.client.scanner.timeout.period", "20000");
        // A client counts its calls that failed.
        conf.set("hbase.client.metrics.enable", "true");
        try (Connection connection = connect("root"); Admin admin = connection.getAdmin()) {
            admin.balancerSwitch(false, true);
            // The master is ready before the last of them has come.
            long end = System.nanoTime() + 60_000_000_000L;
            while (admin.getRegionServers().size() < cluster.regionServers()) {
                if (System.nanoTime() > end) {
                    throw new java.io.IOException("not all region servers are there: " + admin.getRegionServers());
                }
                Thread.sleep(100);
            }
        }
    }

    /** What clients of the cluster know of it. */
    static Configuration conf() {
        return conf;
    }

    private static void end() {
        try {
            cluster.close();
        } catch (java.io.IOException failed) {
            failed.printStackTrace();
        }
    }

    /** Starts a second HBase: what its clients know of it. */
    static Configuration second(Cluster cluster) throws Exception {
        Configuration second = new Configuration(conf);
        cluster.startSecond().forEach(second::set);
        return second;
    }

    static Connection connect(String user) throws Exception {
        return connect(conf, user);
    }

    static Connection connect(Configuration conf, String user) throws Exception {
        return ConnectionFactory.createConnection(conf, User.create(UserGroupInformation.createRemoteUser(user)));
    }

    /** Makes a table of one region at the server of this port, with so many rows of this size. */
    static void table(TableName name, int port, boolean cached, int rows, int bytes) throws Exception {
        try (Connection connection = connect("root"); Admin admin = connection.getAdmin()) {
            admin.createTable(TableDescriptorBuilder.newBuilder(name)
                .setColumnFamily(ColumnFamilyDescriptorBuilder.newBuilder(FAMILY).setBlockCacheEnabled(cached).build()).build());
            ServerName server = server(admin, port);
            admin.move(admin.getRegions(name).get(0).getEncodedNameAsBytes(), server);
            List<Put> puts = new ArrayList<>();
            for (int row = 0; row < rows; row++) {
                puts.add(put(row, bytes));
            }
            try (Table table = connection.getTable(name)) {
                table.put(puts);
            }
        }
    }

    static Put put(int row, int bytes) {
        return new Put(key(row)).addColumn(FAMILY, FAMILY, new byte[bytes]);
    }

    static ServerName server(Admin admin, int port) throws Exception {
        return admin.getRegionServers().stream().filter(each -> each.getPort() == port).findFirst().orElseThrow();
    }

    /** Settings reach the running region servers: they are not started again. */
    static void reload(Map<String, String> settings) throws Exception {
        settings.forEach(cluster::set);
        try (Connection connection = connect("root"); Admin admin = connection.getAdmin()) {
            for (ServerName server : admin.getRegionServers()) {
                admin.updateConfiguration(server);
            }
        }
    }

    /** The name of a table's only region. */
    static byte[] region(TableName name) throws Exception {
        try (Connection connection = connect("root"); Admin admin = connection.getAdmin()) {
            return admin.getRegions(name).get(0).getRegionName();
        }
    }

    static Table table(Connection connection, TableName name, String tenant) {
        return connection.getTableBuilder(name, null).setRequestAttribute("tenant", tenant.getBytes(StandardCharsets.UTF_8)).build();
    }

    static byte[] key(int row) {
        return Bytes.toBytes(String.format("%05d", row));
    }
}

package org.apache.hadoop.hbase.ipc;

import headworks.fair.Here;
import headworks.fair.Network;
import headworks.fair.Parts;
import headworks.fair.Resource;
import headworks.fair.Scheduler;
import headworks.fair.Stage;
import headworks.fair.Stages;
import headworks.fair.Tenants;
import headworks.fair.Tier;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.channels.CancelledKeyException;
import java.nio.channels.SelectionKey;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.WeakHashMap;
import java.util.concurrent.ThreadLocalRandom;
import org.apache.hadoop.hbase.CallQueueTooBigException;
import org.apache.hadoop.hbase.shaded.protobuf.generated.ClientProtos.MultiResponse;
import org.apache.hadoop.hbase.shaded.protobuf.generated.ClientProtos.RegionActionResult;
import org.apache.hadoop.hbase.shaded.protobuf.generated.ClientProtos.ResultOrException;
import org.apache.hadoop.hbase.shaded.protobuf.generated.HBaseProtos.NameBytesPair;

/** RPC Read and RPC Respond, failed calls and connections: what the agent needs of classes of this package. */
public final class HeadworksCalls {
    private static final int READ = Stage.READ.ordinal();
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
    private static final int PROCESSORS = Runtime.getRuntime().availableProcessors();

    private HeadworksCalls() {}

    /** A response waits for its turn at the network, and no thread waits for that. {@code false}: it goes out at once. */
    public static boolean respondLater(Object connection, Object response) {
        String name = Here.name();
        if (name == null || Thread.currentThread() == Parts.NETWORK) {
            return false;
        }
        try {
            RpcResponse answer = (RpcResponse) response;
            long bytes = answer.getResponse().size();
            Tenants.Tenant tenant = Scheduler.here().tenants().of(name);
            Parts.UNREAD.add(answer, tenant, bytes);
            boolean later = Parts.NETWORK.later(Stage.RESPOND, Tier.of(name), new Response((ServerRpcConnection) connection, answer, tenant, bytes));
            if (later && answer instanceof ServerCall<?> call) {
                // As HBase does once a call is answered: its request may be large.
                call.param = null;
            }
            return later;
        } catch (RuntimeException | LinkageError unknown) {
            return false;
        }
    }

    private static final class Response extends Network.Parcel {
        private final ServerRpcConnection connection;
        private final RpcResponse answer;

        Response(ServerRpcConnection connection, RpcResponse answer, Tenants.Tenant tenant, long bytes) {
            super(tenant, bytes);
            this.connection = connection;
            this.answer = answer;
        }

        @Override
        protected void send() {
            try {
                connection.doRespond(answer);
            } catch (IOException gone) {
                // The client is gone. HBase has closed the connection.
            }
        }
    }

    /** The connection is read by another thread, when it is its turn. {@code false}: the caller reads it. */
    public static boolean readLater(Object listener, SelectionKey key) {
        if (!Scheduler.here().several() || Thread.currentThread() instanceof Reader) {
            return false;
        }
        try {
            if (!(key.attachment() instanceof SimpleServerRpcConnection connection)) {
                return false;
            }
            Tenants.Tenant tenant = tenant(connection);
            Stages<Object> instance = Readers.ALL[ThreadLocalRandom.current().nextInt(Readers.ALL.length)].instance;
            key.interestOps(0);
            instance.add(READ, Tier.USERS, tenant.number, tenant.weight(), new Ready(listener, key, tenant), Integer.MAX_VALUE);
            Scheduler.here().figures().waits(Stage.READ);
            return true;
        } catch (CancelledKeyException closed) {
            return true;
        } catch (RuntimeException | LinkageError unknown) {
            return false;
        }
    }

    /** At this stage the tenant is the connection's: the request's attributes are not read yet. */
    private static Tenants.Tenant tenant(ServerRpcConnection connection) {
        Tenants tenants = Scheduler.here().tenants();
        String attribute = Parts.attribute();
        byte[] name = attribute == null || connection.connectionAttributes == null ? null : connection.connectionAttributes.get(attribute);
        String user = connection.user == null ? null : connection.user.getShortName();
        return name != null && name.length > 0 ? tenants.client(name, user) : tenants.client(user);
    }

    /** A call's tenant where no handler has it: by the request's attribute, else the connection's. */
    private static Tenants.Tenant tenant(ServerCall<?> call) {
        String attribute = Parts.attribute();
        byte[] name = attribute == null ? null : call.getRequestAttribute(attribute);
        String user = call.getRequestUser().map(each -> each.getShortName()).orElse(null);
        return name != null && name.length > 0 ? Scheduler.here().tenants().client(name, user) : tenant(call.connection);
    }

    /**
     * A call is answered by an exception, or by a batch of which something may have failed. Calls that have handlers apart, such as
     * those of replication, are no tenant's.
     */
    public static void answered(Object call, Object answer, Throwable failed) {
        try {
            String name = Here.name();
            if (failed instanceof CallQueueTooBigException && name == null) {
                Scheduler.here().figures().fails(tenant((ServerCall<?>) call), failed.getClass().getSimpleName());
            } else if (name != null && (failed != null || answer instanceof MultiResponse)) {
                String exception = failed != null ? failed.getClass().getSimpleName() : exception((MultiResponse) answer);
                if (exception != null) {
                    Scheduler.here().figures().fails(Scheduler.here().tenants().of(name), exception);
                }
            }
        } catch (RuntimeException | LinkageError unknown) {
            // The client has its answer, and the figures lack one.
        }
    }

    /** The first exception in a batch's answer, {@code null} if there is none. */
    static String exception(MultiResponse batch) {
        for (RegionActionResult region : batch.getRegionActionResultList()) {
            if (region.hasException()) {
                return name(region.getException());
            }
            for (ResultOrException each : region.getResultOrExceptionList()) {
                if (each.hasException()) {
                    return name(each.getException());
                }
            }
        }
        return null;
    }

    private static String name(NameBytesPair exception) {
        return exception.getName().substring(exception.getName().lastIndexOf('.') + 1);
    }

    /** Connections whose user is known. Those that were closed are forgotten. */
    private static final class Open {
        static final Set<ServerRpcConnection> ALL = Collections.newSetFromMap(new WeakHashMap<>());

        static {
            Scheduler.here().figures().connections(Open::byTenant);
        }

        static Map<String, Integer> byTenant() {
            List<ServerRpcConnection> all;
            synchronized (ALL) {
                ALL.removeIf(connection -> !connection.isConnectionOpen());
                all = new ArrayList<>(ALL);
            }
            Map<String, Integer> open = new HashMap<>();
            for (ServerRpcConnection connection : all) {
                try {
                    open.merge(tenant(connection).name, 1, Integer::sum);
                } catch (RuntimeException | LinkageError unknown) {
                    // The others are counted.
                }
            }
            return open;
        }
    }

    /** A connection says whose it is. */
    public static void opened(Object connection) {
        try {
            synchronized (Open.ALL) {
                Open.ALL.add((ServerRpcConnection) connection);
            }
        } catch (RuntimeException | LinkageError unknown) {
            // It serves, and the figures lack it.
        }
    }

    /** A connection with bytes to be read. */
    private record Ready(Object listener, SelectionKey key, Tenants.Tenant tenant) {
        void read() throws ReflectiveOperationException {
            try {
                Readers.DO_READ.invoke(listener, key);
            } finally {
                if (key.isValid()) {
                    key.interestOps(SelectionKey.OP_READ);
                    key.selector().wakeup();
                }
            }
        }
    }

    /** Threads that read: as many as processors, and one for each instance at least. */
    private static final class Readers {
        static final Method DO_READ;
        static final Reader[] ALL = new Reader[Math.max(PROCESSORS, Scheduler.here().count())];

        static {
            try {
                DO_READ = Class.forName("org.apache.hadoop.hbase.ipc.SimpleRpcServer$Listener").getDeclaredMethod("doRead", SelectionKey.class);
                DO_READ.setAccessible(true);
            } catch (ReflectiveOperationException otherVersion) {
                throw new ExceptionInInitializerError(otherVersion);
            }
            for (int number = 0; number < ALL.length; number++) {
                ALL[number] = new Reader(number);
                ALL[number].start();
            }
        }
    }

    private static final class Reader extends Thread {
        private final Stages<Object> instance;

        Reader(int number) {
            super("headworks-read-" + number);
            setDaemon(true);
            instance = Scheduler.here().instance(number % Scheduler.here().count());
        }

        @Override
        public void run() {
            Scheduler.here().figures().works(Stage.READ);
            while (true) {
                try {
                    Stages.Taken<Object> taken = instance.take(READ);
                    Ready ready = (Ready) taken.item;
                    long since = THREADS.getCurrentThreadCpuTime();
                    try {
                        ready.read();
                    } finally {
                        long[] cost = new long[Resource.COUNT];
                        cost[Resource.CPU.ordinal()] = (THREADS.getCurrentThreadCpuTime() - since) / PROCESSORS;
                        instance.done(taken, cost);
                        Scheduler.here().figures().served(Stage.READ, ready.tenant);
                    }
                } catch (InterruptedException | InvocationTargetException | CancelledKeyException closed) {
                    // The connection is closed, or the server stops: HBase's own readers find that, too.
                } catch (ReflectiveOperationException | RuntimeException | Error failed) {
                    // The thread goes on: others' connections wait for it.
                    System.err.println("headworks: a connection could not be read: " + failed);
                }
            }
        }
    }
}
